"""Reads the record at each place on both sides, and compares them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.records_at import Fingerprint, records_at
from mirror_ray.failover.translated_offsets import GroupPlacement
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.offsets.translation import LogBounds

#: Partitions of each side that are read at once.
_AT_ONCE: Final = 16
_SHOWN: Final = 200


class _Pair(NamedTuple):
    """A place, whichever groups stand there."""

    origin: TopicPartition
    origin_offset: int
    destination: TopicPartition
    offset: int


async def verify(
    sides: FailoverClusters, places: Mapping[str, list[GroupPlacement]], *, with_source: bool
) -> dict[str, Any]:
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
    readable = [
        pair
        for pair in pairs
        if pair.origin in there and pair.destination in logs and ways[pair.origin] == 1
        if pair.origin_offset >= there[pair.origin].start
    ]
    wanted, found = await asyncio.gather(
        _records(sides, sides.origin, {(p.origin, p.origin_offset) for p in readable}, there),
        _records(sides, sides.destination, {(p.destination, p.offset) for p in readable}, logs),
    )
    compared = {
        pair: _differ(
            pair,
            wanted.get((pair.origin, pair.origin_offset)),
            found.get((pair.destination, pair.offset)),
            logs[pair.destination],
        )
        for pair in readable
    }
    # One side does not have the record any more, or never had it as such.
    answers = [compared.get(pair, "") for pair in pairs]
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


async def _records(
    sides: FailoverClusters,
    cluster: ClusterConnections,
    places: Collection[tuple[TopicPartition, int]],
    logs: Mapping[TopicPartition, LogBounds],
) -> dict[tuple[TopicPartition, int], Fingerprint]:
    """The records at these places of one side, where there are any."""
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for partition, offset in sorted(places):
        offsets[partition].append(offset)
    committed = sides.isolation_level == "read_committed"
    room = asyncio.Semaphore(_AT_ONCE)

    async def read(partition: TopicPartition) -> dict[tuple[TopicPartition, int], Fingerprint]:
        async with room:
            end = logs[partition].end
            found = await records_at(cluster, partition, offsets[partition], end, committed=committed)
        return {(partition, offset): record for offset, record in found.items()}

    every = await asyncio.gather(*map(read, offsets))
    return {place: record for found in every for place, record in found.items()}


def _differ(pair: _Pair, wanted: Fingerprint | None, found: Fingerprint | None, destination: LogBounds) -> str | None:
    """How they differ; None: they don't, "": one side does not have the record any more."""
    if wanted is None and found is None:
        return None
    where = f"{pair.origin} {pair.origin_offset} and {pair.destination} {pair.offset}"
    if wanted is None or found is None:
        # Behind all that was copied, others may write.
        return f"{where}: only one of them has a record" if wanted is not None else None
    stamped = wanted.append_time or found.append_time
    if (stamped or wanted.timestamp_ms == found.timestamp_ms) and wanted.digest == found.digest:
        return None
    # Where retention took the record itself, the group goes on at the start of the log.
    return "" if 0 < destination.start == pair.offset else where


def _is_transformed(sides: FailoverClusters, pair: _Pair) -> bool:
    if sides.flow.provenance.enabled:
        return True
    topic = (pair.origin if sides.kind == "failover" else pair.destination).topic
    patterns = (compile_patterns(step.topics) for step in sides.flow.transforms.steps)
    return any(pattern is not None and pattern.fits(topic) for pattern in patterns)


def _cleaned(sides: FailoverClusters, topics: Mapping[str, str]) -> set[str]:
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
