"""Finds a system's problems by its status and the alert settings.

Texts are labels of a metric as well, so they contain no changing figure: "more than 5 min behind", whatever the lag.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.config.settings import AlertSettings
from mirror_ray.observe.events import GapStatus
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.problems import Problem, ProblemKind
from mirror_ray.observe.status import FlowStatus, PartitionStatus

#: Every problem is a series of a metric, and nobody reads more.
MOST_PROBLEMS: Final = 100
#: How many topics or partitions are named for one reason.
_NAMED: Final = 3
#: Longer reasons are cut.
_LONGEST: Final = 400


@dataclass(frozen=True, slots=True)
class ReplicatorExit:
    """The unexpected end of a replicator; ``time_ms``: ms since the epoch."""

    time_ms: int
    replicator: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFacts:
    """What problems are found by. Flows are named ``A->B``."""

    now_ms: int
    started_ms: int
    flows: Sequence[FlowStatus]
    partitions: Mapping[str, Sequence[PartitionStatus]]
    gaps: Sequence[GapStatus] = ()
    deaths: Sequence[ReplicatorExit] = ()
    #: Why replicators can't be started, by replicator.
    missing: Mapping[str, str] = field(default_factory=dict)
    #: Drift of a flow that topic sync can't reconcile.
    drift: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Why a flow as a whole is down.
    down: Mapping[str, str] = field(default_factory=dict)
    #: Flows whose lag has grown for longer than is allowed.
    growing: frozenset[str] = frozenset()
    #: Flows that lag because their windows have only just opened.
    catching_up: frozenset[str] = frozenset()
    #: Why a flow's audit log is not complete.
    audit: Mapping[str, str] = field(default_factory=dict)
    #: Flows with heartbeats.
    heartbeats: frozenset[str] = frozenset()


def judge(facts: AlertFacts, limits: AlertSettings) -> tuple[Problem, ...]:
    """All problems, the critical ones first; at most ``MOST_PROBLEMS``."""
    found = [
        *_down(facts),
        *_crashes(facts, limits),
        *_missing(facts),
        *(problem for flow in facts.flows for problem in _stopped(facts.partitions.get(flow.flow, ()))),
        *(problem for flow in facts.flows for problem in _late(flow, facts, limits)),
        *_gaps(facts, limits),
        *_drift(facts),
        *_schemas(facts),
        *_audit(facts),
    ]
    found.sort(key=lambda problem: problem.severity != "critical")
    return tuple(found[:MOST_PROBLEMS])


def _problem(
    kind: ProblemKind, subject: str, text: str, remedy: str, *, flow: str | None = None, critical: bool = False
) -> Problem:
    """``flow``: None: it is the subject; "": the problem is the system's."""
    return Problem(
        kind=kind,
        severity="critical" if critical else "warning",
        flow=subject if flow is None else flow,
        subject=subject,
        text=text,
        remedy=remedy,
    )


def _down(facts: AlertFacts) -> Iterator[Problem]:
    remedy = "look at that cluster, the network to it and its credentials; the flow goes on by itself"
    for flow in facts.flows:
        if (why := facts.down.get(flow.flow)) is not None:
            yield _problem("flow_down", flow.flow, _cut(why), remedy, critical=True)


def _crashes(facts: AlertFacts, limits: AlertSettings) -> Iterator[Problem]:
    by_replicator: dict[str, list[ReplicatorExit]] = defaultdict(list)
    for death in facts.deaths:
        by_replicator[death.replicator].append(death)
    for replicator, deaths in sorted(by_replicator.items()):
        reason = _cut(deaths[-1].reason)
        lately = [death for death in deaths if facts.now_ms - death.time_ms <= limits.crash_loop_s * 1000]
        if len(lately) >= limits.crash_loop_deaths:
            text = f"died {limits.crash_loop_deaths} times or more in {duration(limits.crash_loop_s)}: {reason}"
            remedy = "read its log, and mirror-ray events; pause what it died of"
            yield _problem("crash_loop", replicator, text, remedy, flow="", critical=True)
        elif facts.now_ms - deaths[-1].time_ms <= limits.replicator_died_s * 1000:
            text = f"died less than {duration(limits.replicator_died_s)} ago: {reason}"
            remedy = "see that it is back (mirror-ray replicators); mirror-ray events says why it died"
            yield _problem("replicator_died", replicator, text, remedy, flow="")


def _missing(facts: AlertFacts) -> Iterator[Problem]:
    remedy = "ray status shows whether there is room; its log says what it fails on"
    for replicator, why in sorted(facts.missing.items()):
        yield _problem("replicator_missing", replicator, _cut(why), remedy, flow="", critical=True)


def _stopped(partitions: Iterable[PartitionStatus]) -> Iterator[Problem]:
    """Yield a problem for each topic and reason."""
    by_reason: dict[tuple[str, str, str], list[PartitionStatus]] = defaultdict(list)
    for partition in partitions:
        if partition.state in ("stopped", "refused"):
            by_reason[partition.topic, partition.state, partition.reason or "no reason is known"].append(partition)
    for (topic, state, reason), stopped in by_reason.items():
        subject = topic if state == "refused" else _named(topic, [partition.partition for partition in stopped])
        text, remedy = _cut(f"{state}: {reason}"), _remedy(stopped[0])
        yield _problem("partition_stopped", subject, text, remedy, flow=stopped[0].flow, critical=True)


def _named(topic: str, numbers: Sequence[int]) -> str:
    shown = ",".join(str(number) for number in sorted(numbers)[:_NAMED])
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return f"{topic}-{shown}{more}"


def _remedy(partition: PartitionStatus) -> str:
    if partition.trouble == "schema_missing":
        return f"mirror-ray schemas '{partition.flow}' --problems says what keeps the schema; it goes on by itself then"
    if partition.trouble is not None:
        return f"decide, then: mirror-ray resolve '{partition.flow}' {partition.topic} --by skip or resync"
    return "remove the cause that it names; it is tried again by itself"


def _late(flow: FlowStatus, facts: AlertFacts, limits: AlertSettings) -> Iterator[Problem]:
    if flow.state in ("idle", "paused"):
        return
    name = flow.flow
    if flow.lag_seconds is not None and flow.lag_seconds > limits.lag_s and name not in facts.catching_up:
        remedy = f"mirror-ray status says whether limits or quotas hold it up; mirror-ray lag '{name}' shows where,"
        remedy += " mirror-ray replicators whether they are busy"
        yield _problem("lag_high", name, f"more than {duration(limits.lag_s)} behind its source", remedy)
    if name in facts.growing:
        text = f"its lag has grown for {duration(limits.lag_growing_s)}: the source is written faster than it is copied"
        remedy = (
            "mirror-ray status says whether limits or quotas hold it up; if not: more replicators, or a slow leader"
        )
        yield _problem("lag_growing", name, text, remedy)
    since_s = (facts.now_ms - facts.started_ms) / 1000
    beat_s = since_s if flow.heartbeat_age_s is None else flow.heartbeat_age_s
    if name in facts.heartbeats and beat_s > limits.heartbeat_s:
        text = f"no heartbeat was acknowledged for more than {duration(limits.heartbeat_s)}"
        remedy = "mirror-ray events; WRITE on the heartbeats topic of the target is needed"
        yield _problem("heartbeat_stale", name, text, remedy)
    if (late := _groups_wait(flow.groups, limits)) is not None:
        remedy = f"mirror-ray groups '{name}'; a failover now would repeat what they have read since"
        yield _problem("checkpoint_stale", name, late, remedy)


def _groups_wait(groups: FlowGroups | None, limits: AlertSettings) -> str | None:
    if groups is None:
        return None
    if groups.problem:
        return _cut(f"consumer groups wait: {groups.problem}")
    if groups.age_s is not None and groups.age_s > limits.checkpoint_s:
        return f"consumer groups were not carried over for more than {duration(limits.checkpoint_s)}"
    return None


def _gaps(facts: AlertFacts, limits: AlertSettings) -> Iterator[Problem]:
    first: dict[tuple[str, str, str], GapStatus] = {}
    for gap in facts.gaps:
        if facts.now_ms - gap.time_ms <= limits.gap_s * 1000:
            first.setdefault((gap.flow, gap.topic, gap.kind), gap)
    for gap in first.values():
        text = f"{gap.kind} was answered by {gap.policy} less than {duration(limits.gap_s)} ago"
        remedy = f"mirror-ray gaps '{gap.flow}' has the offsets; tell whoever reads the copy"
        yield _problem("gap_recorded", gap.topic, text, remedy, flow=gap.flow)


def _drift(facts: AlertFacts) -> Iterator[Problem]:
    for flow, texts in facts.drift.items():
        for text in map(_cut, texts):
            yield _problem("drift", flow, text, f"mirror-ray drift '{flow}' shows all of it, and what brings it back")


def _schemas(facts: AlertFacts) -> Iterator[Problem]:
    for flow in facts.flows:
        if flow.schemas is None:
            continue
        name, failed = flow.flow, flow.schemas.problem
        if failed:
            remedy = "look at that registry, the network to it and its credentials; it is tried again by itself"
            yield _problem("schemas_failing", name, _cut(f"schemas are not mirrored: {failed}"), remedy)
        remedy = f"mirror-ray schemas '{name}' --problems; docs/schemas.md has a way on from each conflict"
        for text in map(_cut, flow.schemas.problems):
            yield _problem("schemas_failing", name, text, remedy)


def _audit(facts: AlertFacts) -> Iterator[Problem]:
    remedy = "look at the target, and grant our principal WRITE, READ and DESCRIBE on mm2-ray-audit-log.*; what waits"
    for flow, why in facts.audit.items():
        yield _problem("audit_failing", flow, _cut(why), f"{remedy} is written then")


def duration(seconds: float) -> str:
    """A duration as people write it: 90 s, 5 min, 2 h."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
