"""A chaos run: clusters, flows and writers are started, faults injected, all copies compared, everything stopped."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path

from mirror_ray.config.load import load_settings
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.lab.chaos import schedule, topology
from mirror_ray.lab.chaos.arrivals import ArrivalWatch
from mirror_ray.lab.chaos.chaos_report import ChaosOutcome, ChaosSettings, InjectedFault
from mirror_ray.lab.chaos.compare import compare_topic, log_ends_apart
from mirror_ray.lab.chaos.faults import Victims
from mirror_ray.lab.chaos.first_offsets import begin_logs
from mirror_ray.lab.chaos.group_offsets import CommittingGroups
from mirror_ray.lab.chaos.health import SystemHealth
from mirror_ray.lab.chaos.schedule import Fault
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.chaos.writers import ChaosLoad
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import write_mm2_properties
from mirror_ray.lab.kafka_client import high_watermarks
from mirror_ray.lab.report_parts import machine_size
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError

#: Starts a system with so many replicators; it is stopped with the context.
StartSystem = Callable[[MirrorSettings, int], AbstractContextManager[Mirror]]
Say = Callable[[str], None]

_POLL_S = 0.3
#: Far beyond what recovery takes: what has not recovered by then never will.
_RECOVERED_WITHIN_S = 120.0
_CAUGHT_UP_WITHIN_S = 300.0
#: Logs that begin at another offset than 0 are noted by their brokers first, which takes a minute by itself.
_PREFIXES_WITHIN_S = 420.0
#: As long as it takes on a slow and busy machine to bring a log to offset 3,000,000,000.
_BEGUN_WITHIN_S = 3_600.0


def run_chaos(settings: ChaosSettings, directory: Path, start_system: StartSystem, say: Say) -> ChaosOutcome:
    """Carry out a run; ``say`` gets each progress line for the user.

    The clusters' data and logs and the system's events go into the directory, which is not cleaned up.

    Raises:
        MirrorError: Something that the run itself needs did not start or did not work.
    """
    began_s = time.monotonic()
    with ExitStack() as stack:
        say(f"starting clusters A and B in {directory}")
        preserve = settings.preserve_offsets
        # Three thousand million fillers are to be checked by the broker.
        running = topology.chaos_clusters(directory, settings.forget_every_s, quick_start=not preserve)
        clusters = stack.enter_context(running)
        topics = topology.topics_of(preserve_offsets=preserve, farthest_offset=settings.farthest_offset)
        topology.create_all_topics(clusters, topics)
        begin_logs(clusters, topics)
        load = ChaosLoad(clusters, topics, settings.seed)
        committing = CommittingGroups(clusters, topics if preserve else (), settings.seed)
        for clients in (load, committing):
            stack.callback(clients.ask_to_stop)
            clients.start()
        flows = topology.flow_properties(preserve_offsets=preserve)
        config = write_mm2_properties(directory, list(clusters.values()), flows)
        say("starting Ray and the flows A->B and B->A")
        with start_system(load_settings(config).settings, len(schedule.REPLICATORS)) as system:
            health = SystemHealth(system, directory / "events.log")
            chaos = _Chaos(topics=topics, clusters=clusters, load=load, committing=committing, health=health, say=say)
            chaos.inject(schedule.plan(settings.seed, settings.faults))
            chaos.finish(preserve_offsets=preserve)
        say("comparing every record of every partition")
        outcomes = tuple(compare_topic(topic, clusters, load, preserve_offsets=preserve) for topic in topics)
        group_differences = tuple(committing.differences())
    return ChaosOutcome(
        settings=settings,
        faults=tuple(chaos.done),
        topics=outcomes,
        stuck=tuple(chaos.stuck),
        group_offsets=committing.compared,
        group_differences=group_differences,
        duration_s=time.monotonic() - began_s,
        machine=_machine(),
    )


class _Chaos:
    """A running system with its clusters and writers. Once it is ``stuck``, no more faults are injected."""

    def __init__(
        self,
        *,
        topics: Sequence[Topic],
        clusters: Mapping[str, DevCluster],
        load: ChaosLoad,
        committing: CommittingGroups,
        health: SystemHealth,
        say: Say,
    ) -> None:
        self.done: list[InjectedFault] = []
        #: What is wrong, where something did not recover; one sentence each.
        self.stuck: list[str] = []
        self._last_problem = ""
        self._topics = topics
        self._clusters = clusters
        self._load = load
        self._committing = committing
        self._health = health
        self._say = say
        #: When everything first ran well.
        self._began_s = 0.0

    def inject(self, faults: Sequence[Fault]) -> None:
        """Carry out one group of faults after the other; before each, everything runs well.

        Where copies begin late, half of the faults come while they are brought there.
        """
        groups = schedule.groups(faults)
        prompt = [topic for topic in self._topics if not topic.begins_late]
        if len(prompt) < len(self._topics):
            half = len(groups) // 2
            self._inject(groups[:half], prompt)
            self._say("waiting until all topics are copied")
            self._wait(partial(self._health.not_copying, self._topics), _BEGUN_WITHIN_S)
            groups = groups[half:]
        self._inject(groups, self._topics)

    def _inject(self, groups: Sequence[Sequence[Fault]], topics: Sequence[Topic]) -> None:
        """Carry out groups of faults, while these topics are copied."""
        if not self.stuck:
            within_s = _PREFIXES_WITHIN_S if any(topic.first_offset for topic in topics) else _RECOVERED_WITHIN_S
            self._wait(partial(self._health.not_copying, topics), within_s)
        if self.stuck:
            return
        with ArrivalWatch(self._clusters, topics) as watch, Victims(self._clusters) as victims:
            self._wait(partial(self._health.unhealthy, topics, watch, time.monotonic()), _RECOVERED_WITHIN_S)
            self._began_s = self._began_s or time.monotonic()
            for group in groups:
                if not self.stuck:
                    self._carry_out(group, topics, watch, victims)

    def finish(self, *, preserve_offsets: bool) -> None:
        """Stop the writers, wait until all is copied, groups' offsets too, and stop the system."""
        self._say("stopping the writers; waiting until all is copied")
        self._load.stop()
        if not self.stuck:
            ends = {
                (topic.flow, topic.name, number): end
                for topic in self._topics
                for number, end in high_watermarks(self._clusters[topic.cluster], topic.name, topic.partitions).items()
            }
            self._wait(partial(self._health.behind, ends), _CAUGHT_UP_WITHIN_S)
        self._committing.stop()
        if preserve_offsets and not self.stuck:
            self._wait(partial(log_ends_apart, self._topics, self._clusters), _CAUGHT_UP_WITHIN_S)
        if preserve_offsets and not self.stuck:
            self._wait(self._committing.differences, _CAUGHT_UP_WITHIN_S)
        with suppress(MirrorError):
            self._health.write_all()
            self._health.system.down()

    def _carry_out(
        self, group: Sequence[Fault], topics: Sequence[Topic], watch: ArrivalWatch, victims: Victims
    ) -> None:
        self._wait(lambda: victims.refresh(self._health.system.status()), _RECOVERED_WITHIN_S)
        watch.mark()
        group_s = time.monotonic()
        begins: dict[int, float] = {}
        for step in schedule.steps(group):
            time.sleep(max(0.0, group_s + step.at_s - time.monotonic()))
            fault = step.fault
            if not step.begins:
                victims.end(fault)
                continue
            begins[fault.number] = time.monotonic() - self._began_s
            ended = "" if victims.begin(fault) else ": it had ended"
            self._say(f"{begins[fault.number]:6.0f} s  {fault.number:3}  {fault}{ended}")
        victims.wait_for_brokers()
        ended_s = time.monotonic()
        self._wait(partial(self._health.unhealthy, topics, watch, ended_s), _RECOVERED_WITHIN_S)
        recovery_s, standstill_s = time.monotonic() - ended_s, watch.standstill_s()
        result = "STUCK" if self.stuck else "all well"
        last = f" (at last: {self._last_problem})" if self._last_problem else ""
        longest = f"no partition stood still for longer than {standstill_s:.1f} s"
        self._say(f"{'':13}{result} {recovery_s:.1f} s later{last}; {longest}")
        self.done += [
            InjectedFault(fault=fault, at_s=begins[fault.number], standstill_s=standstill_s, recovery_s=recovery_s)
            for fault in group
        ]

    def _wait(self, find_problems: Callable[[], list[str]], timeout_s: float) -> None:
        """Wait until nothing is wrong; problems that remain after ``timeout_s`` are ``stuck``."""
        deadline_s = time.monotonic() + timeout_s
        self._last_problem = ""
        while True:
            self._load.check()
            self._committing.check()
            try:
                self._health.write_events()
                found = find_problems()
            except MirrorError as error:
                # The coordinator restarts.
                found = [str(error)]
            if not found:
                return
            self._last_problem = found[0]
            if time.monotonic() > deadline_s:
                self.stuck = found
                return
            time.sleep(_POLL_S)


def _machine() -> str:
    return (
        f"Everything on {machine_size()}: two brokers of Apache Kafka,"
        f" {len(schedule.REPLICATORS)} replicators, flows A->B and B->A, {platform.system()},"
        f" Python {platform.python_version()}"
    )
