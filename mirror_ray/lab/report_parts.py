"""What the laboratory's reports have in common: Markdown tables and lists, and the machine that they were made on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Of a list of problems, so many are written out.
_PROBLEMS_SHOWN = 20


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are written as they are."""
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def problem_list(problems: Sequence[str]) -> str:
    """The first problems as a list, and how many more there are; empty without any."""
    lines = [f"- {problem}" for problem in problems[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"- and {len(problems) - _PROBLEMS_SHOWN} more")
    return "\n".join(lines)


def holds(wrong: Sequence[str]) -> str:
    """The verdict on what a run guarantees."""
    return "DOES NOT HOLD" if wrong else "HOLDS"


def document(parts: Iterable[str]) -> str:
    """Paragraphs, tables and lists as one document; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"
