"""Commits where groups go on, by the rule of the group sync, and remembers in the checkpoints topic what it wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirror_ray.failover.places import Place, decide_failback, decide_failover
from mirror_ray.failover.plan import Options
from mirror_ray.failover.sides import WITHOUT_MEMBERS, Said, Sides
from mirror_ray.kafka.errors import ErrorInfo
from mirror_ray.kafka.group_offsets import ACTIVE
from mirror_ray.kafka.groups import ListedGroup
from mirror_ray.kafka.internal_writer import InternalRecord
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.group_book import WRITTEN_HEADER, encode_written
from mirror_ray.offsets.group_sync import Keep, Write
from mirror_ray.records.internal import Checkpoint

Commits = dict[str, dict[TopicPartition, tuple[int, str]]]


@dataclass(slots=True, kw_only=True)
class CommitResult:
    """What was committed, and what not."""

    committed: int = 0
    there_already: int = 0
    #: What is to be committed, or would be.
    written: list[Place] = field(default_factory=list)
    #: Left as they are, with the reason.
    kept: list[Place] = field(default_factory=list)
    #: Groups that have members on the destination, and share groups there, for which nobody must commit.
    active: list[str] = field(default_factory=list)
    #: Why commits were refused, or not confirmed: by group, and partition on the destination.
    refused: dict[tuple[str, TopicPartition], ErrorInfo] = field(default_factory=dict)


async def commit(
    sides: Sides,
    places: Mapping[str, list[Place]],
    moved: Mapping[str, list[Place]],
    options: Options,
    *,
    dry: bool,
) -> CommitResult:
    """Commit what is not there yet; to be called again until nothing is active.

    ``moved``: for a failback, what the failover has moved. ``dry``: commit nothing.

    Raises:
        OSError, MirrorError: A cluster can't be asked; call it again.
    """
    result = CommitResult()
    listed = await sides.groups(sides.destination)
    result.active = sorted(name for name in places if name in listed and _is_taken(listed[name]))
    waiting = {name: each for name, each in places.items() if name not in set(result.active)}
    committed = await sides.committed(sides.destination, list(waiting))
    said = await sides.said() if sides.kind == "failover" else {}
    left_at = {(p.group, p.origin): p.origin_offset for every in moved.values() for p in every}
    commits: Commits = defaultdict(dict)
    memory: list[InternalRecord] = []
    for group, every in waiting.items():
        for place in every:
            if place.destination is None or place.offset is None:
                continue
            there = committed.get(group, {}).get(place.destination)
            stands = there.offset if there is not None else None
            if sides.kind == "failback":
                left = left_at.get((group, place.destination))
                act = decide_failback(place.offset, stands, left, force=options.force)
            else:
                last = said.get(group, {}).get(place.destination)
                act = _by_group_sync(place.offset, place.origin_offset, stands, last, force=options.force)
            if isinstance(act, Keep):
                result.there_already += stands == place.offset
                if act.reason:
                    result.kept.append(replace(place, reason=act.reason))
                continue
            commits[group][place.destination] = (act.offset, place.metadata)
            result.written.append(place)
            if sides.kind == "failover" and place.origin_offset is not None:
                written = (place.offset,) if stands is None else (place.offset, stands)
                memory.append(_remembered(place, place.destination, place.origin_offset, written))
    if dry:
        result.committed = sum(map(len, commits.values()))
        return result
    await sides.say(memory)
    await _write(sides, commits, result)
    if sides.kind == "failback" and not result.refused:
        done = {name: each for name, each in waiting.items() if name not in set(result.active)}
        await sides.say(_handed_back(sides, done))
    return result


def refusal(alias: str, refused: Sequence[tuple[str, str]]) -> str:
    """What to say of commits that were refused on a cluster: of which group, and why, each."""
    groups = len({group for group, _ in refused})
    return (
        f"{len(refused)} offsets of {groups} groups were not committed on {alias}, the first of"
        f" {': '.join(refused[0])}: run this again, or grant READ on the groups and on their topics"
    )


def _is_taken(group: ListedGroup) -> bool:
    return group.kind == "share" or group.state not in WITHOUT_MEMBERS


def _by_group_sync(
    offset: int, origin_offset: int | None, stands: int | None, said: Said | None, *, force: bool
) -> Keep | Write:
    before = said.checkpoint.upstream_offset if said is not None else None
    return decide_failover(
        offset,
        stands,
        said.written if said is not None else (),
        went_back=before is not None and origin_offset is not None and origin_offset < before,
        force=force,
    )


async def _write(sides: Sides, commits: Commits, result: CommitResult) -> None:
    for group, answers in (await sides.commit(commits)).items():
        result.committed += sum(error is None for error in answers.values())
        if ACTIVE in answers.values():
            result.active.append(group)
        result.refused |= {
            (group, partition): error for partition, error in answers.items() if error is not None and error != ACTIVE
        }
    result.active.sort()


def _handed_back(sides: Sides, places: Mapping[str, list[Place]]) -> list[InternalRecord]:
    """What groups committed on the target counts as ours from now on, so that the group sync moves it on again."""
    return [
        _remembered(place, place.origin, place.offset, (place.origin_offset,))
        for every in places.values()
        for place in every
        if place.offset is not None and place.origin_offset is not None and sides.is_remote(place.origin)
    ]


def _remembered(place: Place, remote: TopicPartition, source_offset: int, written: tuple[int, ...]) -> InternalRecord:
    """A checkpoint; ``written``: the remote offset that counts as ours, then the one before it."""
    checkpoint = Checkpoint(
        group=place.group,
        partition=remote,
        upstream_offset=source_offset,
        downstream_offset=written[0],
        metadata=place.metadata,
    )
    key, value = checkpoint.encode()
    return InternalRecord(key, value, ((WRITTEN_HEADER, encode_written(written)),))
