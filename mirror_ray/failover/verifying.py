"""Reads the record at each place on both sides, and compares them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from mirror_ray.copying.select import CommittedOnly
from mirror_ray.failover.places import Place
from mirror_ray.failover.sides import Sides, answered
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.fetch import FetchParameters
from mirror_ray.kafka.reading import fetch_at
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.filters import compile_patterns
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translate import LogBounds
from mirror_ray.records.batch import iter_batches
from mirror_ray.records.batch import verify as verify_checksum
from mirror_ray.records.decode import Record, records_of

_AT_ONCE: Final = 16
_SHOWN: Final = 200
#: A broker answers at least one batch whole, and little more.
_ONE_BATCH: Final = FetchParameters(
    max_wait_ms=0, min_bytes=0, max_bytes=64 << 10, max_partition_bytes=16 << 10, read_committed=True, rack=""
)


class _Pair(NamedTuple):
    """A place, whichever groups stand there."""

    origin: TopicPartition
    origin_offset: int
    destination: TopicPartition
    offset: int


class _Found(NamedTuple):
    record: Record
    #: The broker has set its timestamp.
    append_time: bool


async def verify(sides: Sides, places: Mapping[str, list[Place]], *, with_source: bool) -> dict[str, Any]:
    """Compare value, key, headers and timestamp of the record at each exact place.

    Without the source, only whether the place lies within the log.

    Raises:
        OSError, MirrorError: A side can't be read now.
    """
    every = [place for each in places.values() for place in each if place.offset is not None]
    logs = await sides.logs(sides.destination, {place.destination for place in every if place.destination})
    outside = [
        f"{place.destination} {place.offset}"
        for place in every
        if place.destination not in logs
        or not logs[place.destination].start <= (place.offset or 0) <= logs[place.destination].end
    ]
    if not with_source:
        return {"compared": len(every) - len(outside), "not_comparable": 0, "different": outside[:_SHOWN]}
    exact = [place for place in every if place.exact and place.origin_offset is not None]
    pairs = sorted(
        {_Pair(p.origin, p.origin_offset or 0, p.destination, p.offset or 0) for p in exact if p.destination}
    )
    # Of a topic that several were merged into, a place need not be a record of the one that the group goes back to.
    ways = Counter(origin for origin, _ in {(pair.origin, pair.destination) for pair in pairs})
    there = await sides.logs(sides.origin, {pair.origin for pair in pairs})
    room = asyncio.Semaphore(_AT_ONCE)

    async def compare(pair: _Pair) -> str | None:
        async with room:
            if pair.origin not in there or pair.destination not in logs or ways[pair.origin] > 1:
                return ""
            return await _compare(sides, pair, there[pair.origin], logs[pair.destination])

    answers = await asyncio.gather(*(compare(pair) for pair in pairs))
    cleaned = set()
    if any(answers):
        # Records that transforms have changed differ from those that they were made of.
        cleaned = {p.origin.topic for p in pairs if _is_transformed(sides, p)}
        cleaned |= await asyncio.to_thread(_cleaned, sides, {p.origin.topic: p.destination.topic for p in pairs})
    told = ["" if answer and p.origin.topic in cleaned else answer for p, answer in zip(pairs, answers, strict=True)]
    return {
        "compared": sum(answer != "" for answer in told),
        "not_comparable": len(every) - len(exact) + told.count(""),
        "different": (outside + [answer for answer in told if answer])[:_SHOWN],
    }


async def _compare(sides: Sides, pair: _Pair, origin: LogBounds, destination: LogBounds) -> str | None:
    """How they differ; None: they don't, "": one side does not have the record any more."""
    if pair.origin_offset < origin.start:
        return ""
    wanted, found = await asyncio.gather(
        _record_at(sides, sides.origin, pair.origin, pair.origin_offset, origin.end),
        _record_at(sides, sides.destination, pair.destination, pair.offset, destination.end),
    )
    if wanted is None and found is None:
        return None
    where = f"{pair.origin} {pair.origin_offset} and {pair.destination} {pair.offset}"
    if wanted is None or found is None:
        # Behind all that was copied, others may write.
        return f"{where}: only one of them has a record" if wanted is not None else None
    stamped = wanted.append_time or found.append_time
    same = stamped or wanted.record.timestamp == found.record.timestamp
    if same and wanted.record.tail == found.record.tail:
        return None
    # Where retention took the record itself, the group goes on at the start of the log.
    return "" if 0 < destination.start == pair.offset else where


async def _record_at(sides: Sides, cluster: Cluster, partition: TopicPartition, offset: int, end: int) -> _Found | None:
    """The first record that a consumer sees from there on."""
    committed = sides.isolation_level == "read_committed"
    ids = {partition: cluster.metadata.topics[partition.topic].topic_id}
    connection = await answered(cluster, cluster.connect(cluster.metadata.leader(partition), "verify"))
    position = offset
    while position < end:
        wanted, parameters = {partition: position}, replace(_ONE_BATCH, read_committed=committed)
        ((_, fetched),) = await answered(cluster, fetch_at(connection, ids, wanted, parameters))
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {partition} from {position}")
        batches = iter_batches(fetched.records) if len(fetched.records) else []
        if not batches:
            return None
        select = CommittedOnly(fetched.aborted if committed else ())
        for batch in batches:
            verify_checksum(batch)
            for record in records_of(batch) if select.copies(batch) else ():
                if record.offset >= offset:
                    return _Found(record, batch.is_log_append_time)
        position = batches[-1].next_offset
    return None


def _is_transformed(sides: Sides, pair: _Pair) -> bool:
    if sides.flow.provenance.enabled:
        return True
    topic = (pair.origin if sides.kind == "failover" else pair.destination).topic
    patterns = (compile_patterns(step.topics) for step in sides.flow.transforms.steps)
    return any(pattern is not None and pattern.fullmatch(topic) is not None for pattern in patterns)


def _cleaned(sides: Sides, topics: Mapping[str, str]) -> set[str]:
    """Topics of which a side is compacted: the record of a place may be gone there, and the next one differs."""
    found: set[str] = set()
    names = {t: t for t in topics}, {there: here for here, there in topics.items()}
    for cluster, of_origin in zip((sides.origin, sides.destination), names, strict=True):
        admin = ClusterAdmin(cluster.settings, "mirror-ray-failover")
        try:
            for name, configs in admin.describe_topic_configs(list(of_origin)).items():
                if "compact" in (configs["cleanup.policy"].value or ""):
                    found.add(of_origin[name])
        except MirrorError:
            # Without the right to look, no topic is taken for compacted.
            continue
        finally:
            admin.close()
    return found
