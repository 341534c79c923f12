"""The flows' figures as Ray's own metrics, for whoever has a Prometheus at Ray's agents already."""

from __future__ import annotations

from ray.util.metrics import Gauge

from mirror_ray.observe.system_snapshot import SystemSnapshot


class RayMetrics:
    """Gauges ``ray_mirror_ray_flow_*``, by flow."""

    def __init__(self) -> None:
        """Ray registers each name once for a process."""
        self._records = _gauge("lag_records", "Lag of a flow in records.")
        self._seconds = _gauge("lag_seconds", "Lag of a flow in seconds.")
        self._records_per_s = _gauge("records_per_second", "Records acknowledged by the target, each second.")
        self._bytes_per_s = _gauge("bytes_per_second", "Bytes acknowledged by the target, each second.")
        self._problems = Gauge("mirror_ray_problems", "Things that are wrong now.")

    def show(self, snapshot: SystemSnapshot) -> None:
        """Set them all; what is not known stays as it was, and Ray forgets it after a while."""
        self._problems.set(len(snapshot.problems))
        for flow in snapshot.system.flows:
            tags = {"flow": flow.flow}
            self._records_per_s.set(flow.records_per_s, tags)
            self._bytes_per_s.set(flow.bytes_per_s, tags)
            if flow.lag_records is not None:
                self._records.set(flow.lag_records, tags)
            if flow.lag_seconds is not None:
                self._seconds.set(flow.lag_seconds, tags)


def _gauge(name: str, text: str) -> Gauge:
    return Gauge(f"mirror_ray_flow_{name}", text, tag_keys=("flow",))
