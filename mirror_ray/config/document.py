"""Reads YAML as plain values within bounds: a few lines can't become gigabytes, and each error names line and key.

Dates and numbers of base 60 (``1:30``) of YAML 1.1 are text here, as in YAML 1.2; keys are always text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from mirror_ray.model.errors import ConfigError

#: The path of a value in a document: keys, and positions in lists.
DocumentPath: TypeAlias = tuple[int | str, ...]

#: Levels of mappings and lists.
_DEEPEST: Final = 50
#: Bounds of values, and of characters in all texts; what an alias repeats counts every time.
_MOST_VALUES: Final = 100_000
_MOST_CHARACTERS: Final = 4 << 20
#: Programs can't work with numbers of more digits.
_MOST_DIGITS: Final = 18
_LONGEST_SHOWN: Final = 60

#: libyaml's parser, where PyYAML was built with it: it is ten times as fast.
_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING_TAGS: Final = ("!", "tag:yaml.org,2002:str")
_COLLECTION_TAGS: Final = (None, "!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)
_WORDS: Final = {
    form: value
    for value, words in ((None, "~ null"), (True, "true yes on"), (False, "false no off"))
    for word in words.split()
    for form in (word, word.capitalize(), word.upper())
} | {"": None}


def path_text(place: DocumentPath) -> str:
    """A path in the document as ``flows.A->B.topics.include[0]``."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{_shown(part)}" if text else _shown(part)
    return text or "the document"


def read_document(text: str) -> Any:
    """The one document in a text: None, truth values, numbers, texts, lists and mappings by text.

    Raises:
        ConfigError: It is no YAML, or goes beyond the bounds; the text names the line and no value.
    """
    try:
        return _Reader(text).document()
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        raise ConfigError(f"not YAML: {line}{_without_values(error.problem or 'it can not be read')}") from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or "it can not be read"
        raise ConfigError(f"not YAML: at character {getattr(error, 'position', 0)}: {reason}") from None


class _Size(NamedTuple):
    values: int
    characters: int


class _Anchored(NamedTuple):
    value: Any
    size: _Size


class _Reader:
    """Builds values from a parser's events, and counts them."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_PARSER)
        #: By anchor; None: its value is not complete yet.
        self._anchors: dict[str, _Anchored | None] = {}
        self._size = _Size(0, 0)

    def document(self) -> Any:
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        value = self._value(next(self._events), ())
        next(self._events)
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise _refused(after, (), "a second document begins; write one document to a file")
        return value

    def _value(self, event: Any, place: DocumentPath) -> Any:
        if len(place) > _DEEPEST:
            raise _refused(event, place[:3], f"more than {_DEEPEST} levels of lists and mappings")
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event, place)
        with self._anchored(event) as made:
            self._count(event, place, _Size(1, len(event.value) if isinstance(event, yaml.ScalarEvent) else 0))
            if isinstance(event, yaml.ScalarEvent):
                made.append(_scalar(event, place))
            elif event.tag not in _COLLECTION_TAGS:
                raise _refused(event, place, "tags are not offered; leave it out")
            elif isinstance(event, yaml.SequenceStartEvent):
                made.append(list(self._items(place)))
            else:
                made.append(self._mapping(place))
        return made[0]

    def _items(self, place: DocumentPath) -> Iterator[Any]:
        number = 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._value(event, (*place, number))
            number += 1

    def _mapping(self, place: DocumentPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, place)
            value = self._value(next(self._events), (*place, key))
            if key == "<<" and event.implicit[0]:
                merged = {**_merged(event, (*place, key), value), **merged}
            elif key in found:
                raise _refused(event, place, f"the key {_shown(key)!r} is given twice")
            else:
                found[key] = value
        return {**merged, **found}

    def _key(self, event: Any, place: DocumentPath) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise _refused(event, place, "a key is not a plain text; write KEY: VALUE")
        with self._anchored(event) as made:
            self._count(event, place, _Size(1, len(event.value)))
            made.append(event.value)
        return str(event.value)

    @contextmanager
    def _anchored(self, event: Any) -> Iterator[list[Any]]:
        """Store the value that is put into the list, with its size, under the event's anchor, if it has one."""
        made: list[Any] = []
        if event.anchor is None:
            yield made
            return
        before, self._anchors[event.anchor] = self._size, None
        yield made
        size = _Size(self._size.values - before.values, self._size.characters - before.characters)
        self._anchors[event.anchor] = _Anchored(made[0], size)

    def _repeated(self, event: Any, place: DocumentPath) -> Any:
        if event.anchor not in self._anchors:
            raise _refused(event, place, "a text that begins with * names no anchor; put it in quotes if it is a text")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _refused(event, place, "an alias (*) names what it stands in itself; leave it out")
        self._count(event, place, anchored.size)
        return anchored.value

    def _count(self, event: Any, place: DocumentPath, more: _Size) -> None:
        self._size = _Size(self._size.values + more.values, self._size.characters + more.characters)
        if self._size.values > _MOST_VALUES:
            raise _refused(event, place, f"more than {_MOST_VALUES:,} values, those counted that aliases repeat")
        if self._size.characters > _MOST_CHARACTERS:
            raise _refused(
                event, place, f"more than {_MOST_CHARACTERS:,} characters, those counted that aliases repeat"
            )


def _merged(event: Any, place: DocumentPath, value: Any) -> dict[str, Any]:
    """The mapping that ``<<: *anchor`` merges in; of a list of anchors the first wins."""
    several = value if isinstance(value, list) else [value]
    if not all(isinstance(mapping, dict) for mapping in several):
        raise _refused(event, place, "brings in something other than a mapping; write <<: *ANCHOR of a mapping")
    return {key: entry for mapping in reversed(several) for key, entry in mapping.items()}


def _scalar(event: Any, place: DocumentPath) -> Any:
    text = event.value
    plain, quoted = event.implicit
    if not plain:
        if not quoted and event.tag not in _STRING_TAGS:
            raise _refused(event, place, "a value that begins with ! is a tag, which is not offered; put it in quotes")
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        if len(text.lstrip("+-")) > _MOST_DIGITS:
            raise _refused(
                event, place, f"a number of more than {_MOST_DIGITS} digits; put it in quotes if it is a text"
            )
        return int(text)
    if _NOT_FINITE.fullmatch(text):
        raise _refused(event, place, "not a finite number; write a number, or leave the key out for its default")
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise _refused(event, place, "too large for a number; put it in quotes if it is a text")
        return number
    return text


def _refused(event: Any, place: DocumentPath, what: str) -> ConfigError:
    return ConfigError(f"{path_text(place)} (line {event.start_mark.line + 1}): {what}")


def _without_values(problem: str) -> str:
    """A parser's message without the values that it cites, which may be secrets; tokens and single signs stay."""
    return re.sub(r"'([^']*)'", lambda cited: cited[0] if len(cited[1]) < 2 or cited[1][0] == "<" else "...", problem)


def _shown(key: str) -> str:
    return key if len(key) <= _LONGEST_SHOWN else f"{key[:_LONGEST_SHOWN]}..."
