"""Which cluster answers at an address."""

from __future__ import annotations

import asyncio

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import did_not_answer

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
        raise did_not_answer(settings, "ask for its id", f"no answer within {_PATIENCE_S:g} s") from None
    finally:
        await cluster.close()
