"""What bounds a rate or a latency."""

from __future__ import annotations

import pytest

from mirror_ray.lab.bench.bounds import latency_bounds, rate_bounds
from mirror_ray.lab.bench.results import MeasuredRun, MeasurementResult, ResultRow, rows
from mirror_ray.lab.judge import CopyResult

CPU = {"cpu_s_per_million": 1.0, "source_cpu_s_per_million": 0.5, "target_cpu_s_per_million": 2.5}


def measured(workload: str, contender: str, case: str = "", /, **figures: float) -> ResultRow:
    """One run."""
    seconds = {"seconds": 1e6 / figures["records_per_s"]} if "records_per_s" in figures else {}
    result = MeasurementResult(figures=seconds | figures, judgement=CopyResult(copied=1_000_000))
    (row,) = rows([MeasuredRun(workload=workload, case=case, contender=contender, result=result)])
    return row


def test_processors_bound_where_hardly_any_is_idle() -> None:
    """Whoever has most of their work is named."""
    (bound,) = rate_bounds([measured("codecs", "mirror-ray", "gzip", records_per_s=430_000, **CPU)], 2)
    assert sum(bound.busy.values()) == pytest.approx(1.72)
    assert bound.explanation == "the processors, 62% of their work is that of the target brokers"


def test_what_comes_before_the_first_record_is_idle_time() -> None:
    """A rate begins with the first record on the target; processor time, and the time that it is of, before it."""
    (bound,) = rate_bounds([measured("repack", "mirror-ray", records_per_s=400_000, seconds=10, **CPU)], 2)
    assert sum(bound.busy.values()) == pytest.approx(0.4)


def test_idle_processors_wait() -> None:
    """For answers; with long links for what is on the way."""
    near = measured("codecs", "mirror-ray", "gzip", records_per_s=200_000, **CPU)
    far = measured(
        "wan", "mirror-ray", "target 100 ms away, 1 partition", records_per_s=100_000, source_bytes_per_s=80e6, **CPU
    )
    first, second = rate_bounds([near, far], 2)
    assert first.explanation == "waiting: the processors are 40% busy"
    assert second.explanation == "the link, with 8 MB on the way at a time"


def test_the_floor_is_that_of_the_same_case() -> None:
    """MM2's rates, and those whose brokers were not measured, have no bound here."""
    found = rate_bounds(
        [
            measured("codecs", "mirror-ray", "gzip", records_per_s=300_000, **CPU),
            measured("codecs", "mm2 tuned", "gzip", records_per_s=100_000, **CPU),
            measured("codecs", "floor", "gzip", records_per_s=400_000),
            measured("codecs", "floor", "none", records_per_s=900_000),
            measured("codecs", "mirror-ray", "none", records_per_s=900_000),
            measured("codecs", "mirror-ray zstd", "zstd", records_per_s=900_000, **CPU),
        ],
        2,
    )
    assert [(bound.row.case, bound.of_baseline) for bound in found] == [("gzip", 0.75), ("zstd", None)]


def test_latencies_stand_beside_those_where_records_are_written() -> None:
    """From the same run where it has them, else from the floor; CPU is what `many-partitions` is about."""
    found = latency_bounds(
        [
            measured("trickle", "mirror-ray", latency_p99_ms=12),
            measured("trickle", "floor", latency_p99_ms=4),
            measured("trickle", "mm2", latency_p99_ms=30),
            measured("half-load", "mirror-ray", latency_p99_ms=90, written_p99_ms=40),
            measured("many-trickles", "mirror-ray", latency_p99_ms=9),
            measured("many-partitions", "mirror-ray", latency_p99_ms=9),
        ]
    )
    assert [(bound.row.workload, bound.p99_ms, bound.written_p99_ms) for bound in found] == [
        ("trickle", 12, 4),
        ("half-load", 90, 40),
        ("many-trickles", 9, None),
    ]
