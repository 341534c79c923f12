"""What the replicators have reported: newest report per partition, totals, rates, lags and throttled time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Generic, Protocol, Self, TypeVar

from mirror_ray.model.assignment import PartitionReport, ReplicatorReport
from mirror_ray.model.names import FlowName, FlowPartition
from mirror_ray.model.quota import ThrottledTime
from mirror_ray.model.schema_id_counts import NO_SCHEMA_IDS, SchemaIdCounts

#: Long enough to smooth large requests, short enough to show a change at once.
WINDOW_S = 5.0


class RateMeter:
    """Records/s and bytes/s over the last ``window_s`` seconds."""

    __slots__ = ("_samples", "_window_s")

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int, int]] = deque()

    def sample(self, now_s: float, records: int, bytes_: int) -> None:
        """Take the counters' values at ``now_s``. Counters that went backwards begin anew."""
        samples = self._samples
        if samples and records < samples[-1][1]:
            samples.clear()
        samples.append((now_s, records, bytes_))
        while len(samples) > 2 and samples[1][0] <= now_s - self._window_s:
            samples.popleft()

    def rates(self, now_s: float) -> tuple[float, float]:
        """(records/s, bytes/s); zero when nothing was sampled for a window's time."""
        samples = self._samples
        if len(samples) < 2 or samples[-1][0] <= now_s - self._window_s:
            return 0.0, 0.0
        (start_s, records, bytes_), (end_s, last_records, last_bytes) = samples[0], samples[-1]
        elapsed_s = end_s - start_s
        if elapsed_s <= 0:
            return 0.0, 0.0
        return (last_records - records) / elapsed_s, (last_bytes - bytes_) / elapsed_s


class FlowCounters(Protocol):
    """A counter of a process; it only grows while the process lives."""

    def __add__(self, other: Self, /) -> Self: ...
    def __sub__(self, before: Self, /) -> Self: ...


_C = TypeVar("_C", bound=FlowCounters)


class FlowTotals(Generic[_C]):
    """Sums by flow since the coordinator began. Processes come and go; what they have counted stays."""

    def __init__(self, counts: Callable[[ReplicatorReport], Iterable[tuple[FlowName, _C]]], nothing: _C) -> None:
        """``counts``: the counters of a report, by flow; ``nothing``: a counter at its start."""
        self._counts, self._nothing = counts, nothing
        self._totals: dict[FlowName, _C] = {}

    def take(self, before: ReplicatorReport | None, report: ReplicatorReport, *, adopted: bool) -> None:
        """Add what a process counted since its report ``before``; None: this is its first.

        ``adopted``: the process counted before this coordinator began.
        """
        same = before is not None and before.pid == report.pid
        known = dict(self._counts(before)) if before is not None and same else {}
        for flow, counted in self._counts(report):
            growth = self._nothing if adopted and not same else counted - known.get(flow, self._nothing)
            self._totals[flow] = self._totals.get(flow, self._nothing) + growth

    def by_flow(self) -> Mapping[FlowName, _C]:
        """The sums so far."""
        return dict(self._totals)

    def of(self, flow: FlowName) -> _C:
        """The sum of one flow."""
        return self._totals.get(flow, self._nothing)


#: The window that throttled time is measured over.
_THROTTLE_WINDOW_S: Final = 10.0


class ThrottleShare:
    """The share of the last seconds that flows were throttled, from sums that only grow."""

    def __init__(self) -> None:
        self._samples: dict[FlowName, deque[tuple[float, ThrottledTime]]] = {}

    def sample(self, now_s: float, totals: Mapping[FlowName, ThrottledTime]) -> None:
        """Take the sums of each flow at ``now_s``."""
        for flow, held in totals.items():
            samples = self._samples.setdefault(flow, deque())
            samples.append((now_s, held))
            while len(samples) > 2 and samples[1][0] <= now_s - _THROTTLE_WINDOW_S:
                samples.popleft()

    def of(self, flow: FlowName) -> ThrottledTime:
        """Throttled seconds of each second."""
        samples = self._samples.get(flow)
        if not samples or len(samples) < 2:
            return ThrottledTime()
        (begin_s, before), (end_s, after) = samples[0], samples[-1]
        grown, elapsed_s = after - before, max(end_s - begin_s, 0.001)
        return ThrottledTime(grown.limit_s / elapsed_s, grown.source_s / elapsed_s, grown.target_s / elapsed_s)


_SLICES: Final = 6


@dataclass(slots=True)
class _Slice:
    began_s: float
    least: int


class LagTrend:
    """The least lag of each of the last slices: where even that grows each time, copying falls behind."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._slices: deque[_Slice] = deque(maxlen=_SLICES + 1)

    def sample(self, now_s: float, lag: int) -> None:
        """The lag is so many records. Times only grow."""
        length_s = self.window_s / _SLICES
        last = self._slices[-1] if self._slices else None
        if last is not None and now_s - last.began_s > 2 * length_s:
            # After a break in the samples the former ones say nothing about now.
            self._slices.clear()
            last = None
        if last is None or now_s - last.began_s >= length_s:
            self._slices.append(_Slice(now_s, lag))
        else:
            last.least = min(last.least, lag)

    @property
    def growing(self) -> bool:
        """Whether the lag has grown through the whole window. The slice that has just begun counts too."""
        least = [lag_slice.least for lag_slice in self._slices]
        full = len(least) == _SLICES + 1
        return full and all(before < after for before, after in pairwise(least))


#: A flow and the source's name of one of its topics.
FlowTopic = tuple[FlowName, str]


@dataclass(slots=True)
class _Totals:
    records: int = 0
    bytes: int = 0
    #: None: none were translated.
    schema_ids: SchemaIdCounts | None = None


@dataclass(slots=True)
class _Metered(_Totals):
    meter: RateMeter = field(default_factory=RateMeter)

    def sample(self, now_s: float) -> None:
        self.meter.sample(now_s, self.records, self.bytes)


@dataclass(slots=True)
class ObservedState:
    """Newest report of each partition, and counters that outlive the replicators that counted.

    A replicator's counters of a partition begin at zero with each assignment, so totals are sums of their growth.
    """

    reports: dict[FlowPartition, PartitionReport] = field(default_factory=dict)
    _totals: dict[FlowPartition, _Totals] = field(default_factory=dict)
    _flows: dict[FlowName, _Metered] = field(default_factory=dict)
    _topics: dict[FlowTopic, _Metered] = field(default_factory=dict)
    #: Topics that have grown since their meters were read.
    _grown: set[FlowTopic] = field(default_factory=set)
    #: Bytes per partition at the last call of ``loads``.
    _loaded: dict[FlowPartition, int] = field(default_factory=dict)
    _loaded_s: float = 0.0
    #: Each flow's lag in records, as far as its partitions' lags are known.
    _lags: dict[FlowName, int] = field(default_factory=dict)

    def take(self, report: PartitionReport, *, adopted: bool = False) -> PartitionReport | None:
        """Fold in a report and return the one before it.

        ``adopted``: it counts what was copied before this coordinator began.
        """
        partition = report.partition
        before = self.reports.get(partition)
        self.reports[partition] = report
        self._count_lag(report, before)
        same = before is not None and before.epoch == report.epoch and before.records <= report.records
        counted = before if same else report if adopted and before is None else None
        records, bytes_ = (counted.records, counted.bytes) if counted is not None else (0, 0)
        ids = None if report.schema_ids is None else report.schema_ids - _ids_of(counted)
        topic = (partition.flow, partition.topic)
        for totals in (
            self._totals.setdefault(partition, _Totals()),
            self._topics.setdefault(topic, _Metered()),
            self._flows.setdefault(partition.flow, _Metered()),
        ):
            totals.records += report.records - records
            totals.bytes += report.bytes - bytes_
            if ids is not None:
                totals.schema_ids = (totals.schema_ids or NO_SCHEMA_IDS) + ids
        if report.records > records:
            self._grown.add(topic)
        return before

    def sample(self, now_s: float, flows: Iterable[FlowName]) -> None:
        """Let the rate meters of the flows, and of the topics that have grown, read the totals."""
        for flow in flows:
            self._flows.setdefault(flow, _Metered()).sample(now_s)
        for topic in self._grown:
            self._topics[topic].sample(now_s)
        self._grown.clear()

    def rates(self, flow: FlowName, now_s: float) -> tuple[float, float]:
        """The flow's (records/s, bytes/s)."""
        metered = self._flows.get(flow)
        return metered.meter.rates(now_s) if metered else (0.0, 0.0)

    def topic_rates(self, flow: FlowName, topic: str, now_s: float) -> tuple[float, float]:
        """The topic's (records/s, bytes/s)."""
        metered = self._topics.get((flow, topic))
        return metered.meter.rates(now_s) if metered else (0.0, 0.0)

    def topic_schema_ids(self, flow: FlowName, topic: str) -> SchemaIdCounts | None:
        """What was done with the schema ids of a topic since the coordinator began; None: none are translated."""
        metered = self._topics.get((flow, topic))
        return metered.schema_ids if metered else None

    def flow_totals(self, flow: FlowName) -> tuple[int, int]:
        """(records, bytes) acknowledged since the coordinator began."""
        totals = self._flows.get(flow, _Totals())
        return totals.records, totals.bytes

    def totals(self, partition: FlowPartition) -> tuple[int, int]:
        """(records, bytes) of one partition acknowledged since the coordinator began."""
        totals = self._totals.get(partition, _Totals())
        return totals.records, totals.bytes

    def lags(self) -> dict[FlowName, int]:
        """Each flow's lag in records, as far as its partitions' lags are known."""
        return dict(self._lags)

    def _count_lag(self, report: PartitionReport | None, before: PartitionReport | None) -> None:
        for one, sign in ((report, 1), (before, -1)):
            if one is not None and one.source_end >= 0 and one.position >= 0:
                flow = one.partition.flow
                self._lags[flow] = self._lags.get(flow, 0) + sign * max(0, one.source_end - one.position)

    def loads(self, now_s: float) -> dict[FlowPartition, float]:
        """Bytes/s of each partition since the last call; empty at the first."""
        elapsed_s = now_s - self._loaded_s
        loads = {
            partition: (totals.bytes - self._loaded[partition]) / elapsed_s
            for partition, totals in self._totals.items()
            if elapsed_s > 0 and partition in self._loaded
        }
        self._loaded = {partition: totals.bytes for partition, totals in self._totals.items()}
        self._loaded_s = now_s
        return loads

    def forget(self, gone: Callable[[FlowPartition], bool]) -> None:
        """Drop the partitions for which ``gone`` is true: no flow has them any more."""
        for partition in [partition for partition in self._totals if gone(partition)]:
            self._count_lag(None, self.reports.pop(partition, None))
            self._totals.pop(partition, None)
            self._loaded.pop(partition, None)
        flows = {partition.flow for partition in self._totals}
        self._lags = {flow: lag for flow, lag in self._lags.items() if flow in flows}
        there = {(partition.flow, partition.topic) for partition in self._totals}
        for topic in self._topics.keys() - there:
            del self._topics[topic]
            self._grown.discard(topic)


def _ids_of(report: PartitionReport | None) -> SchemaIdCounts:
    return (report.schema_ids if report is not None else None) or NO_SCHEMA_IDS
