"""Which cluster answers at an address."""

from __future__ import annotations

import asyncio

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError

_PATIENCE_S = 15.0


async def cluster_id(settings: ClusterSettings) -> str:
    """The id that the cluster's storage was formatted with; "" where its brokers don't tell.

    Raises:
        ClusterUnreachableError: No broker answers, or none lets us in.
        ConfigError: Security settings can't be used.
    """
    cluster = ClusterConnections(settings, "mirror-ray-identity")
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return (await cluster.refresh(())).cluster_id
    except TimeoutError:
        servers = ", ".join(settings.bootstrap_servers)
        raise ClusterUnreachableError(
            f"cluster {settings.alias} did not answer within {_PATIENCE_S:g} s: check {settings.alias}."
            f"bootstrap.servers = {servers} and that its brokers are up"
        ) from None
    finally:
        await cluster.close()
