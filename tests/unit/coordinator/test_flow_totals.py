"""What processes that come and go have counted."""

from __future__ import annotations

from mirror_ray.coordinator.observed import FlowTotals, ThrottleShare
from mirror_ray.model.assignment import ReplicatorReport
from mirror_ray.model.latency import LatencyCounter, LatencyHistogram
from mirror_ray.model.names import FlowName
from mirror_ray.model.quota import ThrottledTime

_FLOW = FlowName("A", "B")


def _counted(records: int) -> LatencyHistogram:
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


def _latencies() -> FlowTotals[LatencyHistogram]:
    return FlowTotals(lambda report: report.latencies, LatencyHistogram())


def test_a_process_that_ends_takes_nothing_with_it() -> None:
    """Its replacement begins at zero; the sums go on."""
    totals = _latencies()
    totals.take(None, _report(1, 10), adopted=False)
    totals.take(_report(1, 10), _report(1, 25), adopted=False)
    totals.take(_report(1, 25), _report(2, 5), adopted=False)
    assert totals.by_flow() == {_FLOW: _counted(30)}


def test_what_was_counted_before_us_is_not_ours() -> None:
    """Of a replicator that an earlier coordinator left, only growth counts."""
    totals = _latencies()
    totals.take(None, _report(1, 1000), adopted=True)
    assert totals.by_flow() == {_FLOW: LatencyHistogram()}
    totals.take(_report(1, 1000), _report(1, 1007), adopted=False)
    assert totals.by_flow() == {_FLOW: _counted(7)}


def test_what_was_long_ago_is_not_lately() -> None:
    """Seconds of each second, of the last ten; nothing before there are two looks."""
    lately = ThrottleShare()
    lately.sample(0.0, {_FLOW: ThrottledTime(0.0)})
    assert lately.of(_FLOW) == ThrottledTime()
    lately.sample(5.0, {_FLOW: ThrottledTime(5.0, 0.0, 2.5)})
    assert lately.of(_FLOW) == ThrottledTime(1.0, 0.0, 0.5)
    for now_s in (10.0, 15.0, 20.0):
        lately.sample(now_s, {_FLOW: ThrottledTime(5.0, 0.0, 2.5)})
    assert lately.of(_FLOW) == ThrottledTime()
