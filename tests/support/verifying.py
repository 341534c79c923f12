"""Copies with one fault in them, and what verification says of a copy."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.names import TopicPartition
from mirror_ray.verification.difference import DifferenceKind, RecordField
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.report import VerifyReport
from mirror_ray.verification.run import MakeFirstPass, Verification, verify_flow
from tests.support.clusters import KafkaCluster
from tests.support.kafka import Message, create_topic, produce
from tests.support.reading import Record, end_offsets, read_all
from tests.support.replicated import FLOW

#: What is done to the records of a copy at a place, and what is to be said of it.
FAULTS: Mapping[str, tuple[Callable[[list[Record], int], object], DifferenceKind, tuple[RecordField, ...]]] = {
    "missing": (lambda records, at: records.pop(at), "missing", ()),
    "doubled": (lambda records, at: records.insert(at + 1, records[at]), "doubled", ()),
    "swapped": (lambda records, at: records.insert(at, records.pop(at + 1)), "swapped", ()),
    "foreign": (lambda records, at: records.insert(at, Record(b"x", b"y", (), 1, 5)), "extra", ()),
    "key": (lambda records, at: _set(records, at, key=b"other"), "changed", ("key",)),
    "value": (lambda records, at: _set(records, at, value=_flipped(records[at].value)), "changed", ("value",)),
    "headers": (lambda records, at: _set(records, at, headers=(("a", None), ("a", b""))), "changed", ("headers",)),
    "timestamp": (
        lambda records, at: _set(records, at, timestamp_ms=records[at].timestamp_ms + 1),
        "changed",
        ("timestamp",),
    ),
}


def _set(records: list[Record], at: int, **fields: Any) -> None:
    records[at] = records[at]._replace(**fields)


def _flipped(value: bytes | None) -> bytes:
    value = value or b"\0"
    return value[:-1] + bytes([value[-1] ^ 1])


def plant(cluster: KafkaCluster, remote: str, fault: Callable[[list[Record], int], object], at: int) -> str:
    """A copy of partition 0 of a remote topic with a fault in it, in a new topic."""
    config = cluster.confluent_config()
    records = read_all(config, remote)[0]
    fault(records, at)
    planted = create_topic(config, f"planted-{uuid.uuid4().hex[:8]}")
    messages = [Message(record.value, record.key, record.headers, 0, record.timestamp_ms) for record in records]
    produce(config, planted, messages, batch_num_messages=37)
    return planted


async def with_copy(verifying: Verification, job: CompareJob, planted: str, target: KafkaCluster) -> CompareJob:
    """The same job, with the planted topic for the copy."""
    end = end_offsets(target.confluent_config(), planted)[0]
    metadata = await verifying.target.refresh([planted])
    last = job.ranges[-1]._replace(target_end=end)
    return replace(
        job,
        target=TopicPartition(planted, 0),
        target_topic_id=metadata.topics[planted].topic_id,
        end=job.end._replace(target=end),
        ranges=(*job.ranges[:-1], last),
    )


async def verified(
    settings: MirrorSettings, topics: Sequence[str], make_first_pass: MakeFirstPass | None = None, **wanted: Any
) -> VerifyReport:
    """The report of these topics."""
    return await verify_flow(
        settings, FLOW, VerifyRequest(topics=tuple(topics), **wanted), make_first_pass=make_first_pass
    )
