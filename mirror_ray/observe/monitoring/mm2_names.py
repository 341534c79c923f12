"""Recording rules that give our series the names that MirrorMaker 2's have on existing dashboards.

The names are those that Strimzi's rules for the JMX exporter make of MM2's MBeans (``MirrorSourceConnector``,
``MirrorCheckpointConnector``): there the label ``topic`` is the topic's name on the target. What differs is said in
``docs/monitoring.md``: latencies are those of the whole flow, for a histogram of each partition is too much to keep.
"""

from __future__ import annotations

from typing import Final

_SOURCE: Final = "kafka_connect_mirror_mirrorsourceconnector"
_WINDOW: Final = "1m"
_KEYS: Final = "source, target, topic, partition"


def _as_mm2(expression: str) -> str:
    """``topic`` is the remote topic's name, as MM2 has it."""
    named = f'label_replace({expression}, "topic", "$1", "remote_topic", "(.+)")'
    return f"sum by ({_KEYS}) ({named})"


def _latency(quantile: float) -> str:
    by_flow = f"sum by (source, target, le) (rate(mirror_ray_replication_latency_seconds_bucket[{_WINDOW}]))"
    return f"1000 * histogram_quantile({quantile}, {by_flow})"


def _mean_latency() -> str:
    sums, counts = (
        f"sum by (source, target) (rate(mirror_ray_replication_latency_seconds_{part}[{_WINDOW}]))"
        for part in ("sum", "count")
    )
    return f"1000 * {sums} / {counts}"


#: By MM2's name, what it is made of.
RECORDED: Final[dict[str, str]] = {
    f"{_SOURCE}_record_count": _as_mm2("mirror_ray_partition_records_total"),
    f"{_SOURCE}_record_rate": _as_mm2(f"rate(mirror_ray_partition_records_total[{_WINDOW}])"),
    f"{_SOURCE}_byte_count": _as_mm2("mirror_ray_partition_bytes_total"),
    f"{_SOURCE}_byte_rate": _as_mm2(f"rate(mirror_ray_partition_bytes_total[{_WINDOW}])"),
    f"{_SOURCE}_record_age_ms": _as_mm2("1000 * mirror_ray_partition_lag_seconds"),
    f"{_SOURCE}_record_age_ms_max": _as_mm2("1000 * max_over_time(mirror_ray_partition_lag_seconds[5m])"),
    f"{_SOURCE}_record_age_ms_avg": _as_mm2("1000 * avg_over_time(mirror_ray_partition_lag_seconds[5m])"),
    f"{_SOURCE}_record_age_ms_min": _as_mm2("1000 * min_over_time(mirror_ray_partition_lag_seconds[5m])"),
    f"{_SOURCE}_replication_latency_ms": _latency(0.5),
    f"{_SOURCE}_replication_latency_ms_avg": _mean_latency(),
    f"{_SOURCE}_replication_latency_ms_max": _latency(1.0),
    f"{_SOURCE}_replication_latency_ms_min": _latency(0.0),
    "kafka_consumer_fetch_manager_records_lag": _as_mm2("mirror_ray_partition_lag_records"),
    "kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms": "1000 * mirror_ray_checkpoint_age_seconds",
    "kafka_connect_worker_task_count": "sum(mirror_ray_replicator_up)",
    "kafka_connect_worker_connector_count": "count(mirror_ray_flow_up)",
}


def mm2_group() -> dict[str, object]:
    """The rules as a group of a rules file."""
    rules = [{"record": name, "expr": expression} for name, expression in RECORDED.items()]
    return {"name": "mirror-ray-as-mm2", "rules": rules}
