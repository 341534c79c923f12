"""Reports folded into totals, rates and status lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.coordinator import snapshot
from mirror_ray.coordinator.observed import FlowTotals, LagTrend, ObservedState, RateMeter, ThrottleShare
from mirror_ray.model.assignment import PartitionReport, PartitionState, ReplicatorReport
from mirror_ray.model.latency import LatencyCounter, LatencyHistogram
from mirror_ray.model.names import FlowName, FlowPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.quota import ThrottledTime
from mirror_ray.model.schema_id_counts import SchemaIdCounts
from mirror_ray.observe.status import PartitionStatus
from tests.support.factories import replicator_report

FLOW = FlowName("A", "B")
PARTITION = FlowPartition(FLOW, "t", 0)
REPORT = PartitionReport(
    partition=PARTITION,
    epoch=1,
    state="copying",
    reason=None,
    anchor=OffsetPair(90, 80),
    source_end=100,
    high_watermark=103,
    records=10,
    bytes=1000,
    last_timestamp_ms=5_000,
    bytes_per_record=100.0,
)


def test_rate_is_the_growth_over_the_window() -> None:
    """Old samples leave the window; silence for a window's time is rate zero."""
    meter = RateMeter(window_s=5.0)
    for second in range(11):
        meter.sample(float(second), 0 if second < 6 else 100 * (second - 5), 0)
    assert meter.rates(10.0) == (100.0, 0.0)
    assert meter.rates(20.0) == (0.0, 0.0)


def test_restarted_counter_does_not_make_a_negative_rate() -> None:
    """Counters that begin anew begin a new measurement."""
    meter = RateMeter()
    meter.sample(0.0, 500, 0)
    meter.sample(1.0, 10, 0)
    assert meter.rates(1.0) == (0.0, 0.0)


def test_totals_outlive_assignments() -> None:
    """Counters begin at zero with each epoch; totals add up; what was copied before we looked is not ours."""
    observed = ObservedState()
    observed.take(REPORT, adopted=True)
    observed.take(replace(REPORT, records=15, bytes=1500))
    observed.take(replace(REPORT, epoch=2, records=4, bytes=400))
    assert observed.totals(PARTITION) == (9, 900)
    assert observed.flow_totals(FLOW) == (9, 900)


def test_schema_ids_are_counted_by_topic() -> None:
    """As records are; where none are translated there is no count."""
    observed = ObservedState()
    observed.take(REPORT)
    assert observed.topic_schema_ids(FLOW, "t") is None
    for report in (
        replace(REPORT, schema_ids=SchemaIdCounts(3, 1)),
        replace(REPORT, records=12, schema_ids=SchemaIdCounts(5, 1)),
        replace(REPORT, records=2, epoch=2, schema_ids=SchemaIdCounts(2, 1)),
        replace(REPORT, partition=FlowPartition(FLOW, "t", 1), schema_ids=SchemaIdCounts(10, 0)),
    ):
        observed.take(report)
    assert observed.topic_schema_ids(FLOW, "t") == SchemaIdCounts(17, 2)
    adopted = ObservedState()
    adopted.take(replace(REPORT, schema_ids=SchemaIdCounts(3, 1)), adopted=True)
    assert adopted.topic_schema_ids(FLOW, "t") == SchemaIdCounts()


def test_loads_are_growth_between_samples() -> None:
    """The first sample knows nothing."""
    observed = ObservedState()
    observed.take(REPORT)
    assert observed.loads(10.0) == {}
    observed.take(replace(REPORT, records=20, bytes=3000))
    assert observed.loads(20.0) == {PARTITION: 200.0}


def _line(report: PartitionReport | None = REPORT, state: PartitionState = "copying") -> PartitionStatus:
    return snapshot.partition_status(
        PARTITION,
        target_topic="A.t",
        state=state,
        reason=None,
        replicator="r",
        report=report,
        totals=(0, 0),
        now_ms=7_000,
    )


def test_lag_in_records_bytes_and_seconds() -> None:
    """Lag counts to the last stable offset; what an open transaction holds back is apart."""
    line = _line()
    assert (line.lag_records, line.lag_bytes, line.lag_seconds, line.held_back_records) == (10, 1000, 2.0, 3)


def test_caught_up_is_zero_seconds_late() -> None:
    """An old record at the head of a caught-up partition is no lag."""
    assert _line(replace(REPORT, anchor=OffsetPair(100, 90))).lag_seconds == 0.0


@pytest.mark.parametrize("report", [None, replace(REPORT, source_end=-1)])
def test_lag_is_none_until_known(report: PartitionReport | None) -> None:
    """No report, or no fetch yet: not known, which is not zero; and the flow's lag is not known either."""
    line = _line(report)
    assert line.lag_records is None
    assert snapshot.total_lag([line, _line()]) is None


def test_refused_partition_does_not_hide_the_lag_of_the_others() -> None:
    """What will never copy is left out of the sum."""
    assert snapshot.total_lag([_line(None, "refused"), _line()]) == 10


def test_topic_shows_its_gravest_state() -> None:
    """One stopped partition among copying ones is what the topic shows."""
    lines = [_line(), _line(state="stopped")]
    topic = snapshot.topic_status("A->B", "t", "A.t", None, lines, rates=(0.0, 0.0), price_per_gb=0.0)
    assert (topic.state, topic.copying, topic.partitions) == ("stopped", 1, 2)


def test_a_topic_says_how_well_it_compresses_and_what_it_costs() -> None:
    """Each partition's ratio weighs as much as its bytes; one that nothing is known of weighs nothing."""
    lines = [
        replace(_line(), bytes=300, compression=2.0),
        replace(_line(), bytes=100, compression=6.0),
        replace(_line(), bytes=900),
    ]
    topic = snapshot.topic_status("A->B", "t", "A.t", None, lines, rates=(10.0, 1e6), price_per_gb=0.5)
    assert (topic.compression, topic.records_per_s, topic.bytes_per_s) == (3.0, 10.0, 1e6)
    assert topic.cost_per_hour == pytest.approx(3.6 * 0.5)
    free = snapshot.topic_status("A->B", "t", "A.t", None, [_line()], rates=(10.0, 1e6), price_per_gb=0.0)
    assert (free.compression, free.cost_per_hour) == (None, None)


def test_a_topic_has_rates_while_it_grows() -> None:
    """Those of its partitions together; none once it has rested for a window's time."""
    observed, other = ObservedState(), FlowPartition(PARTITION.flow, PARTITION.topic, PARTITION.partition + 1)
    for second in range(4):
        for partition in (PARTITION, other):
            observed.take(replace(REPORT, partition=partition, records=10 * second, bytes=1000 * second))
        observed.sample(float(second), [PARTITION.flow])
    assert observed.topic_rates(PARTITION.flow, PARTITION.topic, 3.0) == (20.0, 2000.0)
    assert observed.topic_rates(PARTITION.flow, "another", 3.0) == (0.0, 0.0)
    assert observed.topic_rates(PARTITION.flow, PARTITION.topic, 9.0) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("differs", "state"),
    [
        ({}, "running"),
        ({"enabled": False}, "idle"),
        ({"discovered": False}, "starting"),
        ({"settled": False, "copying": 3}, "starting"),
        ({"settled": False}, "running"),
        ({"copying": 3}, "running"),
        ({"copying": 0}, "starting"),
        ({"settled": False, "copying": 3, "troubled": True}, "degraded"),
        ({"settled": False, "paused": True}, "paused"),
        ({"troubled": True, "reachable": False}, "unreachable"),
        ({"copying": 0, "expected": 0}, "running"),
    ],
)
def test_a_flow_starts_until_all_of_it_has_copied(differs: dict[str, Any], state: str) -> None:
    """Later a partition that moves does not make it start again; what is stopped or refused degrades it at any time."""
    usual = {"enabled": True, "discovered": True, "reachable": True, "paused": False, "troubled": False}
    assert snapshot.flow_state(**{**usual, "settled": True, "copying": 4, "expected": 4, **differs}) == state


# ---- counters of processes that come and go


def _counted(records: int) -> LatencyHistogram:
    counter = LatencyCounter(lambda: 100)
    counter.acknowledged(90, records)
    return counter.so_far()


def _report(pid: int, records: int) -> ReplicatorReport:
    return replicator_report(pid=pid, latencies=((FLOW, _counted(records)),))


def test_a_process_that_ends_takes_nothing_with_it() -> None:
    """Its replacement begins at zero; the sums go on."""
    totals = FlowTotals(lambda report: report.latencies, LatencyHistogram())
    totals.take(None, _report(1, 10), adopted=False)
    totals.take(_report(1, 10), _report(1, 25), adopted=False)
    totals.take(_report(1, 25), _report(2, 5), adopted=False)
    assert totals.by_flow() == {FLOW: _counted(30)}


def test_what_was_counted_before_us_is_not_ours() -> None:
    """Of a replicator that an earlier coordinator left, only growth counts."""
    totals = FlowTotals(lambda report: report.latencies, LatencyHistogram())
    totals.take(None, _report(1, 1000), adopted=True)
    assert totals.by_flow() == {FLOW: LatencyHistogram()}
    totals.take(_report(1, 1000), _report(1, 1007), adopted=False)
    assert totals.by_flow() == {FLOW: _counted(7)}


def test_what_was_long_ago_is_not_lately() -> None:
    """Seconds of each second, of the last ten; nothing before there are two samples."""
    lately = ThrottleShare()
    lately.sample(0.0, {FLOW: ThrottledTime(0.0)})
    assert lately.of(FLOW) == ThrottledTime()
    lately.sample(5.0, {FLOW: ThrottledTime(5.0, 0.0, 2.5)})
    assert lately.of(FLOW) == ThrottledTime(1.0, 0.0, 0.5)
    for now_s in (10.0, 15.0, 20.0):
        lately.sample(now_s, {FLOW: ThrottledTime(5.0, 0.0, 2.5)})
    assert lately.of(FLOW) == ThrottledTime()


# ---- whether a lag grows


def _seen(lags: list[int], window_s: float = 60.0) -> LagTrend:
    trend = LagTrend(window_s)
    for second, lag in enumerate(lags):
        trend.sample(float(second), lag)
    return trend


def test_a_lag_that_grows_all_the_time_is_seen_after_the_window() -> None:
    """And not before."""
    assert not _seen(list(range(1000, 1060))).growing
    assert _seen(list(range(1000, 1062))).growing


@given(st.lists(st.integers(0, 1_000_000), min_size=1, max_size=300))
def test_a_lag_that_comes_to_nothing_now_and_then_does_not_grow(lags: list[int]) -> None:
    """Bursts that are caught up with, however large: at most ten seconds lie between two ends of them."""
    bursts = [0 if second % 10 == 0 else lag for second, lag in enumerate(lags)]
    assert not _seen(bursts).growing


@given(st.integers(0, 10**9))
def test_a_lag_that_stays_does_not_grow(lag: int) -> None:
    """A steady load has a steady lag."""
    assert not _seen([lag] * 200).growing


def test_a_pause_in_the_samples_begins_anew() -> None:
    """What was before says nothing of now."""
    trend = _seen(list(range(1000, 1062)))
    trend.sample(200.0, 5000)
    assert not trend.growing
