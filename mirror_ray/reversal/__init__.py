"""Reverses a flow whose remote topics keep their names: the flow back goes on in the same topics, where it was left."""
