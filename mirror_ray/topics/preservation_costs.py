"""Finds out what it costs to begin a flow's topics whose offsets are preserved. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.start import EARLIEST, StartPosition
from mirror_ray.topics.cluster_reader import ClusterReader
from mirror_ray.topics.comparison import PartitionFacts, SideFacts
from mirror_ray.topics.discovery_rules import TargetLogBounds
from mirror_ray.topics.flow_plan import PlanFacts, start_positions
from mirror_ray.topics.preservation import PreservationCost, missing_prefixes, runs_in, sample_of

#: Topics that are asked about at a time.
_AT_ONCE: Final = 8
#: Places of a partition that are read, at equal distances, and how much of each at most, but for one batch.
_PLACES: Final = 8
_PLACE_BYTES: Final = 64 << 10


async def preservation_costs(facts: PlanFacts, source: ClusterReader) -> tuple[PreservationCost, ...]:
    """The costs of the topics that have partitions without progress.

    Of a compacted topic a sample is read: its longest partition at a few places, for keys are spread over all.
    """
    rules, starts, slots = replication_rules(facts.flow), start_positions(facts), asyncio.Semaphore(_AT_ONCE)

    async def cost_of(topic: str) -> PreservationCost | None:
        start = starts.get(topic, facts.state.starts.get(topic, EARLIEST))
        async with slots:
            return await _cost_of(topic, start, facts, source)

    topics = [topic for topic in facts.remote_names if topic in facts.sources and rules.preserves_offsets(topic)]
    costs = await asyncio.gather(*map(cost_of, topics))
    return tuple(cost for cost in costs if cost is not None)


async def begun_prefixes(facts: PlanFacts, target: ClusterReader) -> frozenset[TopicPartition]:
    """Remote partitions without progress that hold fillers of this flow alone: it goes on filling them.

    Raises:
        MirrorError: The target can't be asked.
    """
    rules, ours = replication_rules(facts.flow), facts.state.flow
    if ours is None:
        return frozenset()
    ends = {
        TopicPartition(remote, number): partition.end
        for topic, remote in facts.remote_names.items()
        if rules.preserves_offsets(topic) and remote in facts.remotes
        for number, partition in facts.remotes[remote].partitions.items()
        if partition.start is not None and partition.end is not None and partition.end > partition.start
        if TopicPartition(topic, number) not in facts.state.partitions
    }
    producers = await target.last_producers(ends) if ends else {}
    return frozenset(partition for partition, producer in producers.items() if producer == ours.producer_id)


async def _cost_of(
    topic: str, start: StartPosition, facts: PlanFacts, source: ClusterReader
) -> PreservationCost | None:
    side, remote_topic = facts.sources[topic], facts.remote_names[topic]
    fresh = {
        number: partition
        for number, partition in side.partitions.items()
        if TopicPartition(topic, number) not in facts.state.partitions
    }
    firsts = await _first_offsets(topic, start, fresh, source)
    if not firsts:
        return None
    remote = facts.remotes.get(remote_topic)
    prefixes = missing_prefixes({number: (first, _bounds(remote, number)) for number, first in firsts.items()})
    lengths = {number: max(0, (fresh[number].end or 0) - first) for number, first in firsts.items()}
    longest = max(lengths, key=lengths.__getitem__)
    runs = None
    if lengths[longest] and _is_compacted(side):
        runs = await _runs(side, longest, firsts[longest], lengths[longest], source)
    return PreservationCost(
        topic=topic,
        remote_topic=remote_topic,
        partitions=len(firsts),
        prefix_offsets=sum(prefixes.values()),
        longest_prefix=max(prefixes.values()),
        runs=None if runs is None else round(runs * sum(lengths.values()) / lengths[longest]),
        longest_runs=runs,
    )


async def _first_offsets(
    topic: str, start: StartPosition, fresh: Mapping[int, PartitionFacts], source: ClusterReader
) -> dict[int, int]:
    """The first offsets to copy, of the partitions whose bounds are known."""
    named = dict(start.offsets)
    times = {TopicPartition(topic, number): start.time_ms for number in fresh} if start.kind == "timestamp" else {}
    since = await source.offsets_since(times) if times else {}
    found = {
        number: since.get(TopicPartition(topic, number), partition.end)
        if start.kind in ("timestamp", "latest")
        else named.get(number, partition.start)
        for number, partition in fresh.items()
    }
    return {number: first for number, first in found.items() if first is not None}


def _bounds(remote: SideFacts | None, number: int) -> TargetLogBounds:
    """Of a remote partition; one that is still to be created begins and ends at 0."""
    known = remote.partitions.get(number) if remote is not None else None
    start, end = (known.start, known.end) if known is not None else (None, None)
    return TargetLogBounds(start=start or 0, end=end or 0)


def _is_compacted(side: SideFacts) -> bool:
    policy = side.configs.get("cleanup.policy") if side.configs is not None else None
    return policy is not None and "compact" in (policy.value or "")


async def _runs(side: SideFacts, number: int, first: int, length: int, source: ClusterReader) -> int | None:
    """The runs of records of a partition from its offset ``first`` on, by a sample; None: it can't be read."""
    partition = TopicPartition(side.topic, number)
    edges = [first + place * length // _PLACES for place in range(_PLACES + 1)]
    try:
        return runs_in(
            [
                sample_of(await source.read_at(partition, edge, _PLACE_BYTES), edge, behind)
                for edge, behind in pairwise(edges)
                if edge < behind
            ]
        )
    except (OSError, MirrorError):
        return None
