"""Makes foreign text safe for a terminal: control characters are shown, not sent."""

from __future__ import annotations

import logging
import re

#: C0 but tab and newline, DEL, C1, line and paragraph separator, what turns the direction of writing, and surrogates.
_STEERING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(f"[{_STEERING}]")
_UNSAFE_OR_BREAK = re.compile(f"[\t\n{_STEERING}]")

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    r"""The text with its control characters as Python writes them (``\x1b``, ``\u202e``); lines and tabs stay."""
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """As ``printable``, for text that has to stay on one line: tabs and line breaks are escaped, too."""
    return _UNSAFE_OR_BREAK.sub(_escape, text)


def is_unsafe(text: str) -> bool:
    """Whether `printable` would change it."""
    return _UNSAFE.search(text) is not None


def quoted(document: str) -> str:
    r"""JSON, or YAML whose unsafe scalars are in double quotes, with them as ``\u202e``: it reads back as the same."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


class PrintableFormatter(logging.Formatter):
    """Escapes log records, which may hold names and errors from clusters."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record, and escape control characters."""
        return printable(super().format(record))


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
