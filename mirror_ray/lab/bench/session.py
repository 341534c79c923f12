"""A benchmark from its first cluster to its last: sites, rounds, and each start of a contender."""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from confluent_kafka import KafkaException

from mirror_ray.lab.bench.bench_report import described
from mirror_ray.lab.bench.contender_process import ContenderProcess, RunningRay, process_of
from mirror_ray.lab.bench.contenders import MIRROR_RAY, Contender, properties
from mirror_ray.lab.bench.copy_runs import CopyRun, RestartRun, copy_baseline
from mirror_ray.lab.bench.dataset import PreparedTopics
from mirror_ray.lab.bench.environment import TARGET, BenchEnvironment, MeasurementRun, clusters_at
from mirror_ray.lab.bench.group_runs import GroupsRun
from mirror_ray.lab.bench.half_load_runs import HalfLoadRun
from mirror_ray.lab.bench.measurements import (
    ClusterSite,
    CopyMeasurement,
    GroupsMeasurement,
    HalfLoadMeasurement,
    Measurement,
    RestartMeasurement,
    StartMeasurement,
    TrickleMeasurement,
)
from mirror_ray.lab.bench.results import MeasuredRun, MeasurementResult
from mirror_ray.lab.bench.start_runs import ContenderStart, StartRun
from mirror_ray.lab.bench.trickle_runs import TrickleRun, trickle_baseline
from mirror_ray.lab.bench.workloads import Workload, broker_warm_up
from mirror_ray.lab.kafka_client import delete_topics
from mirror_ray.model.errors import MirrorError

Say = Callable[[str], None]

_RUNS: Final[Mapping[type[Measurement], type[MeasurementRun[Any]]]] = {
    CopyMeasurement: CopyRun,
    RestartMeasurement: RestartRun,
    TrickleMeasurement: TrickleRun,
    HalfLoadMeasurement: HalfLoadRun,
    GroupsMeasurement: GroupsRun,
}
#: Failures of one contender, which are no reason not to run the others.
_CONTENDER_ERRORS: Final = (MirrorError, KafkaException, OSError, psutil.Error)


@dataclass(frozen=True, slots=True)
class ContenderTurn:
    """One start of a contender, and what is measured of it."""

    contender: Contender
    measurements: tuple[Measurement, ...]
    #: Whether the results count.
    recorded: bool = True


def turns(workloads: Sequence[Workload], site: ClusterSite, round_: int) -> list[ContenderTurn]:
    """Who is started in a round, in which order, and what is measured; every other round in the reverse order."""
    shared: dict[Contender, list[Measurement]] = {}
    alone: list[ContenderTurn] = []
    for workload in workloads:
        for contender, measurement in workload.runs() if round_ < workload.repeats else ():
            if measurement.site != site:
                continue
            if measurement.alone:
                alone.append(ContenderTurn(contender, (measurement,)))
            else:
                shared.setdefault(contender, []).append(measurement)
    found = [*(ContenderTurn(contender, tuple(several)) for contender, several in shared.items()), *alone]
    return found[::-1] if round_ % 2 else found


def clusters_of_turns(
    workloads: Sequence[Workload], size: float
) -> Iterator[tuple[ClusterSite, Sequence[ContenderTurn]]]:
    """The turns that share clusters: all of a site, the warm-up of the brokers first; on cold ones each is alone."""
    for site in dict.fromkeys(measurement.site for workload in workloads for _, measurement in workload.runs()):
        rounds = range(max(workload.repeats for workload in workloads))
        found = [turn for round_ in rounds for turn in turns(workloads, site, round_)]
        if site.cold:
            yield from ((site, [turn]) for turn in found)
        else:
            yield site, [ContenderTurn(MIRROR_RAY, broker_warm_up(site, size), recorded=False), *found]


def run_benchmark(
    workloads: Sequence[Workload], directory: Path, running_ray: RunningRay, say: Say, *, size: float = 1.0
) -> list[MeasuredRun]:
    """Run all workloads; ``say`` gets each progress line for the user.

    Configurations and logs go into the directory, which is not cleaned up. ``running_ray`` is for contenders that are
    started in a Ray that runs already; ``size`` is the share of the records with which everything is warmed up.

    Raises:
        MirrorError: Something that the benchmark itself needs did not start.
    """
    numbers = itertools.count(1)
    found: list[MeasuredRun] = []
    with tempfile.TemporaryDirectory(prefix="mirror-ray-bench-data-") as data:
        prepared = PreparedTopics(Path(data))
        for site, together in clusters_of_turns(workloads, size):
            with clusters_at(site) as clusters:
                for turn in together:
                    number = next(numbers)
                    environment = BenchEnvironment(
                        number=number,
                        contender=turn.contender,
                        clusters=clusters,
                        prepared=prepared,
                        size=size,
                        directory=directory / f"{number}",
                    )
                    environment.directory.mkdir()
                    say(f"{turn.contender.name}: {', '.join(dict.fromkeys(map(_name, turn.measurements)))}")
                    runs = run_turn(environment, turn.measurements, running_ray)
                    found += runs if turn.recorded else []
                    for run in runs:
                        say(f"    {described(run)}")
    return found


def run_turn(
    environment: BenchEnvironment, measurements: Sequence[Measurement], running_ray: RunningRay
) -> list[MeasuredRun]:
    """Start a contender, and run the measurements in order.

    One that can't be measured has a result without figures, and a note that says why.
    """
    contender = environment.contender
    topics = [f"{environment.prefix}{measurement.workload}-{number}" for number, measurement in enumerate(measurements)]
    try:
        if contender.system == "floor":
            results = [
                _attempt(partial(_baseline, environment, measurement, topic))
                for measurement, topic in zip(measurements, topics, strict=True)
            ]
        else:
            results = _run_contender(environment, measurements, topics, _process(environment, running_ray))
    finally:
        for cluster in (environment.source, environment.target):
            # Topics that can't be deleted only take disk space: nobody else uses these names.
            with suppress(*_CONTENDER_ERRORS):
                delete_topics(cluster, lambda name: name.startswith((environment.prefix, f"{environment.alias}.")))
    return [
        MeasuredRun(workload=measurement.workload, case=measurement.case, contender=contender.name, result=result)
        for measurement, result in zip(measurements, results, strict=True)
    ]


def _process(environment: BenchEnvironment, running_ray: RunningRay) -> ContenderProcess:
    contender, alias, clusters = environment.contender, environment.alias, environment.clusters
    bootstrap = dict(zip((alias, TARGET), clusters.bootstrap, strict=True))
    config = environment.directory / "mm2.properties"
    config.write_text(properties(contender, clusters.site, alias, bootstrap, f"{re.escape(environment.prefix)}.*"))
    return process_of(contender, config, environment.directory / "contender.log", running_ray)


def _run_contender(
    environment: BenchEnvironment, measurements: Sequence[Measurement], topics: Sequence[str], system: ContenderProcess
) -> list[MeasurementResult]:
    cold = any(isinstance(measurement, CopyMeasurement) and measurement.at_start for measurement in measurements)
    start = ContenderStart(environment, cold=cold)
    runs = [
        _run_of(environment, measurement, topic, start) for measurement, topic in zip(measurements, topics, strict=True)
    ]
    try:
        start.prepare()
        for run in runs:
            run.prepare()
        start.start(system)
        return [_attempt(partial(run.run, system)) for run in runs]
    except _CONTENDER_ERRORS as error:
        return [MeasurementResult(note=f"not measured: {error}") for _ in measurements]
    finally:
        system.stop()


def _run_of(
    environment: BenchEnvironment, measurement: Measurement, topic: str, start: ContenderStart
) -> MeasurementRun[Any]:
    if isinstance(measurement, StartMeasurement):
        return StartRun(environment, measurement, topic, start)
    return _RUNS[type(measurement)](environment, measurement, topic)


def _baseline(environment: BenchEnvironment, measurement: Measurement, topic: str) -> MeasurementResult:
    match measurement:
        case CopyMeasurement():
            return copy_baseline(environment, measurement, topic)
        case TrickleMeasurement():
            return trickle_baseline(environment, measurement, topic)
        case _:
            raise MirrorError(f"{measurement.workload} has no baseline")


def _attempt(measure: Callable[[], MeasurementResult]) -> MeasurementResult:
    # Brokers stall while the kernel writes out what others have left in its cache.
    os.sync()
    try:
        return measure()
    except _CONTENDER_ERRORS as error:
        return MeasurementResult(note=f"not measured: {error}")


def _name(measurement: Measurement) -> str:
    return f"{measurement.workload} ({measurement.case})" if measurement.case else measurement.workload
