"""Benchmarks of single parts: each is a command, ``make bench-...``."""
