"""Ray at length: several nodes on this machine, each a network of its own, in two regions; `make ray-nodes`."""
