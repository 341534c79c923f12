"""What is said of one key, and how the row for it is found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum


class Use(StrEnum):
    """What becomes of a key."""

    USED = "used"
    IGNORED = "ignored"
    REFUSED = "refused"


class Kind(Enum):
    """How the value of a used key is written."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 - a kind of value
    LIST = "list"
    #: ``TOPIC:NAME`` and ``PATTERN:REPLACEMENT``, separated by commas.
    NAMES = "list of topic:name"
    RENAMES = "list of pattern:replacement"
    BOOLEAN = "true or false"
    INTEGER = "integer"
    SECONDS = "seconds, above 0"
    #: A negative interval turns a feature off in MM2.
    INTERVAL = "seconds; negative: off"
    MAP = "name:value, separated by commas"


@dataclass(frozen=True, slots=True)
class Key:
    """One key in one scope. A name that ends in ``*`` stands for all keys that begin so."""

    name: str
    use: Use
    #: Why it is ignored, or what to do instead of a refused one; what differs from Kafka for a used one, if anything.
    text: str = ""
    #: The field that a used key sets, as in the native form.
    field: str = ""
    kind: Kind = Kind.TEXT
    #: Kafka's default, as its documentation writes it.
    default: str = ""
    #: Values with which a refused key does no harm.
    accepted: tuple[str, ...] = ()


def used(name: str, field: str, kind: Kind = Kind.TEXT, default: str = "", text: str = "") -> Key:
    """The row of a key that sets a field."""
    return Key(name, Use.USED, text, field=field, kind=kind, default=default)


def ignored(text: str, names: str) -> tuple[Key, ...]:
    """Rows of keys, separated by blanks, that have no effect here, for one reason."""
    return tuple(Key(name, Use.IGNORED, text) for name in names.split())


def refused(name: str, text: str, *accepted: str) -> Key:
    """The row of a key that stops everything, unless it has one of the ``accepted`` values."""
    return Key(name, Use.REFUSED, text, accepted=accepted)


def find_key(keys: Iterable[Key], name: str) -> Key | None:
    """The row for a key: that of its own name, or else the longest ``*`` row that it begins with."""
    best: Key | None = None
    for key in keys:
        if key.name == name:
            return key
        if (
            key.name.endswith("*")
            and name.startswith(key.name[:-1])
            and (best is None or len(key.name) > len(best.name))
        ):
            best = key
    return best


def nearest(name: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` for the most similar known name, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
