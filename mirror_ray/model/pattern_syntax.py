"""Java's regular expressions, as MM2's files have them, in RE2's syntax. What would mean something else is refused.

Source: ``java.util.regex.Pattern``; https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

import re
from typing import Final

#: RE2's own bound.
_MOST_REPEATS: Final = 1000
_SHOWN_CHARACTERS: Final = 80

#: Of escapes: how Java writes what can't be used, and what to do instead.
_REFUSED_ESCAPES: Final = {
    r"\\k<|\\[1-9]": "patterns have no references back to groups; write out what the group may hold",
    r"\\[0ceuN]|\\x(?!\{[0-9A-Fa-f]+\}|[0-9A-Fa-f]{2})": r"write a character by its number as \x{41}",
    r"\\[pP]": r"classes of that kind are Java's; write the range, for example [A-Za-z] for \p{Alpha}",
    r"\\[hH]": "it is Java's; write [ \\t], or [^ \\t]",
    r"\\[vV]": "it is one character to some and a class in Java; write [\\n-\\r], or [^\\n-\\r]",
    r"\\R": "it is Java's; write [\\n-\\r]",
    r"\\[GXC]|\\b\{": "it has no meaning for whole names; leave it out",
}
_REFUSED: Final = _REFUSED_ESCAPES | {
    r"\(\?<?[=!]": (
        "there is no look-around but look-ahead at the very beginning; say what is not to match by an exclusion "
        "(topics.exclude, groups.exclude; drop in FilterByKey)"
    ),
    r"\(\?>": "patterns have no atomic groups; write (?: in its place",
    r"(?:[*+?]|\{[0-9,]+\})\+": "patterns have no possessive repeats; leave out the last +",
    r"\(\?P=": "patterns have no references back to groups; write out what the group may hold",
    r"\(\?(?!P?<|[ims]*(?:-[ims]+)?[:)])": "there are groups (?:...), names (?<name>...), and flags (?i), (?m), (?s)",
    r"\{(?![0-9]+(?:,[0-9]*)?\})": (
        r"no number of repeats follows (a comma in a list begins the next pattern); the character itself is written \{"
    ),
}
_REFUSED_IN_SETS: Final = _REFUSED_ESCAPES | {
    r"\[|&&": r"sets within sets are Java's; write them as one set, the characters themselves as \[ and \&"
}
_ESCAPE: Final = r"(?P<escape>\\x\{\w+\}|\\.)"
_QUOTED: Final = r"\\Q(?P<quoted>.*?)(?:\\E|\Z)"


def _tokens(refused: dict[str, str], others: str) -> re.Pattern[str]:
    """The next piece of a pattern; group ``r0``, ``r1``, ...: the refusal of that number."""
    listed = "|".join(f"(?P<r{number}>{refusal})" for number, refusal in enumerate(refused))
    return re.compile(rf"{_QUOTED}|{listed}|{_ESCAPE}|{others}|(?P<other>[A-Za-z0-9_.-]+|.)", re.DOTALL)


_OUTSIDE: Final = _tokens(
    _REFUSED, r"(?P<opens>\[\^?\]?)|\(\?P?<(?P<name>\w+)>|\{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}"
)
_IN_SET: Final = _tokens(_REFUSED_IN_SETS, r"(?P<closes>\])")
#: Escapes that are written otherwise in RE2, or mean less: there ``\s`` is without the vertical tab.
_OUTSIDE_ESCAPES: Final = {r"\Z": r"\z", r"\s": "[[:space:]]", r"\S": "[[:^space:]]"}
_IN_SET_ESCAPES: Final = {r"\s": "[:space:]", r"\S": "[:^space:]"}


def to_re2(pattern: str) -> str:
    """The pattern in RE2's syntax; whether it is one at all RE2 says.

    Raises:
        ValueError: A part of it has no counterpart, or would mean something else; the text says what to write.
    """
    parts: list[str] = []
    names: set[str] = set()
    at, in_set = 0, False
    while (token := (_IN_SET if in_set else _OUTSIDE).match(pattern, at)) is not None:
        text, kind, at = token.group(), token.lastgroup or "", token.end()
        if kind == "quoted":
            text = escaped(token["quoted"])
        elif kind == "escape":
            text = (_IN_SET_ESCAPES if in_set else _OUTSIDE_ESCAPES).get(text, text)
        elif kind in {"opens", "closes"}:
            in_set = kind == "opens"
        elif kind == "name":
            if (name := token["name"]) in names:
                raise ValueError(f"{shown(pattern)} can't be used: two of its groups are named {name}")
            names.add(name)
        elif kind in {"least", "most"}:
            _check_repeats(pattern, text, token["least"], token["most"])
        elif kind != "other":
            advice = list((_REFUSED_IN_SETS if in_set else _REFUSED).values())[int(kind[1:])]
            raise ValueError(f"{shown(pattern)} can't be used: {shown(text)}: {advice}")
        parts.append(text)
    return "".join(parts)


def _check_repeats(pattern: str, text: str, *numbers: str | None) -> None:
    if any(number and (len(number) > 5 or int(number) > _MOST_REPEATS) for number in numbers):
        raise ValueError(
            f"{shown(pattern)} can't be used: {shown(text)}: at most {_MOST_REPEATS} repeats can be counted, and a "
            "topic's name has at most 249 characters; write * or + in its place"
        )


def escaped(text: str) -> str:
    """A pattern that fits that text alone, in Java's syntax and in RE2's."""
    return re.sub(r"[^A-Za-z0-9_\x80-\U0010ffff]", lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    return f"\\{character}" if character.isprintable() else f"\\x{{{ord(character):x}}}"


def shown(pattern: str) -> str:
    """The pattern, or its beginning, for an error's text."""
    return repr(pattern if len(pattern) <= _SHOWN_CHARACTERS else f"{pattern[:_SHOWN_CHARACTERS]}...")
