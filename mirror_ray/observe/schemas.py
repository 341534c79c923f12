"""What the schema sync reports, and what `mirror-ray schemas` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: ``mirrored``: the target has it. ``missing``: it does not yet. ``conflict``: it can't be registered there.
SchemaState = Literal["mirrored", "missing", "conflict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStatus:
    """One version of a source subject."""

    flow: str
    subject: str
    version: int
    kind: str
    source_id: int
    #: On the target.
    target_subject: str
    target_id: int | None
    state: SchemaState
    deleted: bool
    #: Why it is not mirrored, and what can be done.
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSchemas:
    """How a flow's schemas are."""

    #: How ids are copied; None: it is not decided yet.
    ids: Literal["same", "translated"] | None
    subjects: int
    versions: int
    mirrored: int
    #: Why versions are not mirrored, or what else keeps registries apart; the first few.
    problems: tuple[str, ...]
    #: Why the last round failed; None: it did not.
    problem: str | None
    #: Seconds since the last round that succeeded; None: none has.
    age_s: float | None
    #: Requests to both registries since the start.
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """What happened since the last report."""

    #: Time in ms, level, subject, text.
    events: tuple[tuple[int, str, str, str], ...]
    flows: dict[str, FlowSchemas]
    #: Why the flows' audit logs lack something.
    audit: dict[str, str]
