"""The audit log's entries: what was changed or done, by whom, with what outcome; docs/audit.md has the format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import CorruptRecordError

#: Of the format. A reader of a lower version takes the fields that it knows.
VERSION: Final = 1

#: ``intended``: written before the change, whose outcome is not known. ``unchanged``: it was so already.
Outcome = Literal["intended", "done", "unchanged", "refused", "unknown"]

#: Characters of one field.
_LONGEST: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPrincipal:
    """Who makes changes."""

    #: The system's name.
    system: str
    #: The part of it, or the command: ``coordinator``, ``checkpoint``, ``failover``.
    component: str
    #: Whose command it is: ``ann@host``, ``page 10.0.0.7``; None: nobody's.
    operator: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One entry."""

    time_ms: int
    #: The entry with the outcome has the id of its intention; otherwise unique.
    id: str
    system: str
    flow: str
    component: str
    operator: str | None
    kind: str
    cluster: str
    subject: str
    before: str | None
    after: str | None
    why: str
    outcome: Outcome
    #: Why it was refused, or why its outcome is not known.
    error: str | None = None
    version: int = VERSION

    def with_outcome(self, outcome: Outcome, error: str | None = None) -> AuditEntry:
        """The entry with its outcome."""
        return replace(self, outcome=outcome, error=None if error is None else cut(error))

    def with_values(self, before: str | None, after: str | None) -> AuditEntry:
        """The entry of what is done, with the values before and after."""
        before, after = (None if value is None else cut(value) for value in (before, after))
        return replace(self, outcome="done", before=before, after=after)


_TEXTS: Final = frozenset(field.name for field in fields(AuditEntry)) - {"time_ms", "version"}
_OPTIONAL: Final = frozenset({"operator", "before", "after", "error"})


def entry_of(
    change: ClusterChange, who: AuditPrincipal, flow: str, *, time_ms: int, id_: str, outcome: Outcome
) -> AuditEntry:
    """The entry for a change; texts that are too long are cut."""
    texts: Any = {name: None if text is None else cut(text) for name, text in asdict(change).items()}
    return AuditEntry(time_ms=time_ms, id=id_, flow=flow, outcome=outcome, **asdict(who), **texts)


def encode_entry(entry: AuditEntry) -> tuple[bytes, bytes]:
    """Key and value of its record."""
    return entry.id.encode(), json.dumps(asdict(entry), separators=(",", ":"), ensure_ascii=False).encode()


def decode_entry(value: bytes) -> AuditEntry:
    """Read a record's value.

    Raises:
        CorruptRecordError: It is none.
    """
    try:
        document: Any = json.loads(value)
        found = {field.name: document[field.name] for field in fields(AuditEntry)}
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptRecordError(f"this is no entry of an audit log: {error!r}") from error
    if not all(_is_right(name, content) for name, content in found.items()):
        raise CorruptRecordError("this is no entry of an audit log: a field is of another type")
    return AuditEntry(**found)


def _is_right(name: str, value: object) -> bool:
    if name in _TEXTS:
        return isinstance(value, str) or (value is None and name in _OPTIONAL)
    return isinstance(value, int)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which entries are asked for; None, or nothing: all."""

    since_ms: int | None = None
    flow: str | None = None
    cluster: str | None = None
    kinds: frozenset[str] = frozenset()
    #: The newest so many.
    limit: int = 100

    def __contains__(self, entry: object) -> bool:
        return (
            isinstance(entry, AuditEntry)
            and entry.time_ms >= (self.since_ms or 0)
            and self.flow in (None, entry.flow)
            and self.cluster in (None, entry.cluster)
            and (not self.kinds or entry.kind in self.kinds)
        )


def newest(entries: Iterable[AuditEntry], wanted: AuditQuery) -> list[AuditEntry]:
    """Those that match the query, each once with its last known outcome, oldest first."""
    by_id: dict[str, AuditEntry] = {}
    for entry in entries:
        if entry in wanted and (entry.id not in by_id or entry.outcome != "intended"):
            by_id[entry.id] = entry
    return sorted(by_id.values(), key=lambda entry: (entry.time_ms, entry.id))[-wanted.limit :]


def cut(text: str) -> str:
    """A text, or the beginning of one that is too long."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
