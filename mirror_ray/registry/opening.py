"""Opens the registry of a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.model.errors import NotReadyError
from mirror_ray.registry.client import RegistryClient
from mirror_ray.registry.registry import SchemaRegistry


@asynccontextmanager
async def open_registry(cluster: ClusterSettings, client_id: str) -> AsyncIterator[SchemaRegistry]:
    """The registry of a cluster.

    Raises:
        NotReadyError: The settings name none.
    """
    if cluster.registry is None:
        raise NotReadyError(f"cluster {cluster.alias} has no schema registry: set {cluster.alias}.schema.registry.url")
    async with RegistryClient(cluster.alias, cluster.registry, client_id=client_id) as client:
        yield SchemaRegistry(client)
