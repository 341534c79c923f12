"""Transforms for the tests, as a user would write them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from mirror_ray.config.settings import TransformSettings
from mirror_ray.transforms import Record, Result, Transform

THIRD: tuple[str, dict[str, Any]] = (f"{__name__}:Third", {})


class Suffix(Transform):
    """Adds to each value; a value that begins with ``bad`` is an error, one that begins with ``gone`` is left out."""

    version = "1"
    pure = True

    def __init__(self, suffix: str = "!") -> None:
        self._suffix = suffix.encode()

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        """Change each."""
        return [self._changed(record) for record in records]

    def _changed(self, record: Record) -> Result:
        value = record.value or b""
        if value.startswith(b"gone"):
            return None
        if value.startswith(b"bad"):
            raise ValueError(f"can't make anything of {value!r}")
        return record._replace(value=value + self._suffix)


class Impure(Suffix):
    """The same without the promise."""

    pure = False


def steps(*found: tuple[str, dict[str, Any]], errors: str = "stop", topics: Sequence[str] = (".*",)) -> dict[str, Any]:
    """The settings of transforms by their types and options."""
    return {
        "steps": [{"type": name, "options": options, "topics": list(topics)} for name, options in found],
        "errors": errors,
    }


def transforms(*found: tuple[str, dict[str, Any]], errors: str = "stop") -> TransformSettings:
    """As settings."""
    return TransformSettings.model_validate(steps(*found, errors=errors))


def suffix(text: str = "!", kind: str = "Suffix") -> tuple[str, dict[str, Any]]:
    """A step that adds ``text``."""
    return f"{__name__}:{kind}", {"suffix": text}


class Third(Transform):
    """Keeps a third of the records, here and there, and gives them a header."""

    version = "1"
    pure = True

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        """Keep or leave out each."""
        return [
            record._replace(headers=(*record.headers, ("kept", b"yes"))) if of_the_third(record.value) else None
            for record in records
        ]


class ByFirst(Transform):
    """Sends each record where the first letter of its value says, ``bad`` ones nowhere, and others stay."""

    version = "1"
    pure = True

    def __init__(self, e: str = "eu", u: str = "us") -> None:
        self._ways = {b"e": e, b"u": u}
        self.destinations = tuple(destination for destination in (e, u) if destination)

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        """Send each."""
        return [self._sent(record) for record in records]

    def _sent(self, record: Record) -> Result:
        value = record.value or b""
        if value.startswith(b"bad"):
            return ValueError("it is bad")
        to = self._ways.get(value[:1])
        return record.to(to) if to else record


def by_first(**options: str) -> tuple[str, dict[str, Any]]:
    """A step that routes ``e…`` to eu and ``u…`` to us, or to other topics."""
    return f"{__name__}:ByFirst", dict(options)


def of_the_third(value: bytes | None) -> bool:
    """Whether ``Third`` keeps a record of this value."""
    return zlib.crc32(value or b"") % 3 == 0
