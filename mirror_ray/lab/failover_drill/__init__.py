"""A failover drilled on two real clusters: under live traffic, and with every process killed in each step."""
