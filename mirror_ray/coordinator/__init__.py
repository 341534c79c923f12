"""What the coordinator decides: discovery, anchors, assignment, snapshots. Pure: time comes in as a value."""
