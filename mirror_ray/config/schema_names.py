"""Names of subjects and contexts of schema registries: how they are written, and what can be none.

A subject of the context ``.c`` is ``:.c:SUBJECT``; one of the default context ``.`` has its name alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirror_ray.config.base import comma_separated, shown

_DEFAULT_CONTEXT: Final = "."
_QUALIFIED: Final = ":."


class SubjectName(NamedTuple):
    """A subject in its context."""

    context: str
    name: str

    def __str__(self) -> str:
        return self.name if self.context == _DEFAULT_CONTEXT else f":{self.context}:{self.name}"


def subject_name(text: str, context: str = _DEFAULT_CONTEXT) -> SubjectName:
    """The subject that a text names; without a context in it, the one in ``context``.

    Raises:
        ValueError: It can't be a subject.
    """
    name = text
    if text.startswith(_QUALIFIED):
        context, _, name = text[1:].partition(":")
        if (why := illegal_context(context)) is not None:
            raise ValueError(why)
    if not name:
        raise ValueError(f"{shown(text)} names no subject: write SUBJECT, or :.CONTEXT:SUBJECT")
    if not name.isprintable():
        raise ValueError(f"{shown(text)} can't be a subject: it has characters that can't be printed")
    return SubjectName(context, name)


def illegal_context(name: str) -> str | None:
    """Why a registry has no context of that name; None: it may have."""
    if not name.startswith(_DEFAULT_CONTEXT):
        return f"{shown(name)} can't be a context: its name begins with a dot, write {shown(f'.{name}')}"
    if ":" in name or not name.isprintable():
        return f"{shown(name)} can't be a context: a colon ends its name, and it has only characters that are printed"
    return None


def subject_pairs(text: str) -> dict[str, str]:
    """Read ``SUBJECT:NAME``, more of them separated by commas; each may be qualified, ``:.a:SUBJECT::.b:NAME``.

    Raises:
        ValueError: An item is no pair, or a subject has two names.
    """
    return _distinct("subject", [_subject_pair(item) for item in comma_separated(text)])


def _subject_pair(item: str) -> tuple[str, str]:
    before, found, behind = item.rpartition(f":{_QUALIFIED}")
    if found and before:
        return before.strip(), f"{_QUALIFIED}{behind.strip()}"
    before, _, behind = (part.strip() for part in item.rpartition(":"))
    if not before or not behind or (before.startswith(_QUALIFIED) and ":" not in before[1:]):
        raise ValueError(f"{item!r} is no pair: write SUBJECT:NAME, more of them separated by commas")
    return before, behind


def context_pairs(text: str) -> dict[str, str]:
    """Read ``.CONTEXT=.NAME``, more of them separated by commas.

    Raises:
        ValueError: An item is no pair, or a context has two names.
    """
    pairs = []
    for item in comma_separated(text):
        before, _, behind = (part.strip() for part in item.partition("="))
        if not before or not behind:
            raise ValueError(f"{item!r} is no pair: write .CONTEXT=.NAME, more of them separated by commas")
        pairs.append((before, behind))
    return _distinct("context", pairs)


def _distinct(what: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    names: dict[str, str] = {}
    for before, behind in pairs:
        if names.setdefault(before, behind) != behind:
            raise ValueError(f"{what} {before!r} has two names, {names[before]!r} and {behind!r}: leave one of them")
    return names
