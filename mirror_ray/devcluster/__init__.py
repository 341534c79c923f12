"""Real Kafka on this machine, for the demo, the tests and the benchmark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "broker": ("QUICK_START", "Broker"),
    "cluster": ("DevCluster",),
    "clusters": ("run_clusters", "stop_clusters"),
    "jars": ("cache_dir", "ensure_jars"),
    "security": ("DevSecurity",),
}


def __getattr__(name: str) -> Any:
    # Imported when it is first used: every command asks for the cache directory, and few for certificates.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
