"""Vocabulary and rules of replication. Pure: no I/O, no clock, no Ray, no Kafka client."""
