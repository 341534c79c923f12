"""What the laboratory's reports have in common: Markdown tables and lists, and the machine that they were made on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import psutil

#: Of a list of problems, so many are written out.
_PROBLEMS_SHOWN = 20


#: A text is written as it is, an int with thousands separators, a float with one digit, None as ``-``.
Cell = str | int | float | None


def machine_size() -> str:
    """``one machine with 2 cores and 25 GB``."""
    return f"one machine with {os.cpu_count()} cores and {psutil.virtual_memory().total / 1e9:.0f} GB"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table of these rows."""
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)])


def _cell(value: Cell) -> str:
    match value:
        case None:
            return "-"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.1f}"
        case _:
            return value


def problem_list(problems: Sequence[str]) -> str:
    """The first problems as a list, and how many more there are; empty without any."""
    lines = [f"- {problem}" for problem in problems[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"- and {len(problems) - _PROBLEMS_SHOWN} more")
    return "\n".join(lines)


def document(parts: Iterable[str]) -> str:
    """Paragraphs, tables and lists as one document; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"
