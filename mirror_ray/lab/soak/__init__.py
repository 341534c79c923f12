"""Memory and files of a running system over an hour: `make soak`."""
