"""Real Kafka and schema registries on this machine, for the demo, the tests and the benchmarks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirror_ray.lab.devcluster.broker import QUICK_START, Broker
    from mirror_ray.lab.devcluster.cluster import DevCluster, DevListener
    from mirror_ray.lab.devcluster.clusters import run_clusters, stop_clusters
    from mirror_ray.lab.devcluster.registry import ApicurioRegistry
    from mirror_ray.lab.devcluster.security import DevSecurity

__all__ = [
    "QUICK_START",
    "ApicurioRegistry",
    "Broker",
    "DevCluster",
    "DevListener",
    "DevSecurity",
    "run_clusters",
    "stop_clusters",
]

_HOMES = {
    "broker": ("QUICK_START", "Broker"),
    "cluster": ("DevCluster", "DevListener"),
    "clusters": ("run_clusters", "stop_clusters"),
    "registry": ("ApicurioRegistry",),
    "security": ("DevSecurity",),
}


def __getattr__(name: str) -> Any:
    # Imported on first use: few need certificates.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
