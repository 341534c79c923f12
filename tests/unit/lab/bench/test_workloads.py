"""The workloads, and who is started for which of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror_ray.lab.bench.contenders import MIRROR_RAY, MM2, MM2_TUNED_EXACTLY_ONCE, Contender, properties
from mirror_ray.lab.bench.goals import GOALS
from mirror_ray.lab.bench.measurements import ClusterSite, CopyMeasurement, DataSpec, Measurement, RestartMeasurement
from mirror_ray.lab.bench.results import FIGURES, columns, leading
from mirror_ray.lab.bench.session import clusters_of_turns, turns
from mirror_ray.lab.bench.workloads import Workload, workloads

ALL = workloads(quick=False)
QUICK = workloads(quick=True)


def runs(found: Sequence[Workload]) -> list[tuple[Contender, Measurement]]:
    """Each contender with each of its measured."""
    return [run for workload in found for run in workload.runs()]


def test_quick_is_what_says_most() -> None:
    """Five of all."""
    assert [workload.name for workload in QUICK] == ["throughput", "small-batches", "trickle", "start", "restart"]
    assert {workload.name for workload in QUICK} < {workload.name for workload in ALL}


@pytest.mark.parametrize("found", [ALL, QUICK])
def test_mirror_ray_runs_in_each(found: tuple[Workload, ...]) -> None:
    """And each measurement is named as its workload is."""
    for workload in found:
        assert any(contender.system == "mirror-ray" for contender, _ in workload.runs())
        assert {measurement.workload for _, measurement in workload.runs()} == {workload.name}


def test_every_column_and_goal_is_a_figure() -> None:
    """No table and no goal asks for a figure that nobody measures."""
    for workload in ALL:
        assert {leading(workload.name), *columns(workload.name)} <= set(FIGURES)
    measured = {(measurement.workload, measurement.case, contender.name) for contender, measurement in runs(ALL)}
    for goal in GOALS:
        assert goal.figure in FIGURES
        assert (goal.workload, goal.case, goal.contender.name) in measured


def test_without_mm2() -> None:
    """What runs without `--against mm2`."""
    assert {contender.system for contender, _ in runs([workload.without("mm2") for workload in ALL])} == {
        "mirror-ray",
        "floor",
    }


def test_a_share_of_the_records_in_whole_batches() -> None:
    """At least a batch for each partition."""
    data = DataSpec(records=1_000_000, record_bytes=1000, batch_records=500, codec="zstd")
    assert data.sized(0.1).records == 100_000
    assert data.sized(0.000_001).records == data.partitions * data.batch_records
    small = workloads(quick=False, size=0.01)
    for (_, measurement), (_, unsized) in zip(runs(small), runs(ALL), strict=True):
        if isinstance(measurement, CopyMeasurement | RestartMeasurement) and isinstance(
            unsized, CopyMeasurement | RestartMeasurement
        ):
            assert measurement.data.records <= max(
                unsized.data.records // 50, measurement.data.partitions * measurement.data.batch_records
            )


def test_every_measurement_is_run_as_often_as_its_workload_is_repeated() -> None:
    """No more, no less."""
    sites = dict.fromkeys(measurement.site for _, measurement in runs(ALL))
    for workload in ALL:
        for contender, measurement in workload.runs():
            times = [
                turn
                for site in sites
                for round_ in range(3)
                for turn in turns(ALL, site, round_)
                if turn.contender == contender and measurement in turn.measurements
            ]
            assert len(times) == workload.repeats


def test_every_other_round_is_the_other_way_round() -> None:
    """Whoever comes first is not always the same."""
    first, second = (turns([ALL[0]], ClusterSite(), round_) for round_ in (0, 1))
    assert [turn.contender for turn in second] == [turn.contender for turn in first][::-1]


def test_what_is_alone_has_a_start_of_its_own() -> None:
    """A kill is nothing for others to be measured beside."""
    for turn in turns(ALL, ClusterSite(), 0):
        assert len(turn.measurements) == 1 or not any(measurement.alone for measurement in turn.measurements)


def test_cold_clusters_are_shared_by_nobody() -> None:
    """And nothing warms them up; of all others the warm-up is the first turn."""
    for site, together in clusters_of_turns(ALL, 1.0):
        if site.cold:
            assert [turn.recorded for turn in together] == [True]
            (measurement,) = together[0].measurements
            assert isinstance(measurement, CopyMeasurement)
            assert measurement.at_start
        else:
            assert [turn.recorded for turn in together] == [False] + [True] * (len(together) - 1)


@pytest.mark.parametrize(
    "contender", dict.fromkeys(contender for contender, _ in runs(ALL)), ids=lambda contender: contender.name
)
def test_properties_have_nothing_left_open(contender: Contender) -> None:
    """Every alias is filled in."""
    text = properties(
        contender, ClusterSite(target_brokers=3), "S7", {"S7": "127.0.0.1:1", "B": "127.0.0.1:2"}, "s7-.*"
    )
    assert "S7->B.topics = s7-.*" in text
    assert "S7->B.enabled = true" in text
    assert "{" not in text


def test_exactly_once_is_of_the_worker() -> None:
    """And only where the contender says so."""

    def text(contender: Contender) -> str:
        return properties(contender, ClusterSite(), "S1", {"S1": "x:1", "B": "y:1"}, ".*")

    assert "B.exactly.once.source.support = enabled" in text(MM2_TUNED_EXACTLY_ONCE)
    assert "exactly.once" not in text(MM2) + text(MIRROR_RAY)
    assert "S1.consumer.isolation.level = read_committed" in text(MM2)


@pytest.mark.parametrize("contender", [MIRROR_RAY, MM2])
def test_copies_are_not_cleaned_before_they_are_compared(contender: Contender) -> None:
    """A remote topic that is compacted as its source loses records to the target's own cleaner, whoever copied them."""
    text = properties(contender, ClusterSite(), "S1", {"S1": "x:1", "B": "y:1"}, ".*")
    (excluded,) = (line for line in text.splitlines() if line.startswith("config.properties.exclude = "))
    assert {"cleanup.policy", "min.insync.replicas"} <= set(excluded.partition(" = ")[2].split(", "))
