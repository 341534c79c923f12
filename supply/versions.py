"""Which of two versions is the newer one, in PyPI's order, in Maven's and in Cargo's."""

from __future__ import annotations

import re
from typing import Literal

from packaging.version import InvalidVersion, Version

#: A release's candidates are before it; other words after a number are after it, alphabetically.
#: Source: Maven's ``ComparableVersion``; these are the rules that our jars need.
_BEFORE = {name: rank for rank, name in enumerate(("alpha", "beta", "milestone", "rc", "snapshot"), start=-5)}
_NOTHING = ("", "final", "ga", "release")
_END, _ZERO = (0, 0, ""), (1, 0, "")
_SHORT = {"a": "alpha", "b": "beta", "m": "milestone", "cr": "rc"}


def is_before(one: str, other: str, ecosystem: Literal["pypi", "maven", "cargo"]) -> bool:
    """Whether ``one`` is older than ``other``."""
    if ecosystem == "maven":
        return _maven(one) < _maven(other)
    if ecosystem == "cargo":
        return _semver(one) < _semver(other)
    try:
        return Version(one) < Version(other)
    except InvalidVersion:
        return _maven(one) < _maven(other)


def _semver(version: str) -> tuple[list[int], bool, list[tuple[bool, int, str]]]:
    """By semantic versioning: what follows a plus does not count, a candidate is before its release."""
    numbers, _, candidate = version.partition("+")[0].partition("-")
    words = [(False, int(word), "") if word.isdecimal() else (True, 0, word) for word in candidate.split(".")]
    return [int(number) for number in numbers.split(".")], not candidate, words


def _maven(version: str) -> list[tuple[int, int, str]]:
    tokens: list[tuple[int, int, str]] = []
    # The end counts as a word: it is after candidates, and before everything else that continues.
    for token in [*map(_token, re.findall(r"\d+|[a-z]+", version.lower())), _END]:
        while token[0] < 1 and tokens and tokens[-1] in (_ZERO, _END):
            tokens.pop()
        tokens.append(token)
    return tokens


def _token(text: str) -> tuple[int, int, str]:
    if text.isdigit():
        return (1, int(text), "")
    name = _SHORT.get(text, text)
    if name in _NOTHING:
        return _END
    return (_BEFORE[name], 0, "") if name in _BEFORE else (0, 1, name)
