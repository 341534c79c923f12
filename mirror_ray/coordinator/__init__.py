"""The coordinator: discovery, assignment, scaling, limits, faults, backfills, commands and queries. No Ray."""
