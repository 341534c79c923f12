"""``sasl.jaas.config`` lines: ``LoginModule required key="value" ...;``."""

from __future__ import annotations

import re

_MODULE = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b", re.IGNORECASE)
_OPTION = re.compile(r"""\s*([\w.$-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""", re.DOTALL)
_END = re.compile(r"\s*;\s*$")


def parse_jaas(line: str) -> tuple[str, dict[str, str]]:
    """Read one login module and its options.

    Returns:
        The module's class name and the options, unquoted.

    Raises:
        ValueError: The line does not have that form. The text does not repeat the line, which holds secrets.
    """
    head = _MODULE.match(line)
    if head is None:
        raise ValueError('write: LoginModule required key="value" ...;')
    position = head.end()
    options: dict[str, str] = {}
    while option := _OPTION.match(line, position):
        options[option[1]] = _unquote(option[2])
        position = option.end()
    if not _END.match(line, position):
        after = f"after the option {list(options)[-1]}" if options else f"after {head[1]} {head[2]}"
        raise ValueError(f'{after} comes neither key="value" nor the closing semicolon')
    return head[1], options


def _unquote(text: str) -> str:
    if text[0] not in "\"'":
        return text
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
