"""Commits where groups go on, by the rule of the group sync, and remembers in the checkpoints topic what it wrote."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirror_ray.failover.clusters import WITHOUT_MEMBERS, FailoverClusters
from mirror_ray.failover.group_checkpoint import GroupCheckpoint
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.failover.translated_offsets import GroupPlacement, decide_failback, decide_failover
from mirror_ray.groups.merged_topics import SOURCES_HEADER, encode_sources, has_gone_back, unsubscribed_header
from mirror_ray.groups.offset_state import WRITTEN_HEADER, encode_written
from mirror_ray.groups.sync_rule import KeepOffset, WriteOffset
from mirror_ray.kafka.errors import ErrorInfo
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.kafka.group_offsets import ACTIVE
from mirror_ray.kafka.internal_topic_writer import KeyedRecord
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord

Commits = dict[str, dict[TopicPartition, tuple[int, str]]]


@dataclass(slots=True, kw_only=True)
class CommitResult:
    """What was committed, and what not."""

    committed: int = 0
    there_already: int = 0
    #: What is to be committed, or would be.
    written: list[GroupPlacement] = field(default_factory=list)
    #: Left as they are, with the reason.
    kept: list[GroupPlacement] = field(default_factory=list)
    #: Groups that have members on the destination, and share groups there, for which nobody must commit.
    active: list[str] = field(default_factory=list)
    #: Groups that an earlier try has moved, and that have members there since: they stand before their places.
    at_work: list[str] = field(default_factory=list)
    #: Why commits were refused, or not confirmed: by group, and partition on the destination.
    refused: dict[tuple[str, TopicPartition], ErrorInfo] = field(default_factory=dict)


async def commit(
    sides: FailoverClusters,
    places: Mapping[str, list[GroupPlacement]],
    moved: Mapping[str, list[GroupPlacement]],
    options: FailoverOptions,
    *,
    dry: bool,
    still_due: Collection[str] | None = None,
) -> CommitResult:
    """Commit what is not there yet; to be called again until nothing is active.

    Args:
        sides: Both sides.
        places: Where each group goes on.
        moved: For a failback, what the failover has moved.
        options: How.
        dry: Commit nothing.
        still_due: Groups that an earlier try has left. The others were moved by it, and may have worked there since:
            they are moved on, never back, and left alone while they work. None: there was no earlier try.

    Raises:
        OSError, MirrorError: A cluster can't be asked; call it again.
    """
    result = CommitResult()
    listed = await sides.groups(sides.destination)
    taken = {name for name in places if name in listed and _is_taken(listed[name])}
    before = places.keys() - set(still_due) if still_due is not None else set[str]()
    result.active = sorted(taken - before)
    waiting = {
        name: not_before_it_left(each, moved.get(name, ()))
        for name, each in places.items()
        if name not in set(result.active)
    }
    committed = await sides.committed(sides.destination, list(waiting))
    result.at_work = sorted(name for name in taken & before if _is_behind(waiting[name], committed.get(name, {})))
    waiting = {name: each for name, each in waiting.items() if name not in taken}
    said = await sides.said() if sides.kind == "failover" else {}
    left_at = {(p.group, p.origin): p.origin_offset for every in moved.values() for p in every}
    commits: Commits = defaultdict(dict)
    memory: list[KeyedRecord] = []
    for group, every in waiting.items():
        for destination, offset, place in _one_for_each_destination(every):
            there = committed.get(group, {}).get(destination)
            stands = there.offset if there is not None else None
            if group in before and stands is not None and stands >= offset:
                result.there_already += 1
                continue
            both = sides.carrying.both_sides_write(place.origin.topic, destination.topic)
            if sides.kind == "failback":
                # Where it was left it has its own place: what came of that on the other side may lie before it.
                left = left_at.get((group, destination)) if not both else None
                act = decide_failback(offset, stands, left, force=options.force)
            else:
                last = said.get(group, {}).get(destination)
                sources = _sources(sides, every, destination)
                act = _by_group_sync(place, sources, stands, last, both=both, force=options.force)
            if isinstance(act, KeepOffset):
                result.there_already += stands == offset
                if act.reason:
                    result.kept.append(replace(place, reason=act.reason))
                continue
            commits[group][destination] = (act.offset, place.metadata)
            result.written.append(place)
            if sides.kind == "failover" and place.origin_offset is not None:
                written = (offset,) if stands is None else (offset, stands)
                record = _remembered(place, destination, place.origin_offset, written, sources)
                not_read = unsubscribed_header(last.unsubscribed) if last is not None else ()
                memory.append(record._replace(headers=(*record.headers, *not_read)))
    if dry:
        result.committed = sum(map(len, commits.values()))
        return result
    await sides.say(memory)
    await _write(sides, commits, result)
    if sides.kind == "failback" and not result.refused:
        done = {name: each for name, each in waiting.items() if name not in set(result.active)}
        await sides.say(_handed_back(sides, done))
    return result


def _one_for_each_destination(places: Sequence[GroupPlacement]) -> Iterator[tuple[TopicPartition, int, GroupPlacement]]:
    """The destination, its offset and the place that says so; where several topics are merged one stands for all."""
    seen: set[TopicPartition] = set()
    for place in places:
        if place.destination is not None and place.offset is not None and place.destination not in seen:
            seen.add(place.destination)
            yield place.destination, place.offset, place


def _is_behind(places: Sequence[GroupPlacement], committed: Mapping[TopicPartition, CommittedOffset]) -> bool:
    """Whether a group stands before one of its places on the destination."""
    return any(
        place.destination not in committed or committed[place.destination].offset < place.offset
        for place in places
        if place.destination is not None and place.offset is not None
    )


def not_before_it_left(places: Sequence[GroupPlacement], moved: Sequence[GroupPlacement]) -> list[GroupPlacement]:
    """Where a group goes back to, of a merged topic never before what it had read when it left.

    ``moved``: where the failover has put it. There it began at the least of several places, and read again what lies
    behind that of the other topics; it may not have come to its own place in them.
    """
    left = {each.origin: each.origin_offset or 0 for each in moved if not each.exact}
    ways = Counter(place.origin for place in places)
    return [
        replace(place, offset=max(place.offset, left.get(place.destination, 0)))
        if place.offset is not None and place.destination is not None and ways[place.origin] > 1
        else place
        for place in places
    ]


def refusal(alias: str, refused: Sequence[tuple[str, str]]) -> str:
    """What to say of commits that were refused on a cluster: of which group, and why, each."""
    groups = len({group for group, _ in refused})
    return (
        f"{len(refused)} offsets of {groups} groups were not committed on {alias}, the first of"
        f" {': '.join(refused[0])}: run this again, or grant READ on the groups and on their topics"
    )


def _is_taken(group: ListedGroup) -> bool:
    return group.kind == "share" or group.state not in WITHOUT_MEMBERS


def _sources(sides: FailoverClusters, places: Sequence[GroupPlacement], remote: TopicPartition) -> dict[str, int]:
    """A group's offsets in the topics that are copied to ``remote``, where its name does not tell them."""
    return {
        each.origin.topic: each.origin_offset
        for each in places
        if each.destination == remote
        and each.origin_offset is not None
        and sides.rules_of(remote.topic).named_by(each.origin.topic) != "policy"
    }


def _by_group_sync(
    place: GroupPlacement,
    sources: Mapping[str, int],
    stands: int | None,
    said: GroupCheckpoint | None,
    *,
    both: bool,
    force: bool,
) -> KeepOffset | WriteOffset:
    before = said.checkpoint.upstream_offset if said is not None else None
    if len(sources) > 1 or (said is not None and len(said.sources) > 1):
        went_back = said is not None and has_gone_back(said.sources, sources)
    else:
        went_back = before is not None and place.origin_offset is not None and place.origin_offset < before
    written = said.written if said is not None else ()
    return decide_failover(place.offset or 0, stands, written, went_back=went_back, both_sides_write=both, force=force)


async def _write(sides: FailoverClusters, commits: Commits, result: CommitResult) -> None:
    for group, answers in (await sides.commit(commits)).items():
        result.committed += sum(error is None for error in answers.values())
        if ACTIVE in answers.values():
            result.active.append(group)
        result.refused |= {
            (group, partition): error for partition, error in answers.items() if error is not None and error != ACTIVE
        }
    result.active.sort()


def _handed_back(sides: FailoverClusters, places: Mapping[str, list[GroupPlacement]]) -> list[KeyedRecord]:
    """What groups committed on the target counts as ours from now on, so that the group sync moves it on again."""
    names = sides.rules.names_back
    back: dict[tuple[str, TopicPartition], list[GroupPlacement]] = {}
    for every in places.values():
        for place in every:
            if place.offset is not None and place.origin_offset is not None and sides.is_remote(place.origin):
                back.setdefault((place.group, place.origin), []).append(place)
    return [
        _remembered(
            each[0],
            remote,
            each[0].offset or 0,
            (each[0].origin_offset or 0,),
            {
                place.destination.topic: place.offset or 0
                for place in each
                if place.destination is not None
                if names.of(place.destination.topic) is not None or sides.is_routed(remote.topic)
            },
        )
        for (_, remote), each in back.items()
    ]


def _remembered(
    place: GroupPlacement,
    remote: TopicPartition,
    source_offset: int,
    written: tuple[int, ...],
    sources: Mapping[str, int],
) -> KeyedRecord:
    """A checkpoint.

    ``written``: the remote offset that counts as ours, then the one before it. ``sources``: where the remote topic's
    name does not tell them.
    """
    checkpoint = CheckpointRecord(
        group=place.group,
        partition=remote,
        upstream_offset=source_offset,
        downstream_offset=written[0],
        metadata=place.metadata,
    )
    key, value = checkpoint.encode()
    told = ((SOURCES_HEADER, encode_sources(sources)),) if sources else ()
    return KeyedRecord(key, value, ((WRITTEN_HEADER, encode_written(written)), *told))
