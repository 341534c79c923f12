"""Whether a copy is equal to its source, record by record: what is compared, and what a difference is."""
