"""Why a target gives a flow no producer, and what to do then."""

from __future__ import annotations

from typing import cast

import pytest

from mirror_ray.coordinator.flow_clusters import KafkaFlowClusters
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.handshake import UNSUPPORTED_VERSION
from mirror_ray.model.errors import KafkaProtocolError


class Target:
    """A broker that speaks InitProducerId up to some version, and refuses producers by that error, if any."""

    def __init__(self, version: int, error_code: int = 0) -> None:
        self._version, self._error_code = version, error_code

    async def init_producer_id(self, *, lowest_version: int) -> tuple[int, int]:
        code = UNSUPPORTED_VERSION if self._version < lowest_version else self._error_code
        if code:
            raise KafkaProtocolError(code, "REFUSED", "InitProducerId on cluster B")
        return 7, 0


async def new_producer(target: Target) -> tuple[int, int]:
    """As a flow with that target asks for one."""
    port = object.__new__(KafkaFlowClusters)
    port._target = cast("ClusterConnections", target)
    return await port.new_producer()


async def test_a_target_before_kafka_2_5() -> None:
    """It is refused before anything is copied: such a broker takes nothing from a producer that it has forgotten."""
    with pytest.raises(KafkaProtocolError, match=r"cluster B.*older than Kafka 2\.5.*at_least_once"):
        await new_producer(Target(2))
    assert await new_producer(Target(3)) == (7, 0)


async def test_a_target_that_refuses_idempotent_writes() -> None:
    """The right that is missing is named."""
    with pytest.raises(KafkaProtocolError, match="IDEMPOTENT_WRITE"):
        await new_producer(Target(4, 31))
