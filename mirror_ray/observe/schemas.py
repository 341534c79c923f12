"""What the schema sync reports, and what `mirror-ray schemas` shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.observe.figures import counter, figure, gauge

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
    #: Why it is not as it is on the source, and what can be done.
    problem: str | None = None

    @property
    def differs(self) -> bool:
        """Whether the target does not have it, or not as the source has."""
        return self.state != "mirrored" or self.problem is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSchemas:
    """How a flow's schemas are."""

    #: How ids are copied; None: it is not decided yet.
    ids: Literal["same", "translated"] | None
    subjects: int = field(metadata=figure(metric=gauge("schema_subjects", "Subjects that are mirrored.")))
    versions: int = field(metadata=figure(metric=gauge("schema_versions", "Their versions on the source.")))
    mirrored: int = field(
        metadata=figure(metric=gauge("schema_versions_mirrored", "Versions that the target's registry has."))
    )
    #: Why versions are not mirrored, or what else keeps registries apart; the first few.
    problems: tuple[str, ...]
    #: How many there are of them.
    problem_count: int = field(
        metadata=figure(metric=gauge("schema_problems", "What keeps the registries apart: mirror-ray schemas."))
    )
    #: Why the last round failed; None: it did not.
    problem: str | None
    #: Seconds since the last round that succeeded; None: none has.
    age_s: float | None = field(
        metadata=figure(metric=gauge("schema_age_seconds", "Since schemas were last mirrored without an error."))
    )
    #: Requests to both registries since the start.
    requests: int = field(
        metadata=figure(metric=counter("schema_registry_requests", "Requests to the registries of both sides."))
    )

    def __str__(self) -> str:
        ids = f"ids {self.ids}" if self.ids is not None else "how ids are copied is not decided yet"
        return f"schemas: {self.mirrored:,} of {self.versions:,} versions mirrored, {ids}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReport:
    """What happened since the last report."""

    #: Time in ms, level, subject, text.
    events: tuple[tuple[int, str, str, str], ...]
    flows: dict[str, FlowSchemas]
    #: Why the flows' audit logs lack something.
    audit: dict[str, str]
