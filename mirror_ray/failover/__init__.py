"""Failover and failback: plans of nine steps that move consumer groups from one side of a flow to the other."""
