"""Rows of ``status``, ``lag`` and ``topics``, made from records, owners and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mirror_ray.model.assignment import PartitionReport, PartitionState
from mirror_ray.model.fault import FaultKind
from mirror_ray.model.names import FlowName, FlowPartition
from mirror_ray.model.quota import ThrottledTime
from mirror_ray.model.schema_id_counts import SchemaIdCounts
from mirror_ray.observe.status import FlowState, PartitionStatus, TopicStatus

#: The state of a topic whose partitions differ: the first of these that occurs.
_GRAVITY: tuple[PartitionState, ...] = ("refused", "stopped", "waiting", "establishing", "paused", "copying")
#: Of each second: a flow that is throttled for longer is shown as slowed down.
_GOOD_PART = 0.1
_GB = 1_000_000_000
_HOUR_S = 3600
#: Partitions in these states are not expected to come to lag 0, so they don't hide the lag of the others.
_SET_ASIDE: tuple[PartitionState, ...] = ("refused", "paused")


def partition_status(
    partition: FlowPartition,
    *,
    target_topic: str,
    state: PartitionState,
    reason: str | None,
    trouble: FaultKind | None = None,
    replicator: str | None,
    report: PartitionReport | None,
    totals: tuple[int, int],
    now_ms: int,
) -> PartitionStatus:
    """One partition's row."""
    known = report is not None and report.source_end >= 0 and report.position >= 0 and state != "establishing"
    lag = max(0, report.source_end - report.position) if known and report is not None else None
    return PartitionStatus(
        flow=str(partition.flow),
        topic=partition.topic,
        partition=partition.partition,
        target_topic=target_topic,
        state=state,
        reason=reason,
        trouble=trouble,
        replicator=replicator,
        source_end=report.source_end if report else -1,
        position=report.position if report else -1,
        target_end=report.target_end if report else -1,
        lag_records=lag,
        lag_bytes=None if lag is None or report is None else round(lag * report.bytes_per_record),
        lag_seconds=_lag_seconds(lag, report, now_ms),
        held_back_records=max(0, report.high_watermark - report.source_end) if report and known else 0,
        records=totals[0],
        bytes=totals[1],
        compression=report.compression if report else None,
    )


def _lag_seconds(lag: int | None, report: PartitionReport | None, now_ms: int) -> float | None:
    if lag is None or report is None:
        return None
    if lag == 0:
        return 0.0
    return max(0.0, (now_ms - report.last_timestamp_ms) / 1000) if report.last_timestamp_ms >= 0 else None


def topic_status(
    flow: str,
    topic: str,
    remote_topic: str,
    refused: str | None,
    partitions: Sequence[PartitionStatus],
    *,
    rates: tuple[float, float],
    price_per_gb: float,
    schema_ids: SchemaIdCounts | None = None,
) -> TopicStatus:
    """One topic's row, from its partitions' rows."""
    states = {row.state for row in partitions}
    gravest: PartitionState = "waiting"
    if refused is not None:
        gravest = "refused"
    elif states:
        gravest = next(state for state in _GRAVITY if state in states)
    reason = refused or next((row.reason for row in partitions if row.state == gravest and row.reason), None)
    return TopicStatus(
        flow=flow,
        topic=topic,
        remote_topic=remote_topic,
        partitions=len(partitions),
        copying=sum(row.state == "copying" for row in partitions),
        state=gravest,
        reason=reason,
        lag_records=total_lag(partitions),
        lag_bytes=total_lag_bytes(partitions),
        lag_seconds=most_seconds(partitions),
        records=sum(row.records for row in partitions),
        bytes=sum(row.bytes for row in partitions),
        records_per_s=rates[0],
        bytes_per_s=rates[1],
        compression=compression(partitions),
        cost_per_hour=cost_per_hour(rates[1], price_per_gb),
        schema_ids_translated=schema_ids.translated if schema_ids is not None else None,
        schema_ids_unframed=schema_ids.unframed if schema_ids is not None else None,
    )


def total_lag(partitions: Iterable[PartitionStatus]) -> int | None:
    """Sum of the lags; None while one of a partition that should be copying is not known."""
    total = 0
    for row in partitions:
        if row.lag_records is not None:
            total += row.lag_records
        elif row.state not in _SET_ASIDE:
            return None
    return total


def total_lag_bytes(partitions: Iterable[PartitionStatus]) -> int | None:
    """The same in bytes."""
    known = list(partitions)
    return None if total_lag(known) is None else sum(row.lag_bytes or 0 for row in known)


def most_seconds(partitions: Iterable[PartitionStatus]) -> float | None:
    """How far the partition that is furthest behind is; 0 where none is, None while that is not known."""
    known = list(partitions)
    late = [row.lag_seconds for row in known if row.lag_seconds is not None]
    return 0.0 if total_lag(known) == 0 else max(late, default=None)


def compression(partitions: Iterable[PartitionStatus]) -> float | None:
    """Bytes before compression for each byte on the wire, of those whose ratio is known; None: of none."""
    known = [(row.bytes, row.compression) for row in partitions if row.compression is not None and row.bytes]
    wire = sum(size for size, _ in known)
    return sum(size * ratio for size, ratio in known) / wire if wire else None


def cost_per_hour(bytes_per_s: float, price_per_gb: float) -> float | None:
    """What an hour at that rate costs; None without a price."""
    return bytes_per_s * _HOUR_S / _GB * price_per_gb if price_per_gb else None


def slowed_by(flow: FlowName, lately: ThrottledTime, limit_bytes_per_s: int | None) -> str | None:
    """What throttles a flow for a good part of the time; ``lately``: throttled seconds of each second."""
    causes = []
    if lately.limit_s > _GOOD_PART:
        rate = "" if limit_bytes_per_s is None else f" ({limit_bytes_per_s:,} bytes/s)"
        causes.append(f"held back by its limits{rate}")
    causes += [
        f"throttled by a quota of {alias}'s brokers"
        for alias, share in ((flow.source, lately.source_s), (flow.target, lately.target_s))
        if share > _GOOD_PART
    ]
    return "; ".join(causes) or None


def flow_state(
    *,
    enabled: bool,
    discovered: bool,
    reachable: bool,
    paused: bool,
    troubled: bool,
    settled: bool,
    copying: int,
    expected: int,
) -> FlowState:
    """One word for a flow.

    ``troubled``: some topic or partition is refused or stopped. ``settled``: since the start there was a moment when
    every partition that should be copying was. ``expected``: partitions that should be copying now.
    """
    if not enabled:
        return "idle"
    if not reachable:
        return "unreachable"
    if paused:
        return "paused"
    if troubled:
        return "degraded"
    if not discovered or not (settled or copying == expected) or (copying == 0 and expected > 0):
        return "starting"
    return "running"
