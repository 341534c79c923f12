"""Topics: which remote topics a flow needs, what differs from them, and the plan before anything is done."""
