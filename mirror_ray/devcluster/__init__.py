"""Real Kafka on this machine, for the demo, the tests and the benchmark."""

from __future__ import annotations

from mirror_ray.devcluster.broker import QUICK_START, Broker
from mirror_ray.devcluster.cluster import DevCluster
from mirror_ray.devcluster.clusters import run_clusters, stop_clusters
from mirror_ray.devcluster.jars import cache_dir, ensure_jars
from mirror_ray.devcluster.security import DevSecurity

__all__ = [
    "QUICK_START",
    "Broker",
    "DevCluster",
    "DevSecurity",
    "cache_dir",
    "ensure_jars",
    "run_clusters",
    "stop_clusters",
]
