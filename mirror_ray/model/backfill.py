"""A range of a topic that is copied beside the live copy: what it is, and whether it may be."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

from mirror_ray.model.errors import ConfigError
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import EARLIEST, StartPosition

#: ``running``: wanted, whatever its partitions do. ``cancelled``: may be taken up again.
BackfillPhase = Literal["running", "done", "cancelled"]

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BackfillRange:
    """Offsets of one source partition, the end not included."""

    partition: int
    start: int
    end: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return self.start >= self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """What somebody asks for."""

    topic: str
    start: StartPosition = EARLIEST
    #: None: up to now, or where the live copy began.
    end: StartPosition | None = None
    #: None: into the live copy's own remote topic, behind what is there.
    into: str | None = None
    #: None: all, or those that ``start`` and ``end`` name.
    partitions: tuple[int, ...] | None = None
    #: Older records may follow newer ones.
    behind: bool = False
    #: As it was typed; tells whether the same is asked again.
    said: str = ""

    @property
    def text(self) -> str:
        """What tells two requests for one target apart."""
        return self.said or f"from {self.start} to {self.end} of {self.partitions or 'all partitions'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRecord:
    """A backfill as the flow's state keeps it, under its id."""

    topic: str
    into: str
    ranges: tuple[BackfillRange, ...]
    said: str
    time_ms: int
    #: Whether it writes behind the live copy, into the same remote topic.
    behind: bool = False
    phase: BackfillPhase = "running"
    #: Of ``into``, once it is known to be there: another topic of that name is another topic.
    target_topic_id: str = ""
    #: Partition and the next source offset to copy, as of when it ended.
    positions: tuple[tuple[int, int], ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self) | {"ranges": [[part.partition, part.start, part.end] for part in self.ranges]}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """What ``document`` wrote; fields of a newer version are ignored."""
        known = {key: value for key, value in document.items() if key in cls.__dataclass_fields__}
        known["ranges"] = tuple(BackfillRange(*part) for part in document["ranges"])
        known["positions"] = tuple((partition, offset) for partition, offset in document.get("positions", ()))
        return cls(**known)


def backfill_id(topic: str, into: str, time_ms: int) -> str:
    """A short name, of its own for each backfill."""
    return hashlib.sha256(f"{topic} {into} {time_ms}".encode()).hexdigest()[:8]


def chosen_partitions(request: BackfillRequest, count: int) -> list[int]:
    """The partitions that are meant, of ``count``.

    Raises:
        ConfigError: One is named that the topic does not have.
    """
    named = {partition for point in (request.start, request.end) if point for partition, _ in point.offsets}
    wanted = set(request.partitions) if request.partitions is not None else named or set(range(count))
    missing = sorted((wanted | named) - set(range(count)))
    if missing:
        raise ConfigError(f"topic {request.topic} has the partitions 0 to {count - 1}, and not {missing[0]}")
    return sorted(wanted)


def check_range(topic: str, asked: BackfillRange, bounds: tuple[int, int]) -> None:
    """Check that nothing is left out silently.

    Raises:
        ConfigError: The range reaches out of what the source has, or ends before it begins.
    """
    first, end = bounds
    if not first <= asked.start <= end or not first <= asked.end <= end:
        raise ConfigError(
            f"{topic}-{asked.partition} goes from {first} to {end}: a backfill from {asked.start} to {asked.end} does"
            " not lie within; choose other offsets"
        )
    if asked.start > asked.end:
        raise ConfigError(
            f"{topic}-{asked.partition}: the backfill would end at {asked.end}, before its start {asked.start}"
        )


def live_start(topic: str, partition: int, origin: OffsetPair | None, gaps: int) -> int:
    """The source offset at which the live copy of a partition began, where it is known for sure.

    ``origin``: the first offset pair of the live copy. ``gaps``: the number of its skipped ranges since.

    Raises:
        ConfigError: It is not known, and so neither is what was copied already.
    """
    if origin is not None and origin.target_offset == 0 and not gaps:
        return origin.source_offset
    why = "it is not copied yet" if origin is None else "it was taken over, or has been repaired (`mirror-ray gaps`)"
    raise ConfigError(
        f"where the live copy of {topic}-{partition} began is not known, for {why}: name another topic with --into"
    )


def check_behind(
    request: BackfillRequest, ranges: Collection[BackfillRange], begun: Mapping[int, int], remote: str
) -> None:
    """Check that the live remote topic may be written to; ``begun``: by partition, where the live copy began.

    Raises:
        ConfigError: It was copied already, there is nothing, or nobody said that the order does not matter.
    """
    for part in ranges:
        if not part.empty and part.end > begun[part.partition]:
            raise ConfigError(
                f"{request.topic}-{part.partition}: offsets from {begun[part.partition]} on are the live copy's, in"
                f" {remote}: a backfill from {part.start} to {part.end} would double records there. End it before, with"
                " --to, or copy into another topic with --into"
            )
    if all(part.empty for part in ranges):
        raise ConfigError(
            f"the live copy of {request.topic} began at its first record: nothing is missing in {remote}. To copy a"
            " range once more, name another topic with --into"
        )
    if not request.behind:
        count = sum(part.end - part.start for part in ranges)
        raise ConfigError(
            f"{count} older records would be appended to {remote}, behind the newer ones that are there and among those"
            " that come: whoever reads it sees them out of order, and the order of a key is lost. Say --behind if that"
            " is right, or name another topic with --into"
        )


def check_into(into: str, live: Collection[str]) -> None:
    """Check that a topic may be the target at all.

    Raises:
        ConfigError: No name for a topic, an internal one, or one that a flow writes.
    """
    if not _TOPIC.fullmatch(into) or into in {".", ".."}:
        raise ConfigError(f"{into!r} is no topic's name")
    if into.startswith(("mm2", "__")) or into.endswith(".internal"):
        raise ConfigError(f"{into} is named as internal topics are: choose another name")
    if into in live:
        raise ConfigError(
            f"{into} is a remote topic that a flow writes: leave --into away to append to the live copy's own, or"
            " choose another name"
        )


def same_again(found: BackfillRecord, request: BackfillRequest, identity: str) -> BackfillRecord:
    """The backfill that is there already, to be gone on with.

    Raises:
        ConfigError: It is another one, into the same topic.
    """
    if found.said == request.text and found.topic == request.topic:
        return replace(found, phase="running") if found.phase == "cancelled" else found
    state = {"running": "under way", "done": "done", "cancelled": "cancelled, and can be gone on with"}[found.phase]
    raise ConfigError(
        f"backfill {identity} of {found.topic} ({found.said}) into {found.into} is {state}: a second one would write"
        f" the same topic. Choose another topic with --into, or delete {found.into} first to begin anew"
    )
