"""Where a partition without any progress begins: earliest, latest, a point in time, or offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from mirror_ray.model.patterns import Pattern, compile_patterns

StartKind = Literal["earliest", "latest", "timestamp", "offsets"]

#: What ``parse_start`` takes, for error texts.
START_FORMS = (
    "earliest, latest, a time with its zone (2026-11-22T10:00:00Z), epoch milliseconds, or offsets by partition "
    "(0@1500 1@2000)"
)

_EPOCH_MS = re.compile(r"\d{11,15}", re.ASCII)
_RFC_3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_OFFSET = re.compile(r"(\d{1,9})@(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class StartPosition:
    """A start. ``str`` writes it so that ``parse_start`` reads it back; a time is written in UTC."""

    kind: StartKind
    #: Of the first record to copy, or the next one that there is; for ``timestamp``.
    time_ms: int = -1
    #: Partition and first offset; for ``offsets``. Partitions that are not named begin at their earliest.
    offsets: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        if self.kind == "offsets":
            return " ".join(f"{partition}@{offset}" for partition, offset in self.offsets)
        if self.kind == "timestamp":
            moment = datetime.fromtimestamp(self.time_ms / 1000, UTC)
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return self.kind


EARLIEST = StartPosition("earliest")
LATEST = StartPosition("latest")


def parse_start(text: str) -> StartPosition:
    """Read a start.

    Raises:
        ValueError: It is in none of ``START_FORMS``.
    """
    stripped = text.strip()
    if stripped in ("earliest", "latest"):
        return EARLIEST if stripped == "earliest" else LATEST
    if _EPOCH_MS.fullmatch(stripped):
        return StartPosition("timestamp", int(stripped))
    if _RFC_3339.fullmatch(stripped):
        return StartPosition("timestamp", _epoch_ms(stripped))
    pairs = [_OFFSET.fullmatch(word) for word in stripped.split()]
    found = tuple(sorted((int(pair[1]), int(pair[2])) for pair in pairs if pair is not None))
    if not pairs or len(found) != len(pairs):
        raise ValueError(f"{text!r} says no place to begin: write {START_FORMS}")
    if len(dict(found)) != len(found):
        raise ValueError(f"{text!r} names a partition twice")
    return StartPosition("offsets", offsets=found)


def _epoch_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise ValueError(f"{text!r} is no point in time: {error}") from error
    # Not by a float: it would round a millisecond away.
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return max(0, (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000)


@dataclass(frozen=True, slots=True)
class StartRules:
    """A flow's ``topics.start`` and its overrides, of which the first that fits a topic's name holds."""

    default: StartPosition = EARLIEST
    overrides: tuple[tuple[Pattern, StartPosition], ...] = ()

    def of(self, topic: str) -> StartPosition:
        """Where a topic begins that was there when the flow, or this rule, began."""
        return next((start for pattern, start in self.overrides if pattern.fits(topic)), self.default)


def start_rules(start: str, overrides: Sequence[str]) -> StartRules:
    """Read ``topics.start`` and its overrides, each written ``PATTERN=START``.

    Raises:
        ValueError: One can't be read, or the default names offsets, which are one topic's.
    """
    default = parse_start(start)
    if default.kind == "offsets":
        raise ValueError(f"{start!r}: offsets are a topic's own; write them as an override, for example orders={start}")
    found = []
    for text in overrides:
        pattern, equals, value = text.rpartition("=")
        compiled = compile_patterns([pattern.strip()]) if pattern.strip() else None
        if not equals or compiled is None:
            raise ValueError(f"{text!r}: write PATTERN=START, for example audit-.*=latest")
        found.append((compiled, parse_start(value)))
    return StartRules(default, tuple(found))


def out_of_bounds(
    topic: str, start: StartPosition, partitions: Collection[int], bounds: Mapping[int, tuple[int, int]]
) -> str | None:
    """Why a source topic can't begin at its offsets; None where it can.

    ``bounds``: first offset and end of what may be copied, of those of its ``partitions`` that could be queried.
    """
    if start.kind != "offsets":
        return None
    wrong = [
        f"{partition}@{offset} names a partition that it does not have"
        for partition, offset in start.offsets
        if partition not in partitions
    ]
    wrong += [
        f"{partition}@{offset} lies outside of partition {partition}, which goes from {first} to {end}"
        for partition, offset in start.offsets
        for first, end in [bounds.get(partition, (0, 2**63))]
        if not first <= offset <= end
    ]
    if not wrong:
        return None
    return f"topic {topic} can't begin where topics.start.overrides says: {'; '.join(wrong)}. Correct the offsets"
