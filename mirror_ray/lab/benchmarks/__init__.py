"""Benchmarks of single parts: each a command, ``make bench-...``."""
