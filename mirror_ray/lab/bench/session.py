"""One start of one contender, and all the legs that it runs before it is stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import psutil
from confluent_kafka import KafkaException

from mirror_ray.lab.bench.backlog_runs import CopyRun, RestartRun
from mirror_ray.lab.bench.baseline import floor
from mirror_ray.lab.bench.clients import delete_topics
from mirror_ray.lab.bench.contenders import properties
from mirror_ray.lab.bench.fixture import TARGET, BenchFixture, MeasurementResult, MeasurementRun
from mirror_ray.lab.bench.group_runs import GroupsRun
from mirror_ray.lab.bench.measurements import (
    CopyMeasurement,
    GroupsMeasurement,
    Measurement,
    RestartMeasurement,
    StartMeasurement,
    TrickleMeasurement,
)
from mirror_ray.lab.bench.results import MeasuredValue
from mirror_ray.lab.bench.start_runs import Opening, StartRun
from mirror_ray.lab.bench.systems import ContenderProcess, RunningRay, system_of
from mirror_ray.lab.bench.trickle_runs import TrickleRun
from mirror_ray.model.errors import MirrorError

#: What may go wrong with one contender, and is no reason not to run the others.
_ONE_ALONE: Final = (MirrorError, KafkaException, OSError, psutil.Error)


def sit(stage: BenchFixture, legs: Sequence[Measurement], running_ray: RunningRay) -> list[MeasuredValue]:
    """Run the legs. One that can't be measured is a measure without figures, and a note that says why.

    Args:
        stage: Clusters, names, contender.
        legs: What is measured, in this order.
        running_ray: For a contender that is started in one.
    """
    topics = [f"{stage.prefix}{leg.workload}-{number}" for number, leg in enumerate(legs)]
    try:
        if stage.contender.system == "floor":
            found = [_try(partial(floor, stage, leg, topic)) for leg, topic in zip(legs, topics, strict=True)]
        else:
            found = _contend(stage, legs, topics, _system(stage, running_ray))
    finally:
        for cluster in (stage.source, stage.target):
            # What is left of it only takes room; nobody else has topics of these names.
            with suppress(*_ONE_ALONE):
                delete_topics(cluster, lambda name: name.startswith((stage.prefix, f"{stage.alias}.")))
    return [
        MeasuredValue(
            workload=leg.workload,
            case=leg.case,
            contender=stage.contender.name,
            round=stage.round,
            figures=finding.figures,
            judgement=finding.judgement,
            note=finding.note,
        )
        for leg, finding in zip(legs, found, strict=True)
    ]


def _system(stage: BenchFixture, running_ray: RunningRay) -> ContenderProcess:
    source, target = stage.site.reached
    text = properties(
        stage.contender,
        stage.site.place,
        stage.alias,
        {stage.alias: source, TARGET: target},
        f"{re.escape(stage.prefix)}.*",
    )
    config = stage.directory / "mm2.properties"
    config.write_text(text)
    return system_of(stage.contender, config, stage.directory / "contender.log", running_ray)


def _contend(
    stage: BenchFixture, legs: Sequence[Measurement], topics: Sequence[str], system: ContenderProcess
) -> list[MeasurementResult]:
    opening = Opening(stage, cold=any(isinstance(leg, CopyMeasurement) and leg.at_start for leg in legs))
    runs = [_run_of(stage, leg, topic, opening) for leg, topic in zip(legs, topics, strict=True)]
    try:
        opening.prepare()
        for run in runs:
            run.prepare()
        opening.start(system)
        return [_try(partial(run.run, system)) for run in runs]
    except _ONE_ALONE as error:
        return [MeasurementResult(note=f"not measured: {error}") for _ in legs]
    finally:
        system.stop()


def _run_of(stage: BenchFixture, leg: Measurement, topic: str, opening: Opening) -> MeasurementRun:
    match leg:
        case CopyMeasurement():
            return CopyRun(stage, leg, topic)
        case RestartMeasurement():
            return RestartRun(stage, leg, topic)
        case TrickleMeasurement():
            return TrickleRun(stage, leg, topic)
        case GroupsMeasurement():
            return GroupsRun(stage, leg, topic)
        case StartMeasurement():
            return StartRun(stage, leg, topic, opening)
        case _:
            raise MirrorError(f"{leg.workload} is of an unknown kind")


def _try(measure: Callable[[], MeasurementResult]) -> MeasurementResult:
    try:
        return measure()
    except _ONE_ALONE as error:
        return MeasurementResult(note=f"not measured: {error}")
