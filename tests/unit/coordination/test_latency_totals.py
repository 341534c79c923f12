"""Latencies of processes that come and go."""

from __future__ import annotations

from mirror_ray.coordination.latency_totals import LatencyTotals
from mirror_ray.model.assignment import ReplicatorReport
from mirror_ray.model.latency import Latencies, LatencyCounter
from mirror_ray.model.names import FlowName

_FLOW = FlowName("A", "B")


def _counted(records: int) -> Latencies:
    counter = LatencyCounter(lambda: 100)
    counter.acknowledged(90, records)
    return counter.so_far()


def _report(pid: int, records: int) -> ReplicatorReport:
    return ReplicatorReport(
        replicator="mirror:replicator:1",
        node="",
        pid=pid,
        cpu_seconds=0,
        memory_bytes=0,
        buffered_bytes=0,
        records=0,
        bytes=0,
        partitions=(),
        assigned=0,
        latencies=((_FLOW, _counted(records)),),
    )


def test_a_process_that_ends_takes_nothing_with_it() -> None:
    """Its replacement begins at zero; the sums go on."""
    totals = LatencyTotals()
    totals.take(None, _report(1, 10), adopted=False)
    totals.take(_report(1, 10), _report(1, 25), adopted=False)
    totals.take(_report(1, 25), _report(2, 5), adopted=False)
    assert totals.by_flow() == {_FLOW: _counted(30)}


def test_what_was_counted_before_us_is_not_ours() -> None:
    """Of a replicator that an earlier coordinator left, only growth counts."""
    totals = LatencyTotals()
    totals.take(None, _report(1, 1000), adopted=True)
    assert totals.by_flow() == {_FLOW: Latencies()}
    totals.take(_report(1, 1000), _report(1, 1007), adopted=False)
    assert totals.by_flow() == {_FLOW: _counted(7)}
