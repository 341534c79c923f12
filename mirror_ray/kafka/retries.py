"""Requests that are sent again while a cluster can't answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import did_not_answer, may_pass, no_broker_in_service
from mirror_ray.model.errors import MirrorError

_RETRY_S: Final = 0.1

_T = TypeVar("_T")


async def retry(
    cluster: ClusterConnections, what: str, attempt: Callable[[], Awaitable[_T]], time_limit_s: float
) -> _T:
    """The result of the first ``attempt`` that succeeds; ``what`` it does, for the error text.

    Raises:
        ClusterUnreachableError: The cluster did not answer until the time was over.
        MirrorError: An attempt failed in a way that will not pass; or the last error, when the time was over.
    """
    loop = asyncio.get_running_loop()
    deadline_s, failure = loop.time() + time_limit_s, None
    while True:
        try:
            async with asyncio.timeout_at(deadline_s):
                return await attempt()
        except (OSError, MirrorError) as error:
            if not may_pass(error):
                raise
            # The error of an attempt that the time limit interrupted has no text.
            failure = error if failure is None or str(error) else failure
            if loop.time() + _RETRY_S > deadline_s:
                if cluster.metadata.cluster_id and not cluster.metadata.brokers:
                    raise no_broker_in_service(cluster.settings) from error
                raise did_not_answer(cluster.settings, what, failure) from error
        await asyncio.sleep(_RETRY_S)
