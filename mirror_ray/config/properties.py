"""The grammar of Java ``.properties`` files, as ``java.util.Properties.load`` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Read a file's keys and values; of a key that is given twice, the last value counts.

    Raises:
        ValueError: A ``\u`` escape is not followed by four hexadecimal digits; the text names the line.
    """
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            entries[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines, by the number of the first; drop blank lines and comments, which are never continued."""
    pending, begin = "", 0
    # Only these end a line in Java; str.splitlines knows more.
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = raw.lstrip(_BLANKS)
        if not pending:
            if not line or line[0] in "#!":
                continue
            begin = number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending += line[:-1]
            continue
        yield begin, pending + line
        pending = ""
    if pending:
        yield begin, pending


def _split(line: str) -> tuple[str, str]:
    """Cut at the first ``=``, ``:`` or blank that is not escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Characters beyond the 16-bit plane come as two escapes, as in Java.
    return _ESCAPE.sub(_escaped, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escaped(found: re.Match[str]) -> str:
    escape = found[1]
    if escape == "u":
        raise ValueError(r"\u is not followed by four hexadecimal digits; write \\ for a backslash")
    return _ESCAPES.get(escape, escape) if len(escape) < 5 else chr(int(escape[1:], 16))
