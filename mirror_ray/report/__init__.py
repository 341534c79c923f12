"""The throughput report: its figures, how far it has read, its files, its page. Spark's part is in mirror_ray.spark."""
