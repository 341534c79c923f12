"""The grammar of Java ``.properties`` files, as ``java.util.Properties.load`` reads them."""

from __future__ import annotations

from collections.abc import Iterator

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Read a file's keys and values; of a key that is given twice, the last value counts.

    Raises:
        ValueError: A ``\u`` escape is not followed by four hexadecimal digits; the text names the line.
    """
    return {key: value for key, value, _ in iterate_properties(text)}


def iterate_properties(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (key, value, number of the line it begins on) for each entry, in the order of the file.

    Raises:
        ValueError: As ``parse_properties``.
    """
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            yield _unescape(key), _unescape(value), number
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; drop blank lines and comments (a comment is never continued)."""
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
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escape = text[position : position + 1]
        position += 1
        if escape == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(r"\u is not followed by four hexadecimal digits; write \\ for a backslash")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escape, escape))
    # Characters beyond the 16-bit plane come as two escapes, as in Java.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
