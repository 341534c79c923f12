"""Kafka's bytes: record batches passed through or repacked, and MM2's internal records."""
