"""Points in time on the command line."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.cli.times import parse_time
from mirror_ray.model.errors import ConfigError

NOW_MS = 1_795_000_000_000

_NEARLY = ("2026-11", "2026-13-01", "2026-11-22Z", "2026-11-22T25:00", "2026-11-22 10:00", "2026-11-22T10:00 UTC")


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A local time that is two hours ahead, in summer and winter."""
    monkeypatch.setenv("TZ", "XYZ-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _utc_ms(*moment: int) -> int:
    return round(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0s", NOW_MS),
        ("90s", NOW_MS - 90_000),
        ("15m", NOW_MS - 15 * 60_000),
        ("24h", NOW_MS - 24 * 3_600_000),
        (" 7d ", NOW_MS - 7 * 86_400_000),
        ("99999d", 0),
        ("9" * 400 + "d", 0),
        ("1795000000000", 1_795_000_000_000),
        ("2026-11-22", _utc_ms(2026, 11, 21, 22)),
        ("2026-11-22T10:00", _utc_ms(2026, 11, 22, 8)),
        ("2026-11-22t10:00:05", _utc_ms(2026, 11, 22, 8, 0, 5)),
        ("2026-11-22T10:00Z", _utc_ms(2026, 11, 22, 10)),
        ("2026-11-22T10:00:00z", _utc_ms(2026, 11, 22, 10)),
        ("2026-11-22T10:00:00.250+01:00", _utc_ms(2026, 11, 22, 9) + 250),
        ("2026-11-22T10:00-05:30", _utc_ms(2026, 11, 22, 15, 30)),
    ],
)
def test_forms(text: str, expected_ms: int) -> None:
    """Lengths of time before now, dates, times of day with and without zone, epoch milliseconds."""
    assert parse_time(text, NOW_MS) == expected_ms


@pytest.mark.parametrize(
    "text", ["", " ", "h", "-5h", "1.5h", "5w", "5 h", "²h", "1e9", "yesterday", "20261122", *_NEARLY]
)
def test_anything_else_is_an_error_with_the_forms(text: str) -> None:
    """The text is named, and what could be written."""
    with pytest.raises(ConfigError) as caught:
        parse_time(text, NOW_MS)
    assert repr(text) in str(caught.value)
    assert "24h" in str(caught.value)


@given(st.integers(min_value=0, max_value=7_258_118_400_000))
def test_iso_times_come_back(moment_ms: int) -> None:
    """To the millisecond."""
    assert parse_time(datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(), NOW_MS) == moment_ms


@given(st.text())
def test_nothing_else_escapes(text: str) -> None:
    """Whatever is written: a time, or the error for people."""
    with contextlib.suppress(ConfigError):
        assert parse_time(text, NOW_MS) >= 0
