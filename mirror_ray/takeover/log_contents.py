"""What both clusters hold of partitions that MM2 has copied, while it is stopped."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.leader_requests import IsolationLevel
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.offsets.log_bounds import settled_bounds
from mirror_ray.offsets.translation import ReadableBounds
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.replication.target_log import content_of
from mirror_ray.takeover.decisions import PartitionFindings
from mirror_ray.takeover.mm2_progress import NOTHING_ALIKE, ProgressMatch, match
from mirror_ray.verification.partition_log import PartitionLog, RemovedError

#: How many source offsets are read up to MM2's source offset, one of which is to be recognized on the target, and how
#: many behind it: more only where fewer leave a doubt.
_WINDOWS: Final = ((100, 400), (1_000, 50_000), (1_000, 500_000))
#: The target may hold records twice, and markers.
_TARGET_FACTOR: Final = 2
#: Readings of the first window at the same time; larger ones come one after the other.
_AT_ONCE: Final = 16
_BOTH_LEVELS: Final[tuple[IsolationLevel, ...]] = ("read_committed", "read_uncommitted")

#: Whose transactions may be open, for errors.
WHOSE: Final = "MirrorMaker 2"

Pairs = Sequence[tuple[int, int]]


async def read_all(cluster: ClusterConnections, topic: str, last: int | None = None) -> list[DecodedRecord]:
    """All committed records of a topic, or of each partition the ``last`` offsets; none where there is no topic.

    Raises:
        ClusterUnreachableError: A leader does not answer.
        NotReadyError: A transaction is open there.
    """
    found = cluster.metadata.topics.get(topic)
    if found is None or not found.partitions:
        return []
    partitions = [TopicPartition(topic, number) for number in found.partitions]
    bounds = await settled_bounds(cluster, partitions, whose=WHOSE)

    async def read(partition: TopicPartition) -> list[DecodedRecord]:
        start, end = bounds[partition]
        if last is not None:
            start = max(start, end - last)
        log = PartitionLog(cluster, partition, found.topic_id, purpose="takeover")
        return [record async for records in log.records(start, end) for record in records]

    return [record for records in await asyncio.gather(*map(read, bounds)) for record in records]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedContents:
    """A partition whose contents are to be compared."""

    findings: PartitionFindings
    source_id: TopicId
    remote: TopicPartition
    remote_id: TopicId
    #: MM2's offset-syncs of it.
    pairs: Pairs
    #: Whether timestamps are the source's on the target, too.
    timed: bool


class LogContents:
    """Compares what source and target hold around MM2's source offsets."""

    def __init__(self, source: ClusterConnections, target: ClusterConnections, isolation_level: IsolationLevel) -> None:
        """``isolation_level``: the flow's; MM2 may have read by the other one."""
        self._source, self._target = source, target
        self._levels = sorted(_BOTH_LEVELS, key=lambda level: level != isolation_level)
        self._small, self._large = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(1)

    async def compare(self, asked: Sequence[ComparedContents]) -> dict[TopicPartition, ProgressMatch]:
        """What the end of each target partition's log tells.

        Raises:
            ClusterUnreachableError: A leader does not answer.
            MirrorError: Records were deleted just now, or are corrupt.
        """
        found = await asyncio.gather(*map(self._compare, asked))
        return {compared.findings.source: match for compared, match in zip(asked, found, strict=True)}

    async def _compare(self, asked: ComparedContents) -> ProgressMatch:
        best = ProgressMatch(copied=0, doubtful=asked.findings.source_end, reason=NOTHING_ALIKE)
        # Without timestamps contents come round again sooner.
        for window in _WINDOWS if asked.timed else _WINDOWS[1:]:
            async with self._small if window is _WINDOWS[0] else self._large:
                for level in self._levels:
                    found, complete = await self._compare_window(asked, *window, committed=level == "read_committed")
                    if _better(found, best):
                        best = found
                    if found.exact:
                        return found
                if complete:
                    break
        return best

    async def _compare_window(
        self, asked: ComparedContents, before: int, behind: int, *, committed: bool
    ) -> tuple[ProgressMatch, bool]:
        """What a window tells; and whether it was all that there is."""
        findings = asked.findings
        target = ReadableBounds(*(findings.target or (0, 0)))
        following = 0 if findings.noted is None else findings.noted + 1
        first = max(findings.source_start, following - before)
        end = min(findings.source_end, max(following, findings.source_start) + behind)
        start = max(target.start, target.end - _TARGET_FACTOR * (before + behind))
        source = PartitionLog(self._source, findings.source, asked.source_id, committed, "takeover")
        remote = PartitionLog(self._target, asked.remote, asked.remote_id, purpose="takeover")
        try:
            (ours, contents), (theirs, held) = await asyncio.gather(
                _read(source, first, end, timed=asked.timed), _read(remote, start, target.end, timed=asked.timed)
            )
        except RemovedError as error:
            raise MirrorError(
                f"{findings.source} or {asked.remote}: records below {error.start} were deleted while they were read: "
                f"run this again"
            ) from error
        noted = bisect_left(ours, following)
        index = {offset: number for number, offset in enumerate(ours)}
        known = {target: index[source] for source, target in asked.pairs if source in index}
        named = {number: known[offset] for number, offset in enumerate(theirs) if offset in known}
        found = match(contents[:noted], contents[noted:], held, named)
        if found.copied:
            found = replace(found, next_offset=ours[noted + found.copied - 1] + 1)
        return found, end == findings.source_end and start == target.start


def _better(found: ProgressMatch, than: ProgressMatch) -> bool:
    return (found.copied, -found.doubtful) > (than.copied, -than.doubtful)


async def _read(log: PartitionLog, start: int, end: int, *, timed: bool) -> tuple[list[int], list[bytes]]:
    """Offsets and contents; not the records, which may be large."""
    offsets: list[int] = []
    contents: list[bytes] = []
    async for records in log.records(start, end):
        offsets += [record.offset for record in records]
        contents += [content_of(record, timed=timed) for record in records]
    return offsets, contents
