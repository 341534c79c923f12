"""A leader in this process that answers Fetch as a test says; kio reads what it is asked and writes what it says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple, cast

from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_requests import OffsetAnswer
from mirror_ray.model.names import TopicPartition
from tests.unit.kafka.group_brokers import module, read, written

ORDERS = TopicPartition("orders", 0)
_VERSION = 12


class Said(NamedTuple):
    """One answer. ``absent``: it has no partition at all, as over a quota."""

    records: bytes = b""
    shown: int = 0
    error_code: int = 0
    throttle_ms: int = 0
    absent: bool = False


@dataclass
class Leader:
    """Says one answer after the other, the last one again and again; it is its cluster and its connection, too."""

    says: Sequence[Said]
    #: What ListOffsets says of the end, one after the other.
    ends: Sequence[int] = ()
    #: The offsets that were asked for.
    asked: list[int] = field(default_factory=list)
    ends_told: int = 0

    name = "broker 1"
    settings = SimpleNamespace(alias="A")
    metadata = SimpleNamespace(leader=lambda _partition: 1)

    def as_cluster(self) -> ClusterConnections:
        """For the code under test."""
        return cast("ClusterConnections", self)

    async def connect(self, broker: int, purpose: str) -> Leader:
        return self

    async def refresh(self, topics: Collection[str]) -> None:
        """See ``ClusterConnections``."""

    async def list_offsets(self, wanted: Mapping[TopicPartition, int], isolation: str) -> dict[TopicPartition, object]:
        self.ends_told += 1
        end = self.ends[min(self.ends_told, len(self.ends)) - 1]
        return {partition: OffsetAnswer(end, 0) for partition in wanted}

    def best_version(self, api_key: int, lowest: int, highest: int) -> int:
        return _VERSION

    def expect_silence(self, seconds: float) -> None:
        """See ``Connection``."""

    async def send(self, api_key: int, version: int, flexible: bool, parts: Sequence[bytes]) -> memoryview:
        request = read(module("fetch", _VERSION, EntityType.request).FetchRequest, b"".join(parts))
        ((partition,),) = (topic.partitions for topic in request.topics)
        said = self.says[min(len(self.asked), len(self.says) - 1)]
        self.asked.append(partition.fetch_offset)
        return memoryview(bytearray(_encoded(said)))


def _encoded(said: Said) -> bytes:
    m = module("fetch", _VERSION, EntityType.response)
    partition = m.PartitionData(
        partition_index=ORDERS.partition,
        error_code=ErrorCode(0 if said.absent else said.error_code),
        high_watermark=said.shown,
        last_stable_offset=said.shown,
        log_start_offset=0,
        aborted_transactions=(),
        records=said.records,
    )
    topic = m.FetchableTopicResponse(topic=ORDERS.topic, partitions=(partition,))
    return written(
        m.FetchResponse(
            throttle_time=i32Timedelta.parse(dt.timedelta(milliseconds=said.throttle_ms)),
            error_code=ErrorCode(said.error_code if said.absent else 0),
            responses=() if said.absent else (topic,),
        )
    )
