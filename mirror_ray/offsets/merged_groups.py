"""Groups of remote topics that several topics are copied into: brings their positions together, round by round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.offsets import LATEST, IsolationLevel
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.group_book import Entry, GroupBook, decode_written
from mirror_ray.offsets.maps import FlowMaps
from mirror_ray.offsets.merged import SOURCES_HEADER, Part, decode_sources, encode_sources, merge
from mirror_ray.offsets.translate import LogBounds, Translation
from mirror_ray.offsets.ways import log_bounds
from mirror_ray.records.internal import Checkpoint

_UNKNOWN = Translation(offset=None, reason="its place is being looked up")
#: A group, and a partition on the target.
_Standing = tuple[str, TopicPartition]


async def read_to_the_end(
    source: Cluster, committed: Collection[tuple[TopicPartition, int]], isolation_level: IsolationLevel
) -> set[tuple[TopicPartition, int]]:
    """Those positions behind which the source holds nothing for the flow; one that can't be asked is left out.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    if not committed:
        return set()
    ends = await source.list_offsets(dict.fromkeys((each for each, _ in committed), LATEST), isolation_level)
    return {(each, offset) for each, offset in committed if not ends[each].error_code and offset >= ends[each].offset}


class Position(NamedTuple):
    """A group's, in one source partition, and its place on the target."""

    group: str
    source: TopicPartition
    committed: int
    #: None: it has none.
    target: TopicPartition | None
    place: Translation
    #: Whether its records were copied from the target, so that others there may be in other topics here.
    back: bool = False


async def merge_positions(
    positions: Sequence[Position],
    logs: Mapping[TopicPartition, LogBounds],
    source: Cluster,
    isolation_level: IsolationLevel,
) -> list[Translation]:
    """The places, where several of one group in one remote partition have the one that holds for all of them.

    ``logs``: of the remote partitions, just asked.

    Raises:
        ClusterUnreachableError: The source does not answer.
    """
    together: dict[_Standing, list[int]] = defaultdict(list)
    for number, each in enumerate(positions):
        if each.target is not None and each.target in logs:
            together[each.group, each.target].append(number)
    several = {standing: numbers for standing, numbers in together.items() if len(numbers) > 1}
    # What is at the end of such a topic has read no more of the target than was copied: its place is the place.
    ends = (positions[n] for numbers in several.values() for n in numbers if not positions[n].back)
    asked = {(each.source, each.committed) for each in ends}
    at_end = await read_to_the_end(source, asked, isolation_level)
    places = [each.place for each in positions]
    for (_, remote), numbers in several.items():
        parts = [
            Part(
                topic=each.source.topic,
                committed=each.committed,
                place=each.place,
                at_end=(each.source, each.committed) in at_end,
            )
            for each in (positions[n] for n in numbers)
        ]
        for number, place in zip(numbers, merge(parts, logs[remote].end).places, strict=True):
            places[number] = place
    return places


class MergedGroups:
    """Keeps the one entry that stands for all of a group's topics in such a remote partition."""

    def __init__(
        self, book: GroupBook, maps: FlowMaps, source: Cluster, target: Cluster, isolation_level: IsolationLevel
    ) -> None:
        self._book, self._maps = book, maps
        self._source, self._target, self._isolation_level = source, target, isolation_level

    async def bring_together(self) -> None:
        """After every group's positions were translated.

        Raises:
            OSError, MirrorError: A cluster can't be asked now; what it was for stays as it was.
        """
        if not self._maps.rules.names:
            return
        found = self._parts()
        several = {standing: each for standing, each in found.items() if len(each) > 1}
        ends = await log_bounds(self._target, {remote for _, remote in several})
        positions = {
            (entry.key.partition, entry.source.offset) for each in several.values() for entry in each if entry.source
        }
        at_end = await read_to_the_end(self._source, positions, self._isolation_level)
        for (group, remote), entries in found.items():
            log = ends.get(remote)
            if len(entries) == 1 or log is not None:
                self._take(group, remote, entries, log, at_end)
        self._book.drop_merged(found.keys())

    def _parts(self) -> dict[_Standing, list[Entry]]:
        found: dict[_Standing, list[Entry]] = {}
        for group, entries in self._book.groups.items():
            for partition, entry in entries.items():
                route = self._maps.route(partition) if entry.source is not None else None
                if route is not None and route.merges:
                    found.setdefault((group, route.remote), []).append(entry)
        return found

    def _take(
        self,
        group: str,
        remote: TopicPartition,
        entries: list[Entry],
        log: LogBounds | None,
        at_end: Collection[tuple[TopicPartition, int]],
    ) -> None:
        entries.sort(key=lambda entry: entry.key.partition)
        parts = [
            Part(
                topic=entry.key.partition.topic,
                committed=entry.source.offset,
                place=entry.translation or _UNKNOWN,
                at_end=(entry.key.partition, entry.source.offset) in at_end,
            )
            for entry in entries
            if entry.source is not None
        ]
        merged = merge(parts, log.end if log is not None else 0)
        lead = entries[parts.index(merged.lead)]
        for entry, place in zip(entries, merged.places, strict=True):
            entry.shown = place
        place = merged.places[parts.index(merged.lead)]
        self._book.merge(group, remote, lead, place, {part.topic: part.committed for part in parts})

    def remember(self, checkpoint: Checkpoint, headers: tuple[tuple[bytes, bytes | None], ...]) -> None:
        """Take a checkpoint that somebody else emitted, by what it says or its topic's name says of its source."""
        written, sources, remote = decode_written(checkpoint, headers), decode_sources(headers), checkpoint.partition
        rules = self._maps.rules
        if rules.is_routed_to(remote.topic) or (rules.flow.route and remote.topic != rules.flow.route):
            # Of the same group, by the flow itself or by another route of it.
            return
        if rules.merges(remote.topic):
            self._book.remember_merged(checkpoint, written, sources)
            return
        named = next(iter(sources), None)
        partition = TopicPartition(named, remote.partition) if named else self._maps.source_of(remote)
        if partition is not None:
            self._book.remember(partition, checkpoint, written)

    def remote_of(self, entry: Entry) -> TopicPartition | None:
        """The partition on the target where an entry's group is to stand; None: nowhere, or another stands for it."""
        route = self._maps.route(entry.key.partition) if entry.merged is None else None
        if route is not None:
            return None if route.merges else route.remote
        return entry.merged

    def sources_of(self, entry: Entry) -> tuple[tuple[bytes, bytes], ...]:
        """The header that says where a checkpoint's remote topic came from, where its name does not tell."""
        sources: Mapping[str, int] = entry.sources
        if entry.merged is None and entry.source is not None:
            route = self._maps.route(entry.key.partition)
            sources = {entry.key.partition.topic: entry.source.offset} if route is not None and route.named else {}
        return ((SOURCES_HEADER, encode_sources(sources)),) if sources else ()
