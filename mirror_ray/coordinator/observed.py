"""What the replicators have reported, folded into one picture: newest report per partition, totals, rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mirror_ray.coordinator.rates import RateMeter
from mirror_ray.model.assignment import PartitionReport
from mirror_ray.model.names import FlowName, FlowPartition

#: A flow and the source's name of one of its topics.
FlowTopic = tuple[FlowName, str]


@dataclass(slots=True)
class _Totals:
    records: int = 0
    bytes: int = 0

    def add(self, records: int, bytes_: int) -> None:
        self.records += records
        self.bytes += bytes_


@dataclass(slots=True)
class _Metered:
    totals: _Totals = field(default_factory=_Totals)
    meter: RateMeter = field(default_factory=RateMeter)


@dataclass(slots=True)
class ObservedState:
    """Newest report of each partition, and counters that outlive the replicators that counted.

    A replicator's counters of a partition begin at zero with each assignment, so totals are sums of their growth.
    """

    reports: dict[FlowPartition, PartitionReport] = field(default_factory=dict)
    _totals: dict[FlowPartition, _Totals] = field(default_factory=dict)
    _flows: dict[FlowName, _Totals] = field(default_factory=dict)
    _meters: dict[FlowName, RateMeter] = field(default_factory=dict)
    _topics: dict[FlowTopic, _Metered] = field(default_factory=dict)
    #: Topics that have grown since their meters were read.
    _grown: set[FlowTopic] = field(default_factory=set)
    #: Bytes per partition at the last look, for the loads that ``loads`` computes.
    _looked: dict[FlowPartition, int] = field(default_factory=dict)
    _looked_s: float = 0.0

    def take(self, report: PartitionReport, *, adopted: bool = False) -> PartitionReport | None:
        """Fold in a report and return the one before it.

        ``adopted``: what it counts was copied before we looked, and is not our growth.
        """
        partition = report.partition
        before = self.reports.get(partition)
        self.reports[partition] = report
        same = before is not None and before.epoch == report.epoch and before.records <= report.records
        records, bytes_ = (before.records, before.bytes) if same and before is not None else (0, 0)
        if adopted and before is None:
            records, bytes_ = report.records, report.bytes
        topic = (partition.flow, partition.topic)
        for totals in (
            self._totals.setdefault(partition, _Totals()),
            self._topics.setdefault(topic, _Metered()).totals,
            self._flows.setdefault(partition.flow, _Totals()),
        ):
            totals.add(report.records - records, report.bytes - bytes_)
        if report.records > records:
            self._grown.add(topic)
        return before

    def sample(self, now_s: float, flows: Iterable[FlowName]) -> None:
        """Let the rate meters of the flows, and of the topics that have grown, read the totals."""
        for flow in flows:
            totals = self._flows.setdefault(flow, _Totals())
            self._meters.setdefault(flow, RateMeter()).sample(now_s, totals.records, totals.bytes)
        for topic in self._grown:
            metered = self._topics[topic]
            metered.meter.sample(now_s, metered.totals.records, metered.totals.bytes)
        self._grown.clear()

    def rates(self, flow: FlowName, now_s: float) -> tuple[float, float]:
        """The flow's (records/s, bytes/s)."""
        meter = self._meters.get(flow)
        return meter.rates(now_s) if meter else (0.0, 0.0)

    def topic_rates(self, flow: FlowName, topic: str, now_s: float) -> tuple[float, float]:
        """The topic's (records/s, bytes/s)."""
        metered = self._topics.get((flow, topic))
        return metered.meter.rates(now_s) if metered else (0.0, 0.0)

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
        sums: dict[FlowName, int] = {}
        for partition, report in self.reports.items():
            if report.source_end >= 0 and report.position >= 0:
                behind = max(0, report.source_end - report.position)
                sums[partition.flow] = sums.get(partition.flow, 0) + behind
        return sums

    def loads(self, now_s: float) -> dict[FlowPartition, float]:
        """Bytes/s of each partition since the last call; empty at the first."""
        elapsed_s = now_s - self._looked_s
        loads = {
            partition: (totals.bytes - self._looked[partition]) / elapsed_s
            for partition, totals in self._totals.items()
            if elapsed_s > 0 and partition in self._looked
        }
        self._looked = {partition: totals.bytes for partition, totals in self._totals.items()}
        self._looked_s = now_s
        return loads

    def forget(self, gone: Callable[[FlowPartition], bool]) -> None:
        """Drop what is known of partitions that no flow has any more."""
        for partition in [each for each in self._totals if gone(each)]:
            self.reports.pop(partition, None)
            self._totals.pop(partition, None)
            self._looked.pop(partition, None)
        there = {(partition.flow, partition.topic) for partition in self._totals}
        for topic in self._topics.keys() - there:
            del self._topics[topic]
            self._grown.discard(topic)
