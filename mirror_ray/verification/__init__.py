"""Compares a copy with its source, record by record: what is compared, and what a difference is."""
