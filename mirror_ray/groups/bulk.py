"""All of a flow's groups translated at once: what was committed, the places, and what the clusters say of those.

Where places come from is the caller's: ``ReadMaps`` reads the segments topics here; with Spark its executors do.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from mirror_ray.config.settings import FlowSettings
from mirror_ray.groups.merged_groups import GroupPosition, merge_positions
from mirror_ray.groups.merged_topics import GroupThere
from mirror_ray.groups.subscriptions import GroupReads, first_unread
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.model.committed_offset import Commits, CommittedOffset
from mirror_ray.model.errors import CorruptRecordError, MirrorError
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import NO_TOPIC_ID, FlowName, TopicId, TopicPartition
from mirror_ray.offsets.bidirectional import BothLogEnds, bring_together, is_told, sources_part, targets_part
from mirror_ray.offsets.bidirectional_maps import BidirectionalPartition, see_ends
from mirror_ray.offsets.map_answer import answer, answer_before_gap, answer_in_gap
from mirror_ray.offsets.map_store import NOTHING_MADE, OffsetMapStore, PartitionOffsetMap, TransformedGap
from mirror_ray.offsets.partition_resolver import PartitionResolver, ResolvedPartition, log_bounds, made_by, read_gap
from mirror_ray.offsets.segments import BetweenSegments, MapTail, SegmentMap
from mirror_ray.offsets.transform_version import TransformVersions
from mirror_ray.offsets.translate import NOTHING_COPIED, ReadableBounds, Translation, within
from mirror_ray.records.segment_block import decode_block

_WALKS_AT_ONCE: Final = 4
_NOT_TOLD: Final = "the leader of its partition on the target does not answer: run this again"


class OffsetQuery(NamedTuple):
    """A position of a source partition, whose map goes by the name ``key``."""

    #: Whether it is the map of the flow back.
    back: bool
    key: TopicPartition
    offset: int


class MapAnswer(NamedTuple):
    """What a map says, and of which topics it tells; None: it says nothing of the partition."""

    topics: tuple[TopicId, TopicId] | None
    found: Translation | BetweenSegments
    tail: MapTail | None = None
    made: TransformedGap = NOTHING_MADE


#: Every question is answered.
FindPlaces = Callable[[Collection[OffsetQuery]], Awaitable[Mapping[OffsetQuery, MapAnswer]]]

NO_MAP: Final = MapAnswer(None, Translation(offset=None, reason=NOTHING_COPIED))


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedOffset:
    """One group, one partition."""

    group: str
    source: TopicPartition
    committed: CommittedOffset
    target: TopicPartition
    #: Whether the topic came from the target, so that nothing is to be committed there.
    back: bool
    place: Translation
    #: Why it counts, though the group has committed nothing there; see ``offsets.merged.Part``.
    assumed: str | None = None


def answer_by(page: PartitionOffsetMap, question: OffsetQuery) -> MapAnswer:
    """What the page of its partition says."""
    found = answer(page.places, question.offset, back=question.back)
    return MapAnswer((page.source_topic_id, page.target_topic_id), found, page.places.tail, page.made)


class ReadMaps:
    """Reads both maps to their ends: the flow's own, and that of the flow back if it is asked. See ``FindPlaces``."""

    def __init__(self, flow: FlowSettings, source: ClusterConnections, target: ClusterConnections) -> None:
        name = flow.name
        self._topics = {
            False: (target, segments_topic(name.source, name.route)),
            True: (source, segments_topic(name.target)),
        }

    async def __call__(self, questions: Collection[OffsetQuery]) -> Mapping[OffsetQuery, MapAnswer]:
        """Answer.

        Raises:
            OSError, MirrorError: A topic can't be read.
        """
        answers: dict[OffsetQuery, MapAnswer] = {}
        for back in {question.back for question in questions}:
            book = await _read_book(*self._topics[back])
            for question in questions:
                if question.back == back:
                    page = book.find(question.key)
                    answers[question] = answer_by(page, question) if page is not None else NO_MAP
        return answers


async def _read_book(cluster: ClusterConnections, topic: str) -> OffsetMapStore:
    """All that the topic holds: who is asked once need not forget."""
    book, reader, complete = OffsetMapStore(sys.maxsize, sys.maxsize), InternalTopicReader(cluster, topic), False
    while not complete:
        anew, records, complete = await reader.read()
        if anew:
            raise MirrorError(f"topic {topic} was created anew while it was read: run this again")
        for record in records:
            # A block that does not parse is passed over, as the checkpoint actor does, which tells of it.
            if record.value is not None:
                with contextlib.suppress(CorruptRecordError):
                    book.apply(decode_block(record.key, record.value))
    return book


async def translate_all(
    flow: FlowSettings,
    source: ClusterConnections,
    target: ClusterConnections,
    commits: Commits,
    find_places: FindPlaces,
    *,
    back: FlowSettings | None,
    reads: GroupReads,
    on_problem: Callable[[str], None],
) -> list[TranslatedOffset]:
    """Where every committed offset of the topics that a flow copies is on the target, by group and partition.

    Behind them are those that count where several topics are merged, though nothing is committed there (``assumed``).
    ``back``: the flow that comes back, where it is known what its records go through.

    Guarantees: what the checkpoint actors say of the same offsets, or exact where they can't be; gaps of the maps are
    read on the source, however long that takes.

    Raises:
        ClusterUnreachableError: A cluster does not answer.
        OSError, MirrorError: A map can't be read.
    """
    ways = PartitionResolver(flow, source, target)
    await ways.prepare()
    routes = {partition: ways.find(partition) for partition in {each for every in commits.values() for each in every}}
    routed = {partition: way for partition, way in routes.items() if way is not None}
    rows = [
        (group, partition, committed, OffsetQuery(way.back, way.key, committed.offset))
        for group, offsets in sorted(commits.items())
        for partition, committed in sorted(offsets.items())
        if (way := routed.get(partition)) is not None
    ]
    committed_in: dict[GroupThere, set[str]] = defaultdict(set)
    for group, partition, _, question in rows:
        way = routed[partition]
        if not question.back and ways.rules.merges(way.remote.topic):
            committed_in[group, way.remote].add(partition.topic)
    left = await first_unread(ways, source, committed_in, reads)
    routed |= {each.source: way for each in left if (way := ways.find(each.source)) is not None}
    assumed = {(each.there[0], each.source): each.why for each in left}
    rows += [
        (each.there[0], each.source, CommittedOffset(first), OffsetQuery(False, routed[each.source].key, first))
        for each, first in left.items()
    ]
    both = {BidirectionalPartition(partition, way.remote) for partition, way in routed.items() if way.both}
    seen = await see_ends(source, target, both, flow.fetch.isolation_level)
    others = {
        question: OffsetQuery(back=True, key=routed[partition].remote, offset=question.offset)
        for _, partition, _, question in rows
        if routed[partition].both
    }
    answers = await find_places({*(question for *_, question in rows), *others.values()})
    outdated = await _outdated(source, target, ways, routed, answers)
    made = {
        False: made_by(flow, source, target, on_problem),
        True: made_by(back, target, source, on_problem),
    }
    places = await _walk_gaps(flow, source, target, answers, made)
    for question, other in others.items():
        ends = seen.get(BidirectionalPartition(question.key, other.key))
        places[question] = _of_both(flow.name, (question, other), answers, places, [ends] if ends is not None else [])
    logs = await log_bounds(target, {way.remote for way in routed.values()})
    found = [
        TranslatedOffset(
            group=group,
            source=partition,
            committed=committed,
            target=routed[partition].remote,
            back=routed[partition].back,
            place=_final(
                outdated.get(partition) or of_another(source, partition, committed),
                places[question],
                logs.get(routed[partition].remote),
            ),
            assumed=assumed.get((group, partition)),
        )
        for group, partition, committed, question in rows
    ]
    positions = [
        GroupPosition(
            group=row.group,
            source=row.source,
            committed=row.committed.offset,
            target=None if row.back else row.target,
            place=row.place,
            assumed=row.assumed,
        )
        for row in found
    ]
    merged = await merge_positions(positions, logs, source, flow.fetch.isolation_level)
    return [replace(row, place=place) for row, place in zip(found, merged, strict=True)]


def _of_both(
    name: FlowName,
    questions: tuple[OffsetQuery, OffsetQuery],
    answers: Mapping[OffsetQuery, MapAnswer],
    places: Mapping[OffsetQuery, Translation],
    seen: Sequence[BothLogEnds],
) -> Translation:
    """The place in a topic that both sides write, by what both maps say of the position."""
    tails = [answers[each].tail for each in questions]
    found = [
        places[each] if is_told(tail, each.offset, back=each.back) else None
        for each, tail in zip(questions, tails, strict=True)
    ]
    own = sources_part(tails[0], questions[0].offset, seen, found[0], name.source)
    return bring_together(own, targets_part(tails[1], seen, found[1], name.target))


def _final(outdated: str | None, place: Translation, log: ReadableBounds | None) -> Translation:
    if outdated is not None:
        return Translation(offset=None, reason=outdated)
    if place.offset is None:
        return place
    return within(place, log) if log is not None else Translation(offset=None, reason=_NOT_TOLD)


def of_another(source: ClusterConnections, partition: TopicPartition, committed: CommittedOffset) -> str | None:
    """Why an offset of the past is not one of the topic that is there now; None: it is, as far as is known."""
    found = source.metadata.topics.get(partition.topic)
    if found is None or found.error_code or NO_TOPIC_ID in (found.topic_id, committed.topic_id):
        return None
    if found.topic_id == committed.topic_id:
        return None
    name = f"topic {partition.topic} on cluster {source.settings.alias}"
    return f"{name} was created anew since the group had committed {committed.offset} there"


async def _outdated(
    source: ClusterConnections,
    target: ClusterConnections,
    ways: PartitionResolver,
    routed: Mapping[TopicPartition, ResolvedPartition],
    answers: Mapping[OffsetQuery, MapAnswer],
) -> dict[TopicPartition, str]:
    """Of which source partitions a map tells of other topics than those that are there now."""
    remotes = {way.remote.topic for way in routed.values()}
    await asyncio.gather(source.refresh({each.topic for each in routed}), target.refresh(remotes))
    told = {(question.back, question.key): found.topics for question, found in answers.items()}
    outdated: dict[TopicPartition, str] = {}
    for partition, way in routed.items():
        for each in ways.told(partition, way):
            ids = told.get((each.back, each.key))
            why = each.other_than(ids) if ids is not None else None
            if why is not None:
                outdated[partition] = why
    return outdated


class _Gap(NamedTuple):
    """What is to be read, of which topic, and what was copied of it."""

    back: bool
    key: TopicPartition
    topic_id: TopicId
    made: TransformedGap
    between: BetweenSegments


async def _walk_gaps(
    flow: FlowSettings,
    source: ClusterConnections,
    target: ClusterConnections,
    answers: Mapping[OffsetQuery, MapAnswer],
    made_by: Mapping[bool, TransformVersions],
) -> dict[OffsetQuery, Translation]:
    """Every question's place; each gap is read once, where its records come from. ``made_by``: of either way."""
    places: dict[OffsetQuery, Translation] = {}
    gaps: dict[_Gap, list[OffsetQuery]] = defaultdict(list)
    for question, (topics, found, _, made) in answers.items():
        if isinstance(found, BetweenSegments) and topics is not None:
            gaps[_Gap(question.back, question.key, topics[0], made, found)].append(question)
        elif isinstance(found, Translation):
            places[question] = found
    committed = flow.fetch.isolation_level == "read_committed"
    room = asyncio.Semaphore(_WALKS_AT_ONCE)

    async def walk(gap: _Gap, questions: Iterable[OffsetQuery]) -> None:
        read_from, copied = target if gap.back else source, made_by[gap.back].of(gap.key, gap.made, gap.between)
        async with room:
            try:
                inside = await read_gap(
                    read_from, gap.key, gap.topic_id, gap.between, read_committed=committed, copied=copied
                )
            except (OSError, MirrorError) as error:
                inside = f"the source can't be read: {error}"
        for question in questions:
            places[question] = (
                answer_in_gap(gap.between, inside, question.offset, back=gap.back)
                if isinstance(inside, SegmentMap)
                else answer_before_gap(gap.between, inside, back=gap.back)
            )

    await asyncio.gather(*(walk(gap, questions) for gap, questions in gaps.items()))
    return places
