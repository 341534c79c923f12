"""Kafka replication between clusters by Ray actors. ``mirror_ray.attach()`` gives a handle on a running system."""

from mirror_ray.attach import attach

__version__ = "0.1.0"

__all__ = ["__version__", "attach"]
