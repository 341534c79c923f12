"""Figures as texts: short, with units, with three significant digits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNTS = ("", " k", " M", " bn")
_THOUSAND = 1000
UNKNOWN = "–"  # noqa: RUF001 - usual in tables


def number(value: float | None) -> str:
    """A whole number with thousands separators."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """A number of three digits: ``1.23 M``."""
    return _scaled(value, _COUNTS)


def size(value: float | None) -> str:
    """Bytes in decimal units: ``1.23 GB``."""
    return _scaled(value, tuple(f" {unit}" for unit in _BYTES))


def per_second(value: float | None) -> str:
    """Bytes per second."""
    return UNKNOWN if value is None else f"{size(value)}/s"


def lasting(value_ms: float | None) -> str:
    """A length of time, in its largest fitting unit: ``12 ms``, ``1.5 s``, ``2.3 h``."""
    if value_ms is None:
        return UNKNOWN
    for unit, length_ms, limit in (("ms", 1, 1000), ("s", 1000, 120), ("min", 60_000, 120), ("h", 3_600_000, 48)):
        if value_ms < length_ms * limit:
            return f"{_digits(value_ms / length_ms)} {unit}"
    return f"{_digits(value_ms / 86_400_000)} days"


def ratio(value: float | None) -> str:
    """A ratio: ``4.20 x``."""
    return UNKNOWN if value is None else f"{value:.2f} ×"  # noqa: RUF001 - the sign for it


def share(value: float | None) -> str:
    """A share in percent."""
    return UNKNOWN if value is None else f"{value:.1%}"


def money(value: float | None, currency: str) -> str:
    """An amount with two digits, with four below 0.1."""
    if value is None:
        return UNKNOWN
    digits = 2 if value >= 0.1 or value == 0 else 4
    return f"{'< 0.0001' if 0 < value < 0.0001 else f'{value:,.{digits}f}'} {currency}"


def moment(value_ms: int | None) -> str:
    """A point in time, UTC."""
    return UNKNOWN if value_ms is None else f"{_utc(value_ms):%Y-%m-%d %H:%M:%S}"


def tick(value_ms: int, step_ms: int) -> str:
    """A point in time on an axis whose marks are ``step_ms`` apart."""
    at = _utc(value_ms)
    if step_ms % 86_400_000 == 0:
        return f"{at:%d %b}"
    return f"{at:%d %b %H:%M}" if step_ms >= 43_200_000 else f"{at:%H:%M:%S}" if step_ms < 60_000 else f"{at:%H:%M}"


def plural(value: int, one: str) -> str:
    """``1 topic``, ``2 topics``."""
    return f"{number(value)} {one if value == 1 else one + 's'}"


def _utc(value_ms: int) -> datetime:
    return datetime.fromtimestamp(value_ms / 1000, UTC)


def _scaled(value: float | None, units: Sequence[str]) -> str:
    if value is None:
        return UNKNOWN
    index = 0
    while abs(value) >= _THOUSAND - 0.5 and index < len(units) - 1:
        value /= _THOUSAND
        index += 1
    return f"{_digits(value)}{units[index]}"


def _digits(value: float) -> str:
    """Three significant digits."""
    if value == round(value) and abs(value) < _THOUSAND:
        return f"{value:.0f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
