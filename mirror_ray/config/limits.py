"""Settings of what a flow may use: bytes per second, whose turn it is first, times of the week."""

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
    """What a flow, its routes and its backfills may use together. Bytes are those on the wire, where they are read."""

    #: None: as fast as it goes.
    bytes_per_second: BytesPerSecond | None = None
    #: ``PATTERN=BYTES_PER_SECOND`` each, for every topic that fits; the first that fits holds.
    topics: tuple[str, ...] = ()
    #: ``PATTERN=NUMBER`` each, the first that fits; others have 0. Those with higher numbers get their bytes first.
    priorities: tuple[str, ...] = ()
    #: Times of the week in which the flow copies, like ``mon-fri 22:00-06:00``; none: always.
    windows: tuple[str, ...] = ()
    #: ``TIME OF THE WEEK=BYTES_PER_SECOND`` each: what holds then instead of ``bytes_per_second``; the first that fits.
    rates: tuple[str, ...] = ()
    #: Whose clocks ``windows`` and ``rates`` go by, as in the tz database.
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
    """What stands before and behind the last ``=``.

    Raises:
        ValueError: There is none, or no whole number behind it.
    """
    name, found, number = item.rpartition("=")
    if not found or not name.strip() or not re.fullmatch(r"-?[0-9]{1,15}", number.strip()):
        raise ValueError(f"{item!r} is not written {form}, with a whole number of at most 15 digits")
    return name.strip(), int(number)
