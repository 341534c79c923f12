"""How many replicators: follows load and lag within bounds, out quickly, in slowly.

A replicator is one process with one event loop, so what another one adds is processor time. The number follows what
the replicators use of a core; a flow that falls behind while they are half busy counts as well. One that falls behind
while they are idle is held up by something else, and a partition can't be divided: more replicators would not help
either, and the status says so instead.

Scales out when every check of the last ``scale_out_after_s`` asked for it; in, one at a time, when the others would
have had capacity to spare at every check of the last ``scale_in_after_s``. Each change restarts both periods, so that a
load that swings faster than that leaves the number alone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.config.settings import ElasticSettings
from mirror_ray.model.durations import about

#: Scale in only when the others would use at most this share of the target, so that it does not scale out at once.
SPARE = 0.8
#: A flow that is behind counts as too few replicators only while they use at least this share of the target.
BUSY = 0.5
#: Rounding errors of divisions are smaller.
_GRAIN = 1e-9

#: ``enough``: as many as needed. ``busy``, ``behind``, ``idle``: more or fewer are needed. ``at_most``: more are
#: needed than allowed. ``held_up``: behind, but not because of the replicators. ``undivided``: more would be idle.
Kind = Literal["enough", "busy", "behind", "idle", "at_most", "held_up", "undivided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLag:
    """How far one flow is behind; None where that is not known."""

    flow: str
    records: int | None
    seconds: float | None
    #: Records copied since a moment that is the same at each check.
    copied: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLoad:
    """The load of the system at one check."""

    #: Replicators that should run.
    wanted: int
    #: Share of a core that each running replicator used since the last check.
    cpus: tuple[float, ...]
    #: Bytes/s since the last check of each partition that should be copying.
    rates: tuple[float, ...]
    flows: tuple[FlowLag, ...] = ()
    #: Share of their buffers that the replicators use.
    buffered: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LateFlow:
    """A flow that is further behind than allowed, and will not catch up soon enough."""

    flow: str
    seconds: float
    #: At the pace of the last checks; infinite where the lag does not shrink.
    caught_up_in_s: float

    def __str__(self) -> str:
        trend = "growing" if math.isinf(self.caught_up_in_s) else f"caught up in {about(self.caught_up_in_s)} only"
        return f"{self.flow} is {about(self.seconds)} behind and {trend}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingAdvice:
    """How many replicators one check asks for, and why."""

    replicators: int
    kind: Kind
    why: str


def advise(load: SystemLoad, terms: ElasticSettings, late: Sequence[LateFlow]) -> ScalingAdvice:
    """What one check asks for. ``load.cpus`` has as many entries as replicators are wanted."""
    total = sum(load.cpus)
    used = f"replicators at {total / len(load.cpus):.0%} of a core"
    if late:
        used = f"{max(late, key=lambda flow: flow.seconds)}, {used}"
    needed = math.ceil(total / terms.target_cpu - _GRAIN)
    kind: Kind = "busy"
    if late and needed <= load.wanted:
        if total < BUSY * terms.target_cpu * load.wanted:
            return ScalingAdvice(replicators=load.wanted, kind="held_up", why=f"{used}: {_held_up_by(load)}")
        needed, kind = load.wanted + 1, "behind"
    if needed > load.wanted:
        return _out(load, terms, needed, kind, used)
    most = terms.bounded(max(1, len(load.rates)))
    enough = min(most, terms.bounded(math.ceil(total / (SPARE * terms.target_cpu) - _GRAIN)))
    if enough < load.wanted:
        return ScalingAdvice(replicators=enough, kind="idle", why=f"fewer do: all of them use {total:.0%} of a core")
    return ScalingAdvice(replicators=load.wanted, kind="enough", why=used)


def _out(load: SystemLoad, terms: ElasticSettings, needed: int, kind: Kind, used: str) -> ScalingAdvice:
    """Scale out: to as many as are needed, allowed, and useful."""
    useful = _useful(load.rates)
    possible = min(needed, useful, terms.bounded(needed))
    if possible > load.wanted:
        return ScalingAdvice(replicators=possible, kind=kind, why=used)
    if useful <= load.wanted:
        why = f"{used}; more would not help: a partition has one replicator, and the busiest ones have all the load"
        return ScalingAdvice(replicators=load.wanted, kind="undivided", why=why)
    most = terms.max_replicators
    return ScalingAdvice(
        replicators=load.wanted, kind="at_most", why=f"{used}; more would help: max_replicators is {most}"
    )


def _useful(rates: Sequence[float]) -> int:
    """Among how many replicators the load can be divided evenly: the busiest partition is the limit."""
    busiest = max(rates, default=0.0)
    return len(rates) if busiest <= 0 else math.ceil(sum(rates) / busiest - _GRAIN)


def _held_up_by(load: SystemLoad) -> str:
    if load.buffered >= BUSY:
        return "the target takes no more, or the link to it; more replicators would not help"
    return "the source gives no more, or the link to it or a limit; more replicators would not help"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingDecision:
    """How many replicators there should be from now on. ``news``: it is worth an event."""

    replicators: int
    why: str
    news: bool = False


@dataclass(slots=True)
class _ConsecutiveChecks:
    """Checks in a row that asked for the same."""

    asks: str
    since_s: float
    #: Of the numbers that they asked for, the one nearest to what there is.
    replicators: int


@dataclass(slots=True)
class ElasticScaler:
    """Remembers what the last checks asked for, and decides when that is to be done."""

    terms: ElasticSettings
    _wanted: int = 0
    _run: _ConsecutiveChecks | None = None
    _checked_s: float = -math.inf
    #: The kind of advice that the last event was about.
    _reported: Kind = "enough"
    #: Of each flow: when, how far behind, and how many copied.
    _history: dict[str, deque[tuple[float, int, int]]] = field(default_factory=dict)

    def decide(self, now_s: float, load: SystemLoad) -> ScalingDecision:
        """Take in one check; there must be more than three within ``scale_out_after_s``, or none is ever sustained.

        Guarantees: the number that comes back is within the bounds when ``load.wanted`` is, and changes at most once
        in ``scale_out_after_s``, inwards once in ``scale_in_after_s``, whatever the load does.
        """
        late = self._late(now_s, load.flows)
        if now_s - self._checked_s > self.terms.scale_out_after_s or load.wanted != self._wanted:
            self._run = None
        self._checked_s, self._wanted = now_s, load.wanted
        if len(load.cpus) < load.wanted:
            self._run = None
            return ScalingDecision(replicators=load.wanted, why=f"{len(load.cpus)} of {load.wanted} replicators are up")
        advice = advise(load, self.terms, late)
        run = self._continue(now_s, advice)
        if now_s - run.since_s < (self.terms.scale_in_after_s if run.asks == "in" else self.terms.scale_out_after_s):
            return ScalingDecision(replicators=load.wanted, why=advice.why)
        if run.asks in ("in", "out"):
            self._run = None
            self._reported = "enough"
            new = load.wanted - 1 if run.asks == "in" else run.replicators
            return ScalingDecision(replicators=new, why=advice.why, news=True)
        news = advice.kind not in ("enough", self._reported)
        self._reported = advice.kind
        return ScalingDecision(replicators=load.wanted, why=advice.why, news=news)

    def _continue(self, now_s: float, advice: ScalingAdvice) -> _ConsecutiveChecks:
        asks: str = advice.kind
        nearest = min
        if advice.replicators > self._wanted:
            asks = "out"
        elif advice.replicators < self._wanted:
            asks, nearest = "in", max
        run = self._run
        if run is None or run.asks != asks:
            run = self._run = _ConsecutiveChecks(asks, now_s, advice.replicators)
        run.replicators = nearest(run.replicators, advice.replicators)
        return run

    def _late(self, now_s: float, flows: Sequence[FlowLag]) -> list[LateFlow]:
        """The flows that are too far behind, and will be for too long at the pace of the last checks.

        The age of records is not enough: old records are far behind as soon as they arrive. The backlog must take too
        long to copy, too.
        """
        self._history = {flow.flow: self._history.get(flow.flow, deque()) for flow in flows if flow.records is not None}
        found = []
        for flow in flows:
            if flow.records is None:
                continue
            history = self._history[flow.flow]
            history.append((now_s, flow.records, flow.copied))
            while history[0][0] < now_s - self.terms.scale_out_after_s:
                history.popleft()
            then_s, before, copied = history[0]
            elapsed_s = now_s - then_s
            left_s = _time(flow.records, before - flow.records, elapsed_s)
            least_s = min(flow.seconds or 0.0, left_s, _time(flow.records, flow.copied - copied, elapsed_s))
            if elapsed_s > 0 and least_s > self.terms.lag_seconds and flow.seconds is not None:
                found.append(LateFlow(flow=flow.flow, seconds=flow.seconds, caught_up_in_s=left_s))
        return found


def _time(records: int, done: int, elapsed_s: float) -> float:
    """How long so many records take, when ``done`` of them took ``elapsed_s``; in seconds."""
    return records * elapsed_s / done if done > 0 else math.inf
