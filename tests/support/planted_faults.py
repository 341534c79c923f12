"""One planted fault in a copy: its kind, its place, and the records that the copy holds then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from tests.support.reading import Record

Kind = Literal["plain", "transactional", "compacted", "merged", "transformed", "append-time", "rebatched"]
Fault = Literal["foreign", "doubled", "missing", "key", "value", "headers", "timestamp", "swapped"]
Place = Literal["first", "middle", "last"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FAULTS: tuple[Fault, ...] = get_args(Fault)
PLACES: tuple[Place, ...] = get_args(Place)

#: Records of a partition, of the topics that are copied into one of each.
RECORDS = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One partition of a kind of topic: its fault, and where. ``fault`` None: it has none."""

    kind: Kind
    partition: int
    fault: Fault | None = None
    place: Place = "first"
    #: Whether the partition is still being copied.
    under_way: bool = False

    def __str__(self) -> str:
        what = f"{self.fault} at the {self.place}" if self.fault else "under way" if self.under_way else "clean"
        return f"{self.kind}-{self.partition}: {what}"


class Line(NamedTuple):
    """A record of the remote partition, whether the flow wrote it, and its source offset by the flow's state."""

    record: Record
    ours: bool = True
    #: -1: none.
    source: int = -1


FOREIGN = Record(b"foreign", b"nobody's", (("x", b"y"),), 1, 1_700_000_000_000)


def cases(kind: Kind, faults: Sequence[Fault] = FAULTS, places: Sequence[Place] = PLACES) -> list[Case]:
    """All partitions of a kind of topic: two without a fault come first."""
    clean = [Case(kind=kind, partition=0), Case(kind=kind, partition=1, under_way=True)]
    wanted = [(fault, place) for fault in faults for place in places]
    return clean + [Case(kind=kind, partition=n, fault=f, place=p) for n, (f, p) in enumerate(wanted, len(clean))]


def with_fault(lines: Sequence[Line], case: Case) -> list[Line]:
    """A copy with the fault; ``lines`` is the right one."""
    if case.fault is None:
        return list(lines)
    at = {"first": 0, "middle": len(lines) // 2, "last": len(lines) - 1}[case.place]
    record, _, source = lines[at]
    changed = list(lines)
    match case.fault:
        case "foreign":
            changed.insert(len(lines) if case.place == "last" else at, Line(FOREIGN, ours=False))
        case "doubled":
            changed.insert(at + 1, Line(record))
        case "missing":
            del changed[at]
        case "swapped":
            other = at - 1 if case.place == "last" else at + 1
            changed[at] = Line(lines[other].record, source=source)
            changed[other] = Line(record, source=lines[other].source)
        case _:
            changed[at] = Line(_changed(record, case.fault), source=source)
    return changed


def _changed(record: Record, fault: Fault) -> Record:
    match fault:
        case "key":
            return record._replace(key=b"other")
        case "value":
            return record._replace(value=(record.value or b"") + b"?")
        case "headers":
            return record._replace(headers=(*record.headers, ("more", None)))
        case _:
            return record._replace(timestamp_ms=record.timestamp_ms + 1)
