"""The schema of a flow's state topic, and the names of a system's actors. Low: every room may read it."""
