"""Commits the translated offsets by their rule, and remembers in the checkpoints topic what was committed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.groups.checkpoints import GroupCheckpoint
from mirror_ray.groups.commit_rules import (
    WITHOUT_MEMBERS,
    KeepOffset,
    TargetOffset,
    decide_failback,
    decide_failover,
    has_gone_back,
)
from mirror_ray.groups.translated_offset import TranslatedGroups, TranslatedOffset
from mirror_ray.kafka.errors import ErrorInfo
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.kafka.group_offsets import ACTIVE
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.mm2_records import CheckpointRecord

Committed = Mapping[TopicPartition, CommittedOffset]


@dataclass(slots=True, kw_only=True)
class CommitResult:
    """What was committed, and what was not."""

    committed: int = 0
    there_already: int = 0
    #: What is to be committed, or would be.
    written: list[TranslatedOffset] = field(default_factory=list)
    #: Left as they are, with the reason.
    kept: list[TranslatedOffset] = field(default_factory=list)
    #: Groups that have members on the destination, and share groups there, for which nobody must commit.
    active: list[str] = field(default_factory=list)
    #: Groups that an earlier try has moved, and that have members there since, but are before their offsets.
    at_work: list[str] = field(default_factory=list)
    #: Why commits were refused, or not confirmed: by group, and partition on the destination.
    refused: dict[tuple[str, TopicPartition], ErrorInfo] = field(default_factory=dict)


async def commit(
    clusters: FailoverClusters,
    offsets: TranslatedGroups,
    moved: TranslatedGroups,
    options: FailoverOptions,
    *,
    dry: bool,
    still_due: Collection[str] | None = None,
) -> CommitResult:
    """Commit what is not committed yet; to be called again until nothing is active.

    Args:
        clusters: Both clusters.
        offsets: Where each group goes on.
        moved: For a failback, what the failover has moved.
        options: How.
        dry: Commit nothing.
        still_due: Groups that an earlier try has left. The others were moved by it, and may have worked there since:
            they are moved on, never back, and left alone while they work. None: there was no earlier try.

    Raises:
        OSError, MirrorError: A cluster can't be asked; call it again.
    """
    result = CommitResult()
    listed = await clusters.groups(clusters.destination)
    taken = {name for name in offsets if name in listed and _is_taken(listed[name])}
    moved_before = offsets.keys() - set(still_due) if still_due is not None else set[str]()
    result.active = sorted(taken - moved_before)
    waiting = {
        name: not_before_it_left(of_group, moved.get(name, ()))
        for name, of_group in offsets.items()
        if name not in set(result.active)
    }
    committed = await clusters.committed(clusters.destination, list(waiting))
    result.at_work = sorted(name for name in taken & moved_before if _is_behind(waiting[name], committed.get(name, {})))
    waiting = {name: of_group for name, of_group in waiting.items() if name not in taken}
    checkpoints = await clusters.checkpoints() if clusters.kind == "failover" else {}
    commits: dict[str, dict[TopicPartition, tuple[int, str]]] = defaultdict(dict)
    memory: list[GroupCheckpoint] = []
    for group, of_group in waiting.items():
        there = committed.get(group, {})
        for destination, offset in _one_for_each_destination(of_group):
            on_destination = there[destination].offset if destination in there else None
            last = checkpoints.get(group, {}).get(destination)
            translated = offset.offset or 0
            if group in moved_before and on_destination is not None and on_destination >= translated:
                result.there_already += 1
                continue
            both = clusters.ahead.both_sides_write(offset.origin.topic, destination.topic)
            sources = _sources(clusters, of_group, destination)
            if clusters.kind == "failback":
                # Where both sides write, the offset that it left has a translation of its own, which may be less.
                left = None if both else _left_at(moved.get(group, ()), destination)
                decision = decide_failback(translated, on_destination, left, force=options.force)
            else:
                known = TargetOffset(
                    committed=on_destination,
                    written=last.written if last is not None else (),
                    translated=translated,
                    went_back=_went_back(offset, sources, last),
                    both_sides_write=both,
                )
                decision = decide_failover(known, force=options.force)
            if isinstance(decision, KeepOffset):
                result.there_already += on_destination == translated
                if decision.reason:
                    kept = replace(offset.translation, reason=decision.reason)
                    result.kept.append(replace(offset, translation=kept))
                continue
            commits[group][destination] = (decision.offset, offset.metadata)
            result.written.append(offset)
            if clusters.kind == "failover" and offset.origin_offset is not None:
                memory.append(_checkpoint(offset, destination, on_destination, sources, last))
    if dry:
        result.committed = sum(map(len, commits.values()))
        return result
    await clusters.append_checkpoints(memory)
    await _write(clusters, commits, result)
    if clusters.kind == "failback" and not result.refused:
        done = {name: of_group for name, of_group in waiting.items() if name not in set(result.active)}
        await clusters.append_checkpoints(_handed_back(clusters, done))
    return result


def _one_for_each_destination(offsets: Sequence[TranslatedOffset]) -> Iterator[tuple[TopicPartition, TranslatedOffset]]:
    """Yield each destination with its offset; where several topics are merged one offset stands for all."""
    yielded: set[TopicPartition] = set()
    for offset in offsets:
        if offset.destination is not None and offset.offset is not None and offset.destination not in yielded:
            yielded.add(offset.destination)
            yield offset.destination, offset


def _is_behind(offsets: Sequence[TranslatedOffset], committed: Committed) -> bool:
    """Whether a group is before one of its offsets on the destination."""
    return any(
        offset.destination not in committed or committed[offset.destination].offset < offset.offset
        for offset in offsets
        if offset.destination is not None and offset.offset is not None
    )


def not_before_it_left(
    offsets: Sequence[TranslatedOffset], moved: Sequence[TranslatedOffset]
) -> list[TranslatedOffset]:
    """The offsets to which a group goes back; of a merged topic never before what it had read when it left.

    ``moved``: where the failover has put it. There it began at the least of several translations, and read again what
    lies behind that of the other topics; it may not have come to its own offset in them.
    """
    left = {offset.origin: offset.origin_offset or 0 for offset in moved if not offset.exact}
    ways = Counter(offset.origin for offset in offsets)
    return [
        replace(offset, translation=replace(offset.translation, offset=max(offset.offset, left[offset.destination])))
        if offset.offset is not None and offset.destination in left and ways[offset.origin] > 1
        else offset
        for offset in offsets
    ]


def refusal(alias: str, refused: Sequence[tuple[str, str]]) -> str:
    """The message about commits that were refused on a cluster; ``refused``: the group and the reason of each."""
    groups = len({group for group, _ in refused})
    return (
        f"{len(refused)} offsets of {groups} groups were not committed on {alias}, the first of"
        f" {': '.join(refused[0])}: run this again, or grant READ on the groups and on their topics"
    )


def _is_taken(group: ListedGroup) -> bool:
    return group.kind == "share" or group.state not in WITHOUT_MEMBERS


def _sources(clusters: FailoverClusters, offsets: Sequence[TranslatedOffset], remote: TopicPartition) -> dict[str, int]:
    """A group's offsets in the topics that are copied to ``remote``, where its name does not tell them."""
    return {
        offset.origin.topic: offset.origin_offset
        for offset in offsets
        if offset.destination == remote
        and offset.origin_offset is not None
        and clusters.rules_of(remote.topic).named_by(offset.origin.topic) != "policy"
    }


def _left_at(moved: Sequence[TranslatedOffset], origin: TopicPartition) -> int | None:
    """Where a group was when the failover moved it."""
    return next((offset.origin_offset for offset in reversed(moved) if offset.origin == origin), None)


def _went_back(offset: TranslatedOffset, sources: Mapping[str, int], last: GroupCheckpoint | None) -> bool:
    """Whether the group went back on the source since its last checkpoint."""
    if last is None:
        return False
    if len(sources) > 1 or len(last.sources) > 1:
        return has_gone_back(last.sources, sources)
    return offset.origin_offset is not None and offset.origin_offset < last.checkpoint.upstream_offset


async def _write(
    clusters: FailoverClusters, commits: Mapping[str, Mapping[TopicPartition, tuple[int, str]]], result: CommitResult
) -> None:
    for group, answers in (await clusters.commit(commits)).items():
        result.committed += sum(error is None for error in answers.values())
        if ACTIVE in answers.values():
            result.active.append(group)
        result.refused |= {
            (group, partition): error for partition, error in answers.items() if error is not None and error != ACTIVE
        }
    result.active.sort()


def _checkpoint(
    offset: TranslatedOffset,
    remote: TopicPartition,
    on_target: int | None,
    sources: Mapping[str, int],
    last: GroupCheckpoint | None,
) -> GroupCheckpoint:
    """The checkpoint of what is about to be committed, and of what was committed there before."""
    translated = offset.offset or 0
    return GroupCheckpoint(
        checkpoint=CheckpointRecord(
            group=offset.group,
            partition=remote,
            upstream_offset=offset.origin_offset or 0,
            downstream_offset=translated,
            metadata=offset.metadata,
        ),
        written=(translated,) if on_target is None else (translated, on_target),
        sources=sources,
        unsubscribed=last.unsubscribed if last is not None else frozenset(),
    )


def _handed_back(clusters: FailoverClusters, offsets: TranslatedGroups) -> list[GroupCheckpoint]:
    """What groups committed on the target counts as ours from now on, so that the group sync moves it on again."""
    names = clusters.names_of_flow
    back: dict[tuple[str, TopicPartition], list[TranslatedOffset]] = {}
    for of_group in offsets.values():
        for offset in of_group:
            is_copy = clusters.is_reversed or clusters.is_remote(offset.origin)
            if offset.offset is not None and offset.origin_offset is not None and is_copy:
                back.setdefault((offset.group, offset.origin), []).append(offset)
    return [
        GroupCheckpoint(
            checkpoint=CheckpointRecord(
                group=group,
                partition=remote,
                upstream_offset=found[0].offset or 0,
                downstream_offset=found[0].origin_offset or 0,
                metadata=found[0].metadata,
            ),
            written=(found[0].origin_offset or 0,),
            sources={
                offset.destination.topic: offset.offset or 0
                for offset in found
                if offset.destination is not None
                if names.of(offset.destination.topic) is not None or clusters.is_routed(remote.topic)
            },
        )
        for (group, remote), found in back.items()
    ]
