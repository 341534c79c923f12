"""Reads points in time as people write them on the command line."""

from __future__ import annotations

import re
from datetime import datetime

from mirror_ray.model.errors import ConfigError

#: What ``parse_time`` takes, for help texts.
TIME_FORMS = "15m, 24h or 7d ago; 2026-11-22; 2026-11-22T10:00 (local time, or with Z or +01:00); epoch milliseconds"

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"(\d+)([smhd])", re.ASCII)
#: Fewer digits are a date without hyphens, or a mistake.
_EPOCH_MS = re.compile(r"\d{11,15}", re.ASCII)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII)


def parse_time(text: str, now_ms: int) -> int:
    """Read a point in time in one of ``TIME_FORMS``, and return it in epoch milliseconds.

    Raises:
        ConfigError: The text is none of these, or not in the calendar.
    """
    try:
        return max(0, _parse(text.strip(), now_ms))
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{text!r} is no point in time ({error}): write {TIME_FORMS}") from None


def _parse(text: str, now_ms: int) -> int:
    if match := _AGO.fullmatch(text):
        return now_ms - int(match[1]) * _UNIT_MS[match[2]]
    if _EPOCH_MS.fullmatch(text):
        return int(text)
    if _ISO.fullmatch(text.upper()):
        return round(datetime.fromisoformat(text.upper()).timestamp() * 1000)
    raise ValueError("in none of these forms")
