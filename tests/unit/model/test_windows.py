"""Times of the week."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.time_windows import TimeWindow, is_open, next_change

_BERLIN = ZoneInfo("Europe/Berlin")
#: A Monday.
_MONDAY = datetime(2026, 11, 23, tzinfo=UTC)


def _at(day: int, hour: int, minute: int = 0) -> datetime:
    return _MONDAY + timedelta(days=day, hours=hour, minutes=minute)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("mon-fri 08:00-18:00", _at(0, 8), _at(5, 9)),
        ("mon-fri 08:00-18:00", _at(4, 17, 59), _at(4, 18)),
        ("mon-fri 22:00-06:00", _at(5, 5, 59), _at(0, 5)),
        ("fri-mon 00:00-24:00", _at(6, 23), _at(1, 0)),
        ("sat+sun 00:00-24:00", _at(5, 0), _at(4, 23, 59)),
        ("22:00-6:00", _at(2, 3), _at(2, 12)),
        ("daily 04:00-05:30", _at(3, 5, 29), _at(3, 5, 30)),
    ],
)
def test_a_window_is_open_within_its_times(text: str, inside: datetime, outside: datetime) -> None:
    """The end is not included; one that ends before it begins ends the day after."""
    window = TimeWindow.parse(text)
    assert inside in window
    assert outside not in window


@pytest.mark.parametrize("text", ["", "mon 8-9", "mon 08:00-08:00", "xyz 08:00-09:00", "08:00-24:01", "08:60-09:00"])
def test_what_is_no_window_is_refused_with_its_text(text: str) -> None:
    """And with how one is written."""
    with pytest.raises(ValueError, match=r"write it like|no day|times are|whole day"):
        TimeWindow.parse(text)


def test_the_clock_is_that_of_the_zone() -> None:
    """22:00 in Berlin is 21:00 UTC in winter and 20:00 in summer."""
    windows = [TimeWindow.parse("22:00-06:00")]
    assert is_open(windows, datetime(2026, 1, 10, 21, 0, tzinfo=UTC), _BERLIN)
    assert not is_open(windows, datetime(2026, 7, 10, 19, 59, tzinfo=UTC), _BERLIN)
    assert is_open(windows, datetime(2026, 7, 10, 20, 0, tzinfo=UTC), _BERLIN)


def test_it_is_known_when_they_open_and_that_they_never_close() -> None:
    """Across a weekend; a whole week has no end."""
    opens = next_change([TimeWindow.parse("mon-fri 08:00-18:00")], _at(4, 20), ZoneInfo("UTC"))
    assert opens == _at(7, 8)
    assert next_change([TimeWindow.parse("00:00-24:00")], _at(0, 0), ZoneInfo("UTC")) is None


@given(
    begin=st.integers(0, 1439),
    end=st.integers(0, 1440),
    days=st.frozensets(st.integers(0, 6), min_size=1),
    minute=st.integers(0, 7 * 1440),
)
def test_the_next_change_is_the_first(begin: int, end: int, days: frozenset[int], minute: int) -> None:
    """Minute by minute nothing changes before it."""
    if begin == end:
        return
    window, now, zone = TimeWindow(days, begin, end), _MONDAY + timedelta(minutes=minute), ZoneInfo("UTC")
    found = next_change([window], now, zone)
    first = next(
        (at for ahead in range(1, 8 * 1440) if ((at := now + timedelta(minutes=ahead)) in window) != (now in window)),
        None,
    )
    assert found == first
