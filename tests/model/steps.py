"""How many steps the machine has taken, in all examples together, and what came of them."""

from __future__ import annotations

from collections import Counter

from mirror_ray.replication.partition_states import TRANSITIONS, CopyState, StateEvent

#: How partitions ended, records copied, requests that came late.
tally: Counter[str] = Counter()

_done: Counter[str] = Counter()
#: Rows of the partitions' transition table that were taken.
rows: set[tuple[CopyState, StateEvent]] = set()


def count() -> None:
    """The machine has taken another step."""
    _done["steps"] += 1


def events(number: int) -> None:
    """So many things have happened in it; some steps are many."""
    _done["events"] += number


def told() -> str:
    """All of it; empty before the first step."""
    if not _done:
        return ""
    came = ", ".join(f"{number:,} {what}" for what, number in tally.most_common())
    taken = f"{len(rows)} of {len(TRANSITIONS)} rows of the transition table"
    return f"{_done['steps']:,} steps, {_done['events']:,} events, {taken}: {came}"
