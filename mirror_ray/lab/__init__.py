"""The laboratory: real Kafka on this machine, traffic, benchmarks, chaos runs and failover drills."""
