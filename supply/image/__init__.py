"""The container image: built by Docker or by buildah, unpacked, entered, run and measured."""
