"""Schema registries: mirrors the subjects of a flow's source registry into that of its target."""
