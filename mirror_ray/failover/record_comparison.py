"""Compares the record at each translated offset on both clusters."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from mirror_ray.config.transforms import translates_schema_ids
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.records_at import Fingerprint, records_at
from mirror_ray.groups.translated_offset import TranslatedGroups
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.offsets.translation import ReadableBounds
from mirror_ray.transforms.framing import without_ids

#: Partitions of each cluster that are read at once.
_AT_ONCE: Final = 16
_SHOWN: Final = 200


class _Pair(NamedTuple):
    """An offset and its translation, whichever groups are there."""

    origin: TopicPartition
    origin_offset: int
    destination: TopicPartition
    offset: int


async def verify(clusters: FailoverClusters, offsets: TranslatedGroups, *, with_source: bool) -> dict[str, Any]:
    """Compare value, key, headers and timestamp of the record at each exact offset; schema ids where they stay.

    Without the source, only whether the offset lies within the log.
    """
    every = [offset for of_group in offsets.values() for offset in of_group if offset.offset is not None]
    logs = await clusters.logs(clusters.destination, {offset.destination for offset in every if offset.destination})
    outside = [
        f"{offset.destination} {offset.offset}"
        for offset in every
        if offset.destination not in logs
        or not logs[offset.destination].start <= (offset.offset or 0) <= logs[offset.destination].end
    ]
    if not with_source:
        return {"compared": len(every) - len(outside), "not_comparable": 0, "different": outside[:_SHOWN]}
    exact = [offset for offset in every if offset.exact and offset.origin_offset is not None]
    pairs = sorted(
        {_Pair(o.origin, o.origin_offset or 0, o.destination, o.offset or 0) for o in exact if o.destination}
    )
    # Where several topics were merged, the next record may be of another one than the group goes back to.
    ways = Counter(origin for origin, _ in {(pair.origin, pair.destination) for pair in pairs})
    origin_logs = await clusters.logs(clusters.origin, {pair.origin for pair in pairs})
    readable = [
        pair
        for pair in pairs
        if pair.origin in origin_logs and pair.destination in logs and ways[pair.origin] == 1
        if pair.origin_offset >= origin_logs[pair.origin].start
    ]
    wanted, found = await asyncio.gather(
        _records(clusters, clusters.origin, {(pair.origin, pair.origin_offset) for pair in readable}, origin_logs),
        _records(clusters, clusters.destination, {(pair.destination, pair.offset) for pair in readable}, logs),
    )
    compared = {
        pair: _difference(
            pair,
            wanted.get((pair.origin, pair.origin_offset)),
            found.get((pair.destination, pair.offset)),
            logs[pair.destination],
        )
        for pair in readable
    }
    # "" is a pair that can't be compared: one cluster does not have the record any more, or never had it as such.
    differences = [compared.get(pair, "") for pair in pairs]
    changed: set[str] = set()
    if any(differences):
        # Records that transforms have changed differ from those that they were made of.
        changed = {pair.origin.topic for pair in pairs if _is_transformed(clusters, pair)}
        topics = {pair.origin.topic: pair.destination.topic for pair in pairs}
        changed |= await asyncio.to_thread(_compacted, clusters, topics)
    results = [
        "" if difference and pair.origin.topic in changed else difference
        for pair, difference in zip(pairs, differences, strict=True)
    ]
    return {
        "compared": sum(result != "" for result in results),
        "not_comparable": len(every) - len(exact) + results.count(""),
        "different": (outside + [result for result in results if result])[:_SHOWN],
    }


async def _records(
    clusters: FailoverClusters,
    cluster: ClusterConnections,
    wanted: Collection[tuple[TopicPartition, int]],
    logs: Mapping[TopicPartition, ReadableBounds],
) -> dict[tuple[TopicPartition, int], Fingerprint]:
    """The records at these offsets of one cluster, where there are any."""
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for partition, offset in sorted(wanted):
        offsets[partition].append(offset)
    committed = clusters.isolation_level == "read_committed"
    compared = without_ids if any(map(translates_schema_ids, (clusters.ahead, clusters.back))) else bytes
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(partition: TopicPartition) -> dict[tuple[TopicPartition, int], Fingerprint]:
        async with slots:
            end = logs[partition].end
            found = await records_at(
                cluster, partition, offsets[partition], end, committed=committed, compared=compared
            )
        return {(partition, offset): record for offset, record in found.items()}

    of_partitions = await asyncio.gather(*map(read, offsets))
    return {key: record for found in of_partitions for key, record in found.items()}


def _difference(
    pair: _Pair, wanted: Fingerprint | None, found: Fingerprint | None, destination: ReadableBounds
) -> str | None:
    """How two records differ; None: they don't, "": one cluster does not have the record any more."""
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


def _is_transformed(clusters: FailoverClusters, pair: _Pair) -> bool:
    if clusters.flow.provenance.enabled:
        return True
    topic = (pair.origin if clusters.kind == "failover" else pair.destination).topic
    patterns = (compile_patterns(step.topics) for step in clusters.flow.transforms.steps)
    return any(pattern is not None and pattern.fits(topic) for pattern in patterns)


def _compacted(clusters: FailoverClusters, topics: Mapping[str, str]) -> set[str]:
    """Topics that are compacted on one cluster: the record may be gone there, and the next one differs."""
    found: set[str] = set()
    names = {topic: topic for topic in topics}, {remote: origin for origin, remote in topics.items()}
    for cluster, of_origin in zip((clusters.origin, clusters.destination), names, strict=True):
        admin = ClusterAdmin(cluster.settings, "mirror-ray-failover")
        try:
            for name, configs in admin.describe_topic_configs(list(of_origin)).items():
                if "compact" in (configs["cleanup.policy"].value or ""):
                    found.add(of_origin[name])
        except MirrorError:
            # Without the right to read configs, no topic is taken for compacted.
            continue
        finally:
            admin.close()
    return found
