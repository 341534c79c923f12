"""Look-ahead at a pattern's beginning, ``(?!test-).*``, which RE2 lacks: taken off, to be matched by itself.

The look-ahead and what follows are each matched in linear time; Java's answer for a whole name is both together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mirror_ray.model.pattern_syntax import shown

_LOOK_AHEAD: Final = ("(?!", "(?=")
#: What has no structure: quotes, escapes, sets; and what has.
_PIECE: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<mark>[()|])|.", re.DOTALL)
_MOST_GUARDS: Final = 20
_FLAGS: Final = re.compile(r"\(\?[a-zA-Z-]+\)")


class LookAhead(NamedTuple):
    """What a name must begin with, or must not."""

    wanted: bool
    pattern: str


def without_look_ahead(pattern: str) -> tuple[tuple[LookAhead, ...], str]:
    """The look-ahead at a pattern's beginning, and the rest of it; all of a pattern that has none.

    Raises:
        ValueError: It is not closed, or holds for one of several alternatives.
    """
    at = len(pattern) - len(pattern.removeprefix("^"))
    guards: list[LookAhead] = []
    while pattern.startswith(_LOOK_AHEAD, at):
        end = next((position for position, mark, depth in _marks(pattern, at) if (mark, depth) == (")", 0)), None)
        if end is None:
            raise ValueError(f"{shown(pattern)} is not a regular expression: missing )")
        guards.append(LookAhead(pattern[at + 2] == "=", pattern[at + 3 : end]))
        at = end + 1
    if not guards:
        return (), pattern
    if len(guards) > _MOST_GUARDS:
        raise ValueError(f"{shown(pattern)} has {len(guards)} look-aheads, and {_MOST_GUARDS} at most are matched")
    if any((mark, depth) == ("|", 0) for _, mark, depth in _marks(pattern, at)):
        raise ValueError(
            f"{shown(pattern)} can't be used: its look-ahead is of its first alternative alone; list the others as "
            "patterns of their own, with a comma between them"
        )
    return tuple(guards), pattern[at:]


def check_flags(patterns: Iterable[str]) -> None:
    """See that no flag reaches from one pattern of a list into another, which is matched by itself.

    Raises:
        ValueError: One would, in Java, where a list is one expression.
    """
    for pattern in patterns:
        if (found := _FLAGS.search(pattern)) is not None:
            raise ValueError(
                f"{shown(pattern)} can't be used: {found[0]} holds to the end of the list, which has look-ahead; write "
                f"{found[0][:-1]}:...) around the pattern"
            )


def _marks(pattern: str, at: int) -> Iterator[tuple[int, str, int]]:
    """Parentheses and bars from ``at`` on, with how deep they lie: a group's own parentheses as deep as the group."""
    depth = 0
    for piece in _PIECE.finditer(pattern, at):
        mark = piece["mark"]
        if mark is None:
            continue
        depth -= mark == ")"
        yield piece.start(), mark, depth
        depth += mark == "("
