"""The chaos run: a real system on this machine, faults by a seeded schedule, and every record compared at the end."""
