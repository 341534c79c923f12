"""The versions of all mirrored subjects, as the web UI and its JSON show them: found by words, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirror_ray.observe.schemas import SchemaStatus


@dataclass(frozen=True, slots=True)
class SchemaQuery:
    """Which rows are wanted."""

    flow: str | None
    #: Part of what a row says of a version, in whatever case.
    search: str
    #: Only what the target lacks or has otherwise.
    problems: bool
    offset: int
    limit: int


@dataclass(frozen=True, slots=True)
class SchemaPage:
    """Some of the rows that were found."""

    rows: Sequence[SchemaStatus]
    total: int


class SchemaList:
    """Every version, what has a problem first; tens of thousands perhaps, so they are ordered once for all who ask."""

    def __init__(self, rows: Sequence[SchemaStatus]) -> None:
        """``rows``: all that there are."""
        self._rows = [(row, _words(row)) for row in sorted(rows, key=_order)]

    def page(self, wanted: SchemaQuery) -> SchemaPage:
        """The rows that a query wants, and how many there would be without its limit."""
        words = wanted.search.lower()
        found = [
            row
            for row, text in self._rows
            if wanted.flow in (None, row.flow) and (row.differs or not wanted.problems) and words in text
        ]
        return SchemaPage(found[wanted.offset : wanted.offset + wanted.limit], len(found))


def _order(row: SchemaStatus) -> tuple[bool, str, str, int]:
    return not row.differs, row.flow, row.subject, row.version


def _words(row: SchemaStatus) -> str:
    target_id = "" if row.target_id is None else row.target_id
    text = f"{row.flow} {row.subject} {row.version} {row.kind} {row.source_id} {row.target_subject} {target_id}"
    return f"{text} {row.state} {row.problem or ''}".lower()
