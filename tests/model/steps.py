"""How many steps the machine has taken, in all examples together, and what came of them."""

from __future__ import annotations

from collections import Counter

#: How partitions ended, records copied, requests that came late.
tally: Counter[str] = Counter()

_done: Counter[str] = Counter()


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
    return f"{_done['steps']:,} steps, {_done['events']:,} events: {came}"
