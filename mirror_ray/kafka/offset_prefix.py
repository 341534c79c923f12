"""Brings the end of an empty log to an offset by fillers, which are to be deleted then."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.produce_batch import produce_batch
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.records.batch import rewrite
from mirror_ray.records.filler import filler_batch, most_fillers

_PURPOSE: Final = "prefix"
#: Of a batch; what a broker takes of them in a second is in ``topics.preservation``.
_FILLERS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPrefix:
    """What a remote partition lacks: offsets from ``log_end`` to before ``end``."""

    partition: TopicPartition
    log_end: int
    end: int
    #: The flow's: its sequences are the offsets modulo 2^31, so that no filler is appended twice, or beside its place.
    producer: tuple[int, int]
    max_message_bytes: int
    #: Whether the topic is compacted, and takes no record without a key.
    keyed: bool


async def fill_prefix(cluster: ClusterConnections, prefix: OffsetPrefix) -> None:
    """Append the fillers.

    Raises:
        OSError, MirrorError: Some of them may be there: read the log end, and go on from there.
    """
    at, batch = prefix.log_end, None
    most = most_fillers(prefix.max_message_bytes, _FILLERS)
    now_ms = time.time_ns() // 1_000_000
    while at < prefix.end:
        count = min(most, prefix.end - at)
        if batch is None or batch.count != count:
            batch = await asyncio.to_thread(filler_batch, count, now_ms, marked=prefix.keyed)
        rewrite(batch, *prefix.producer, at % SEQUENCE_MODULUS)
        answer = await produce_batch(cluster, prefix.partition, batch.view, purpose=_PURPOSE)
        if answer.error_code:
            raise protocol_error(answer.error_code, f"fill {prefix.partition} up to offset {prefix.end}")
        if answer.base_offset != at:
            raise MirrorError(
                f"{prefix.partition}: fillers for offset {at} are at {answer.base_offset}: who writes there?"
            )
        at += count
