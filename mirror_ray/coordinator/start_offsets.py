"""Where partitions that are new to a flow begin, asked of the source."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from mirror_ray.coordinator.ports import FlowClusters
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.start import EARLIEST, StartPosition, out_of_bounds


async def find_starts(
    port: FlowClusters, starts: Mapping[str, StartPosition], fresh: Mapping[str, Sequence[int]]
) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    """The first offsets to copy; partitions that can't be asked now are left out.

    Args:
        port: The flow's.
        starts: By topic; one without begins at its earliest record, and so does a partition without an offset.
        fresh: Partitions by topic.

    Returns:
        The offsets, and by topic why it can't begin where it should.

    Raises:
        MirrorError: The source can't be reached, or refuses.
    """
    asked = {
        TopicPartition(topic, number): starts.get(topic, EARLIEST)
        for topic, numbers in fresh.items()
        for number in numbers
    }
    named = {
        each: dict(start.offsets)[each.partition]
        for each, start in asked.items()
        if each.partition in dict(start.offsets)
    }
    firsts = [each for each, start in asked.items() if start.kind in ("earliest", "offsets")]
    ends = [each for each, start in asked.items() if start.kind == "latest" or each in named]
    times = {each: start.time_ms for each, start in asked.items() if start.kind == "timestamp"}
    first, end, since = await asyncio.gather(
        port.source_offsets(firsts, latest=False), port.source_offsets(ends, latest=True), port.offsets_since(times)
    )
    found = {each: first[each] for each in firsts if each in first and each not in named}
    found |= {each: end[each] for each in ends if each in end and each not in named} | dict(since)
    bounds = {each: (first[each], end[each]) for each in named if each in first and each in end}
    misplaced: dict[str, str] = {}
    for topic in fresh.keys() & starts.keys():
        within = {each.partition: pair for each, pair in bounds.items() if each.topic == topic}
        if reason := out_of_bounds(topic, starts[topic], fresh[topic], within):
            misplaced[topic] = reason
    found |= {each: named[each] for each in bounds}
    return found, misplaced
