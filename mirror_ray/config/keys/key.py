"""What is said of one key, and how the row for it is found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Final

#: No key is longer by half; to compare longer ones takes long.
_LONGEST_COMPARED: Final = 150


class KeyUse(StrEnum):
    """What becomes of a key."""

    USED = "used"
    IGNORED = "ignored"
    REFUSED = "refused"


class ValueKind(Enum):
    """How the value of a used key is written."""

    TEXT = "text"
    #: One of a few words, in any case.
    WORD = "word"
    SECRET = "secret"  # noqa: S105 - a kind of value
    LIST = "list"
    #: ``TOPIC:NAME`` and ``PATTERN:REPLACEMENT``, separated by commas.
    NAMES = "list of topic:name"
    RENAMES = "list of pattern:replacement"
    BOOLEAN = "true or false"
    INTEGER = "integer"
    NUMBER = "number"
    SECONDS = "seconds, above 0"
    #: A negative interval turns a feature off in MM2.
    INTERVAL = "seconds; negative: off"
    SUBJECTS = "list of subject:name"
    CONTEXTS = "list of .context=.name"
    MAP = "name:value, separated by commas"
    LABELS = "name=value, separated by commas"


@dataclass(frozen=True, slots=True, eq=False)
class ConfigKey:
    """One key in one scope, equal to itself alone. A name that ends in ``*`` stands for all keys that begin so."""

    name: str
    use: KeyUse
    #: Why it is ignored, or what to do instead of a refused one; what differs from Kafka for a used one, if anything.
    text: str = ""
    #: The field that a used key sets, as in the native form.
    field: str = ""
    kind: ValueKind = ValueKind.TEXT
    #: Kafka's default, as its documentation writes it.
    default: str = ""
    #: Our default in words, where it is none that can be written in the file.
    silent: str = ""
    #: Why our default differs from Kafka's, on purpose.
    deviates: str = ""
    #: Values with which a refused key does no harm.
    accepted: tuple[str, ...] = ()


def used(
    name: str,
    field: str,
    kind: ValueKind = ValueKind.TEXT,
    default: str = "",
    text: str = "",
    *,
    silent: str = "",
    deviates: str = "",
) -> ConfigKey:
    """The row of a key that sets a field."""
    return ConfigKey(name, KeyUse.USED, text, field, kind, default, silent, deviates)


def ignored(text: str, names: str) -> tuple[ConfigKey, ...]:
    """Rows of keys, separated by blanks, that have no effect here, for one reason."""
    return tuple(ConfigKey(name, KeyUse.IGNORED, text) for name in names.split())


def refused(name: str, text: str, *accepted: str) -> ConfigKey:
    """The row of a key that stops everything, unless it has one of the ``accepted`` values."""
    return ConfigKey(name, KeyUse.REFUSED, text, accepted=accepted)


def find_key(keys: tuple[ConfigKey, ...], name: str) -> ConfigKey | None:
    """The row for a key: that of its own name, or else the longest ``*`` row that it begins with."""
    by_name, stars = _index(keys)
    return by_name.get(name) or next((row for begin, row in stars if name.startswith(begin)), None)


@lru_cache(maxsize=64)
def _index(keys: tuple[ConfigKey, ...]) -> tuple[dict[str, ConfigKey], list[tuple[str, ConfigKey]]]:
    """Rows by their names, of which the first counts, and the ``*`` rows by what they begin with, the longest first."""
    stars = [(row.name[:-1], row) for row in keys if row.name.endswith("*")]
    return {row.name: row for row in reversed(keys)}, sorted(stars, key=lambda star: len(star[0]), reverse=True)


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` for the most similar known name, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6) if len(name) <= _LONGEST_COMPARED else []
    return f"; did you mean {found[0]}?" if found else ""
