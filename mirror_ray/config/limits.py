"""Settings of a flow's limits: bytes per second, priorities of topics, times of the week."""

from __future__ import annotations

import re
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import field_validator

from mirror_ray.config.base import Settings
from mirror_ray.config.numbers import BytesPerSecond
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.model.time_windows import TimeWindow


class LimitSettings(Settings):
    """Limits of a flow with its routes and backfills. Bytes are those on the wire, where the source is read."""

    #: None: no limit.
    bytes_per_second: BytesPerSecond | None = None
    #: Items are ``PATTERN=BYTES_PER_SECOND``, a limit for every topic that matches; the first match counts.
    topics: tuple[str, ...] = ()
    #: Items are ``PATTERN=NUMBER``; the first match counts, other topics have 0. Higher numbers get their bytes first.
    priorities: tuple[str, ...] = ()
    #: Times of the week in which the flow copies, like ``mon-fri 22:00-06:00``; empty: always.
    windows: tuple[str, ...] = ()
    #: Items are ``TIME OF THE WEEK=BYTES_PER_SECOND``: replaces ``bytes_per_second`` then; the first match counts.
    rates: tuple[str, ...] = ()
    #: The time zone of ``windows`` and ``rates``, as in the tz database.
    time_zone: str = "UTC"

    @field_validator("topics", "priorities")
    @classmethod
    def _by_pattern(cls, items: tuple[str, ...], info: Any) -> tuple[str, ...]:
        for item in items:
            pattern, number = split_rule(item, "PATTERN=NUMBER")
            if info.field_name == "topics" and number < 1:
                raise ValueError(f"{item!r}: a limit is at least 1 byte per second; to copy nothing exclude the topic")
            compile_patterns((pattern,))
        return items

    @field_validator("windows")
    @classmethod
    def _times(cls, items: tuple[str, ...]) -> tuple[str, ...]:
        for item in items:
            TimeWindow.parse(item)
        return items

    @field_validator("rates")
    @classmethod
    def _by_time(cls, items: tuple[str, ...]) -> tuple[str, ...]:
        for item in items:
            time, number = split_rule(item, "TIME OF THE WEEK=BYTES_PER_SECOND")
            TimeWindow.parse(time)
            if number < 1:
                raise ValueError(f"{item!r}: a limit is at least 1 byte per second; windows say when nothing is copied")
        return items

    @field_validator("time_zone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone of the tz database: write it like Europe/Berlin") from None
        return name

    @property
    def on(self) -> bool:
        """Whether anything is limited."""
        return bool(self.bytes_per_second or self.topics or self.windows or self.rates)


def split_rule(item: str, form: str = "NAME=NUMBER") -> tuple[str, int]:
    """Split an item at its last ``=``.

    Raises:
        ValueError: It has none, or no whole number follows it.
    """
    name, found, number = item.rpartition("=")
    if not found or not name.strip() or not re.fullmatch(r"-?[0-9]{1,15}", number.strip()):
        raise ValueError(f"{item!r} is not written {form}, with a whole number of at most 15 digits")
    return name.strip(), int(number)
