"""A chaos run from its first process to its last: clusters, flows and writers up, faults, wait, compare, all down."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path

import psutil

from mirror_ray.config.load import load_settings
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.lab.chaos import schedule, topology
from mirror_ray.lab.chaos.arrivals import ArrivalWatch
from mirror_ray.lab.chaos.clients import create_topics, end_offsets
from mirror_ray.lab.chaos.compare import compare_topic
from mirror_ray.lab.chaos.faults import Victims
from mirror_ray.lab.chaos.health import SystemHealth
from mirror_ray.lab.chaos.load import ChaosLoad
from mirror_ray.lab.chaos.outcome import ChaosOutcome, FaultDone, RunSettings
from mirror_ray.lab.chaos.schedule import Fault
from mirror_ray.lab.chaos.topology import TOPICS
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError

#: Starts a system with so many replicators; it ends with the context.
StartSystem = Callable[[MirrorSettings, int], AbstractContextManager[Mirror]]
Say = Callable[[str], None]

_LOOK_S = 0.3
#: Far beyond what recovery takes; what has not come back by then does not come back.
_WELL_WITHIN_S = 120.0
_CAUGHT_UP_WITHIN_S = 300.0


def run(
    settings: RunSettings,
    directory: Path,
    start_system: StartSystem,
    say: Say,
) -> ChaosOutcome:
    """Carry out a run.

    Args:
        settings: What is to happen.
        directory: Where clusters, their logs, and the system's events go; it is left as it is.
        start_system: See there.
        say: Gets each line that the user is to read meanwhile.

    Raises:
        MirrorError: Something that the run itself needs did not start or did not work.
    """
    began_s = time.monotonic()
    with ExitStack() as stack:
        say(f"starting clusters A and B in {directory}")
        clusters = stack.enter_context(topology.clusters(directory, settings.forget_every_s))
        create_topics(clusters)
        load = ChaosLoad(clusters, settings.seed)
        stack.callback(load.ask_to_stop)
        load.start()
        config = directory / "mm2.properties"
        config.write_text(topology.properties(list(clusters.values())))
        say("starting Ray and the flows A->B and B->A")
        with start_system(load_settings(config).settings, len(schedule.REPLICATORS)) as system:
            chaos = _Chaos(clusters, load, SystemHealth(system, directory / "events.log"), say)
            chaos.go_through(schedule.plan(settings.seed, settings.faults))
            chaos.finish()
        say("comparing every record of every partition")
        topics = tuple(compare_topic(topic, clusters, load) for topic in TOPICS)
    return ChaosOutcome(
        settings=settings,
        faults=tuple(chaos.done),
        topics=topics,
        stuck=tuple(chaos.stuck),
        duration_s=time.monotonic() - began_s,
        machine=_machine(),
    )


class _Chaos:
    """A running system with its clusters and writers. Once it is ``stuck``, no more faults are done to it."""

    def __init__(self, clusters: Mapping[str, DevCluster], load: ChaosLoad, site: SystemHealth, say: Say) -> None:
        self.done: list[FaultDone] = []
        #: What is wrong, where something did not recover; one sentence each.
        self.stuck: list[str] = []
        self._last_wrong = ""
        self._clusters = clusters
        self._load = load
        self._site = site
        self._say = say

    def go_through(self, faults: Sequence[Fault]) -> None:
        """One group of faults after the other; before each, everything runs well."""
        self._wait(self._site.not_copying, _WELL_WITHIN_S)
        if self.stuck:
            return
        with ArrivalWatch(self._clusters) as watch, Victims(self._clusters) as victims:
            began_s = time.monotonic()
            self._wait(partial(self._site.not_well, watch, began_s), _WELL_WITHIN_S)
            for group in schedule.groups(faults):
                if not self.stuck:
                    self._carry_out(group, watch, victims, began_s)

    def finish(self) -> None:
        """Stop the writers, wait until all is copied, and stop the system."""
        self._say("stopping the writers; waiting until all is copied")
        self._load.stop()
        if not self.stuck:
            ends = {
                (topic.flow, topic.name, number): end
                for topic in TOPICS
                for number, end in end_offsets(self._clusters[topic.cluster], topic.name, topic.partitions).items()
            }
            self._wait(partial(self._site.behind, ends), _CAUGHT_UP_WITHIN_S)
        with suppress(MirrorError):
            self._site.note_all()
            self._site.system.down()

    def _carry_out(self, group: Sequence[Fault], watch: ArrivalWatch, victims: Victims, began_s: float) -> None:
        self._wait(lambda: victims.look(self._site.system.status()), _WELL_WITHIN_S)
        watch.mark()
        group_s = time.monotonic()
        begins: dict[int, float] = {}
        for step in schedule.steps(group):
            time.sleep(max(0.0, group_s + step.at_s - time.monotonic()))
            fault = step.fault
            if not step.begins:
                victims.end(fault)
                continue
            begins[fault.number] = time.monotonic() - began_s
            gone = "" if victims.begin(fault) else ": it had ended"
            self._say(f"{begins[fault.number]:6.0f} s  {fault.number:3}  {fault}{gone}")
        victims.wait_for_brokers()
        ended_s = time.monotonic()
        self._wait(partial(self._site.not_well, watch, ended_s), _WELL_WITHIN_S)
        well_after_s, stood_s = time.monotonic() - ended_s, watch.standstill_s()
        well = "STUCK" if self.stuck else "all well"
        last = f" (at last: {self._last_wrong})" if self._last_wrong else ""
        self._say(f"{'':13}{well} {well_after_s:.1f} s later{last}; no partition stood for longer than {stood_s:.1f} s")
        self.done += [
            FaultDone(fault=fault, at_s=begins[fault.number], stood_s=stood_s, well_after_s=well_after_s)
            for fault in group
        ]

    def _wait(self, wrong: Callable[[], list[str]], timeout_s: float) -> None:
        """Look until nothing is wrong; what still is when the time is over is ``stuck``."""
        deadline_s = time.monotonic() + timeout_s
        self._last_wrong = ""
        while True:
            self._load.check()
            try:
                self._site.note_events()
                found = wrong()
            except MirrorError as error:
                # A coordinator that restarts.
                found = [str(error)]
            if not found:
                return
            self._last_wrong = found[0]
            if time.monotonic() > deadline_s:
                self.stuck = found
                return
            time.sleep(_LOOK_S)


def _machine() -> str:
    memory_gb = psutil.virtual_memory().total / 1e9
    return (
        f"Everything on one machine with {os.cpu_count()} cores and {memory_gb:.0f} GB: two brokers of Apache Kafka,"
        f" {len(schedule.REPLICATORS)} replicators, flows A->B and B->A, {platform.system()},"
        f" Python {platform.python_version()}"
    )
