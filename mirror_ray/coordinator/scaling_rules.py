"""How many replicators: follows load and lag within bounds, out quickly, in slowly.

A replicator is one process with one event loop, so what another one adds is processor time. The number follows what
the replicators use of a core; a flow that falls behind while they are half busy counts as well. One that falls behind
while they are idle is held up by something else, and a partition can't be divided: more replicators would not help
either, and that is said instead.

Out, when the load has asked for it at every look of ``scale_out_after_s``; in, one at a time, when the rest would have
had room to spare at every look of ``scale_in_after_s``. Each change begins both anew, so that a load that swings
faster than that leaves the number alone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mirror_ray.config.settings import ElasticSettings

#: In only when the rest would use at most this share of the target: what is between keeps out and in apart.
SPARE = 0.8
#: Behind counts as too few replicators while they use at least this share of the target.
BUSY = 0.5
#: A rest of a division that is no more than arithmetic.
_GRAIN = 1e-9

#: ``enough``: as many as needed. ``busy``, ``behind``, ``idle``: more or fewer are needed. ``at_most``: more are
#: needed than allowed. ``held_up``: behind, and not because of the replicators. ``undivided``: more would be idle.
Kind = Literal["enough", "busy", "behind", "idle", "at_most", "held_up", "undivided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLag:
    """How far one flow is behind; None where that is not known."""

    flow: str
    records: int | None
    seconds: float | None
    #: Records copied since some moment, which is the same at each look.
    copied: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLoad:
    """What the system does at one look."""

    #: Replicators that should run.
    wanted: int
    #: Share of a core of each one that runs, since the last look.
    cpus: tuple[float, ...]
    #: Bytes/s of each partition that should be copying, since the last look.
    rates: tuple[float, ...]
    flows: tuple[FlowLag, ...] = ()
    #: Share of their buffers that the replicators use.
    buffered: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LateFlow:
    """A flow that is further behind than allowed and will not be soon enough what it should be."""

    flow: str
    seconds: float
    #: At the pace of the last looks; infinite where it does not come closer.
    caught_up_in_s: float

    def __str__(self) -> str:
        trend = "growing" if math.isinf(self.caught_up_in_s) else f"caught up in {_span(self.caught_up_in_s)} only"
        return f"{self.flow} is {_span(self.seconds)} behind and {trend}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingAdvice:
    """How many replicators one look asks for, and why."""

    replicators: int
    kind: Kind
    why: str


def advise(load: SystemLoad, terms: ElasticSettings, late: Sequence[LateFlow]) -> ScalingAdvice:
    """What one look asks for. ``load.cpus`` names as many as are wanted."""
    total = sum(load.cpus)
    used = f"replicators at {total / len(load.cpus):.0%} of a core"
    if late:
        used = f"{max(late, key=lambda each: each.seconds)}, {used}"
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
    """More are needed; as many as may be, and as the load can be divided among."""
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
    """Among how many replicators the load can be divided evenly; beyond that the busiest partition is the limit."""
    busiest = max(rates, default=0.0)
    return len(rates) if busiest <= 0 else math.ceil(sum(rates) / busiest - _GRAIN)


def _held_up_by(load: SystemLoad) -> str:
    if load.buffered >= BUSY:
        return "the target takes no more, or the link to it; more replicators would not help"
    return "the source gives no more, or the link to it or a limit; more replicators would not help"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingDecision:
    """How many replicators there should be from now on. ``news``: that is worth a line in the event log."""

    replicators: int
    why: str
    news: bool = False


@dataclass(slots=True)
class _Run:
    """Looks in a row that asked for the same."""

    asks: str
    since_s: float
    #: Of the numbers that they asked for, the one nearest to what there is.
    replicators: int


@dataclass(slots=True)
class ElasticScaler:
    """Remembers what the last looks asked for, and decides when that is to be done."""

    terms: ElasticSettings
    _wanted: int = 0
    _run: _Run | None = None
    _looked_s: float = -math.inf
    #: The standstill that has been told.
    _told: Kind = "enough"
    #: Of each flow: when, how far behind, and how many copied.
    _seen: dict[str, deque[tuple[float, int, int]]] = field(default_factory=dict)

    def look(self, now_s: float, load: SystemLoad) -> ScalingDecision:
        """Take in one look; more than three within ``scale_out_after_s``, or nothing will ever be sustained.

        Guarantees: the number that comes back is within the bounds when ``load.wanted`` is, and changes at most once
        in ``scale_out_after_s``, inwards once in ``scale_in_after_s``, whatever the load does.
        """
        late = self._late(now_s, load.flows)
        if now_s - self._looked_s > self.terms.scale_out_after_s or load.wanted != self._wanted:
            self._run = None
        self._looked_s, self._wanted = now_s, load.wanted
        if len(load.cpus) < load.wanted:
            self._run = None
            return ScalingDecision(replicators=load.wanted, why=f"{len(load.cpus)} of {load.wanted} replicators are up")
        advice = advise(load, self.terms, late)
        run = self._continue(now_s, advice)
        if now_s - run.since_s < (self.terms.scale_in_after_s if run.asks == "in" else self.terms.scale_out_after_s):
            return ScalingDecision(replicators=load.wanted, why=advice.why)
        if run.asks in ("in", "out"):
            self._run = None
            self._told = "enough"
            new = load.wanted - 1 if run.asks == "in" else run.replicators
            return ScalingDecision(replicators=new, why=advice.why, news=True)
        news = advice.kind not in ("enough", self._told)
        self._told = advice.kind
        return ScalingDecision(replicators=load.wanted, why=advice.why, news=news)

    def _continue(self, now_s: float, advice: ScalingAdvice) -> _Run:
        asks: str = advice.kind
        nearest = min
        if advice.replicators > self._wanted:
            asks = "out"
        elif advice.replicators < self._wanted:
            asks, nearest = "in", max
        run = self._run
        if run is None or run.asks != asks:
            run = self._run = _Run(asks, now_s, advice.replicators)
        run.replicators = nearest(run.replicators, advice.replicators)
        return run

    def _late(self, now_s: float, flows: Sequence[FlowLag]) -> list[LateFlow]:
        """The flows that are too far behind, and for longer than that at the pace of the last looks.

        The age of records alone does not tell: those of last year are a year behind when they come. So what lies there
        must take too long to copy, too.
        """
        self._seen = {flow.flow: self._seen.get(flow.flow, deque()) for flow in flows if flow.records is not None}
        found = []
        for flow in flows:
            if flow.records is None:
                continue
            seen = self._seen[flow.flow]
            seen.append((now_s, flow.records, flow.copied))
            while seen[0][0] < now_s - self.terms.scale_out_after_s:
                seen.popleft()
            then_s, before, copied = seen[0]
            elapsed_s = now_s - then_s
            left_s = _time(flow.records, before - flow.records, elapsed_s)
            least_s = min(flow.seconds or 0.0, left_s, _time(flow.records, flow.copied - copied, elapsed_s))
            if elapsed_s > 0 and least_s > self.terms.lag_seconds and flow.seconds is not None:
                found.append(LateFlow(flow=flow.flow, seconds=flow.seconds, caught_up_in_s=left_s))
        return found


def _time(records: int, done: int, elapsed_s: float) -> float:
    """How long so many records take, when ``done`` of them took ``elapsed_s``."""
    return records * elapsed_s / done if done > 0 else math.inf


def _span(seconds: float) -> str:
    for unit, length_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
