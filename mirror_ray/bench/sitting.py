"""One start of one contender, and all the legs that it runs before it is stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import psutil
from confluent_kafka import KafkaException

from mirror_ray.bench.clients import delete_topics
from mirror_ray.bench.contenders import properties
from mirror_ray.bench.copying import CopyRun, RestartRun
from mirror_ray.bench.floor import floor
from mirror_ray.bench.grouping import GroupsRun
from mirror_ray.bench.legs import Copy, Groups, Leg, Restart, Start, Trickle
from mirror_ray.bench.measure import Measure
from mirror_ray.bench.stage import TARGET, Finding, Run, Stage
from mirror_ray.bench.starting import Opening, StartRun
from mirror_ray.bench.systems import RunningRay, System, system_of
from mirror_ray.bench.trickling import TrickleRun
from mirror_ray.model.errors import MirrorError

#: What may go wrong with one contender, and is no reason not to run the others.
_ONE_ALONE: Final = (MirrorError, KafkaException, OSError, psutil.Error)


def sit(stage: Stage, legs: Sequence[Leg], running_ray: RunningRay) -> list[Measure]:
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
        Measure(
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


def _system(stage: Stage, running_ray: RunningRay) -> System:
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


def _contend(stage: Stage, legs: Sequence[Leg], topics: Sequence[str], system: System) -> list[Finding]:
    opening = Opening(stage, cold=any(isinstance(leg, Copy) and leg.at_start for leg in legs))
    runs = [_run_of(stage, leg, topic, opening) for leg, topic in zip(legs, topics, strict=True)]
    try:
        opening.prepare()
        for run in runs:
            run.prepare()
        opening.start(system)
        return [_try(partial(run.run, system)) for run in runs]
    except _ONE_ALONE as error:
        return [Finding(note=f"not measured: {error}") for _ in legs]
    finally:
        system.stop()


def _run_of(stage: Stage, leg: Leg, topic: str, opening: Opening) -> Run:
    match leg:
        case Copy():
            return CopyRun(stage, leg, topic)
        case Restart():
            return RestartRun(stage, leg, topic)
        case Trickle():
            return TrickleRun(stage, leg, topic)
        case Groups():
            return GroupsRun(stage, leg, topic)
        case Start():
            return StartRun(stage, leg, topic, opening)
        case _:
            raise MirrorError(f"{leg.workload} is of an unknown kind")


def _try(measure: Callable[[], Finding]) -> Finding:
    try:
        return measure()
    except _ONE_ALONE as error:
        return Finding(note=f"not measured: {error}")
