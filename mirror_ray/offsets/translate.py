"""Where a position on one side is on the other. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

#: As in MM2, which emits no checkpoint before it has copied a record.
NOTHING_COPIED = "no record of the partition was copied yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A position on the other side, or why there is none."""

    #: None: there is none yet, or at all.
    offset: int | None
    #: Otherwise ``offset`` is before the place, never behind it: records are read again, and none is left out.
    exact: bool = True
    #: Whether another place will be known as soon as more was copied.
    waits: bool = False
    #: Whether another place may be known at the next question: the source is being read for it, or could not be.
    again: bool = False
    reason: str | None = None


class ReadableBounds(NamedTuple):
    """Where a log begins and ends, as its readers see it."""

    start: int
    end: int


def within(found: Translation, there: ReadableBounds) -> Translation:
    """Bring a translation into the log that it is for: what retention took can't be read, what is lost is not there."""
    if found.offset is None:
        return found
    if found.offset > there.end:
        return Translation(
            offset=None, reason=f"it would be {found.offset}, and the log ends at {there.end}: its end was lost"
        )
    if found.offset < there.start:
        return replace(found, offset=there.start)
    return found
