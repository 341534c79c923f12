"""Times of the week: ``mon-fri 22:00-06:00``, ``sat+sun 00:00-24:00``, ``04:00-05:30`` (of every day)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FORM: Final = re.compile(r"(?:(?P<days>[a-z+-]+)\s+)?(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_DAY_MINUTES: Final = 24 * 60
_AHEAD_DAYS: Final = 8


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A time of some days of the week, in local time; one that ends before it begins ends the day after."""

    #: 0 is Monday: those on which it begins.
    days: frozenset[int]
    begin_minute: int
    #: Not included.
    end_minute: int

    @staticmethod
    def parse(text: str) -> TimeWindow:
        """Read one.

        Raises:
            ValueError: It is not written as one; the text says how.
        """
        found = _FORM.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is no time of the week: write it like mon-fri 22:00-06:00, or 22:00-06:00")
        begin, end = (int(found[at]) * 60 + int(found[at + 1]) for at in (2, 4))
        if int(found[3]) > 59 or int(found[5]) > 59 or begin >= _DAY_MINUTES or end > _DAY_MINUTES:
            raise ValueError(f"{text!r}: times are from 00:00 to 24:00")
        if begin == end:
            raise ValueError(f"{text!r} begins when it ends: a whole day is 00:00-24:00")
        return TimeWindow(_days(found["days"], text), begin, end)

    def __contains__(self, at: datetime) -> bool:
        """Whether that local time is in it."""
        minute, today = at.hour * 60 + at.minute, at.weekday()
        if self.begin_minute < self.end_minute:
            return today in self.days and self.begin_minute <= minute < self.end_minute
        yesterday = (today - 1) % 7
        return (today in self.days and minute >= self.begin_minute) or (
            yesterday in self.days and minute < self.end_minute
        )


def _days(text: str | None, window: str) -> frozenset[int]:
    if text is None or text == "daily":
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split("+"):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            raise ValueError(f"{window!r}: {part!r} is no day; days are {' '.join(_DAYS)}, mon-fri, sat+sun, or daily")
        begin, end = _DAYS.index(first), _DAYS.index(last or first)
        days |= {day % 7 for day in range(begin, end + 1 + (7 if end < begin else 0))}
    return frozenset(days)


def is_open(windows: Iterable[TimeWindow], now: datetime, zone: ZoneInfo) -> bool:
    """Whether an instant is in one of them, by the clocks of ``zone``."""
    local = now.astimezone(zone)
    return any(local in window for window in windows)


def next_change(windows: Sequence[TimeWindow], now: datetime, zone: ZoneInfo) -> datetime | None:
    """When they open next, or close if they are open now; local time. None: they never do."""
    before = is_open(windows, now, zone)
    for at in _boundaries(windows, now, zone):
        if at > now and is_open(windows, at, zone) != before:
            return at.astimezone(zone)
    return None


def _boundaries(windows: Sequence[TimeWindow], now: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    first = now.astimezone(zone).date()
    bounds = (minute for window in windows for minute in (window.begin_minute, window.end_minute))
    minutes = sorted({minute % _DAY_MINUTES for minute in bounds})
    for ahead in range(_AHEAD_DAYS + 1):
        day = first + timedelta(days=ahead)
        for minute in minutes:
            yield datetime(day.year, day.month, day.day, *divmod(minute, 60), tzinfo=zone).astimezone(UTC)
