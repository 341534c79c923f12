"""Where a source offset is on the target: the map, and what is made of it for consumer groups."""
