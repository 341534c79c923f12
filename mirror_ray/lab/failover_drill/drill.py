"""A failover on two real clusters under live traffic, with consumer groups that process, and every record compared."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mirror_ray.config.load import load_settings
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.failover.plan import FailoverOptions, FailoverPlan, StepResult
from mirror_ray.failover.run import FailoverOrder, carry_out
from mirror_ray.failover.steps import StepTiming
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.lab.background import wait_until
from mirror_ray.lab.chaos import topology
from mirror_ray.lab.chaos.chaos_report import FORGET_EVERY_S
from mirror_ray.lab.chaos.chaos_run import Say, StartSystem
from mirror_ray.lab.chaos.consumers import GroupMember
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.chaos.writers import LoadWriter
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import write_mm2_properties
from mirror_ray.lab.failover_drill.drill_report import (
    DrillOutcome,
    DrillSettings,
    GroupOutcome,
    judge_group,
    lost_with_source,
)
from mirror_ray.lab.failover_drill.traffic import acknowledged_at, is_copying, make_writers, record_ids, synced_groups
from mirror_ray.lab.kafka_client import create_topics
from mirror_ray.mirror import Mirror
from mirror_ray.model.names import FlowName

FLOW: Final = FlowName("A", "B")
_TOPICS: Final = (
    Topic(cluster="A", name="orders", kind="plain", partitions=3, records_per_s=100),
    Topic(cluster="A", name="clicks", kind="plain", partitions=2, records_per_s=50),
    Topic(cluster="A", name="payments", kind="transactional", partitions=2, records_per_s=50, transactions=True),
)
#: What producers write to once they have moved.
_TOPICS_AFTER: Final = tuple(
    Topic(cluster="B", name=topic.name, kind=topic.kind, partitions=topic.partitions, records_per_s=50)
    for topic in _TOPICS
)
_READY_WITHIN_S: Final = 120.0
_POLL_S: Final = 0.2
#: How many groups are started and stopped at a time.
_AT_ONCE: Final = 20
#: A planned failover stops each group after so long, at random; otherwise the source is killed after so long.
_STOPPED_AFTER_S: Final = (0.0, 3.0)
_KILLED_AFTER_S: Final = (2.0, 5.0)


def drill_failover(settings: DrillSettings, directory: Path, start_system: StartSystem, say: Say) -> DrillOutcome:
    """Carry out a drill; ``start_system``, ``say`` and errors are as for ``run_chaos``."""
    with ExitStack() as stack:
        say(f"starting clusters A and B in {directory}")
        clusters = stack.enter_context(topology.chaos_clusters(directory, FORGET_EVERY_S))
        for alias, topics in (("A", _TOPICS), ("B", _TOPICS_AFTER)):
            create_topics(clusters[alias], [topic.new_topic() for topic in topics])
        config = write_mm2_properties(directory, list(clusters.values()), "B->A.enabled = false\n")
        drill = _Drill(settings, clusters, load_settings(config).settings, say)
        stack.callback(drill.ask_to_stop)
        say("starting Ray and the flow A->B")
        with start_system(drill.flows, 1) as system:
            return drill.run(system)


class _Drill:
    def __init__(
        self, settings: DrillSettings, clusters: Mapping[str, DevCluster], flows: MirrorSettings, say: Say
    ) -> None:
        self.flows = flows
        self._settings, self._clusters, self._say = settings, clusters, say
        self._dice = random.Random(settings.seed)  # noqa: S311 - a seed repeats a run
        self._names = [f"group-{number:03}" for number in range(1, settings.groups + 1)]
        self._writers = make_writers(clusters["A"], _TOPICS, settings.seed)
        self._after: list[LoadWriter] = []
        self._members: list[GroupMember] = []
        self._steps: list[tuple[str, str, float]] = []

    def ask_to_stop(self) -> None:
        """Have all writers and readers end soon."""
        for writer in (*self._writers, *self._after):
            writer.ask_to_stop()
        for member in self._members:
            member.ask_to_stop()

    def run(self, system: Mirror) -> DrillOutcome:
        """The whole drill, with the system up."""
        began_s = time.monotonic()
        for writer in self._writers:
            writer.start()
        _wait_until(lambda: is_copying(system, FLOW, _TOPICS), "every partition is copied")
        on_a = self._process_on_a(system)
        if self._settings.planned:
            moved_s = self._fail_over_planned(system)
            on_b = self._finish_on_b()
        else:
            moved_s = self._fail_over_from_dead_source(system)
            on_b = self._continue_on_b()
        failover_s = sum(took_s for _, _, took_s in self._steps)
        groups, held, rpo = self._compare(on_a, on_b, moved_s)
        return DrillOutcome(
            settings=self._settings,
            steps=self._steps,
            failover_s=failover_s,
            groups=groups,
            held=held,
            rpo_records=rpo[0],
            rpo_s=rpo[1],
            duration_s=time.monotonic() - began_s,
        )

    def _process_on_a(self, system: Mirror) -> dict[str, GroupMember]:
        """Have groups process on A; a planned failover stops them at random before this returns."""
        topics = [topic.name for topic in _TOPICS]
        members = {name: GroupMember(self._clusters["A"], name, topics) for name in self._names}
        self._members += members.values()
        self._say(f"{len(members)} groups process on A")
        if self._settings.planned:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                waits_s = {name: self._dice.uniform(*_STOPPED_AFTER_S) for name in members}
                list(pool.map(lambda member: _process_for(member, waits_s[member.name]), members.values()))
            return members
        for member in members.values():
            member.start()
        _wait_until(lambda: synced_groups(system, FLOW) >= len(members), "every group is synced")
        time.sleep(self._dice.uniform(*_KILLED_AFTER_S))
        return members

    def _fail_over_planned(self, system: Mirror) -> float:
        self._say("all groups have stopped; stopping the producers")
        for writer in self._writers:
            writer.stop()
        began_s = time.time()
        self._fail_over(system, FailoverOptions())
        return began_s

    def _fail_over_from_dead_source(self, system: Mirror) -> float:
        self._say("killing A's brokers")
        killed_s = time.time()
        for broker in self._clusters["A"].brokers:
            broker.kill()
        self.ask_to_stop()
        self._fail_over(system, FailoverOptions(source_is_gone=True))
        return killed_s

    def _fail_over(self, system: Mirror, options: FailoverOptions) -> None:
        def note(_: FailoverPlan, result: StepResult) -> None:
            took_s = (result.ended_ms - result.began_ms) / 1000
            self._say(f"  {result.step}: {result.outcome}: {result.summary.splitlines()[0]}")
            self._steps.append((result.step, result.outcome, took_s))

        order = FailoverOrder(kind="failover", flow=FLOW, options=options, timing=StepTiming(quiet_s=1.0))
        asyncio.run(carry_out(self.flows, order, system.client, UNRECORDED, note))

    def _finish_on_b(self) -> dict[str, GroupMember]:
        self._say("the groups continue on B")
        return self._read_copies()

    def _read_copies(self) -> dict[str, GroupMember]:
        """Have every group read the rest of the copies."""
        members = {name: GroupMember(self._clusters["B"], name, _copies(), to_the_end=True) for name in self._names}

        def process(member: GroupMember) -> None:
            member.start()
            member.join()

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(process, members.values()))
        return members

    def _continue_on_b(self) -> dict[str, GroupMember]:
        """Move producers and groups, until every group has read all copies and some new records."""
        self._say("the groups and the producers continue on B")
        self._after = list(make_writers(self._clusters["B"], _TOPICS_AFTER, self._settings.seed, "after-"))
        for writer in self._after:
            writer.start()
        own = [topic.name for topic in _TOPICS_AFTER]
        members = {name: GroupMember(self._clusters["B"], name, [*_copies(), *own]) for name in self._names}
        self._members += members.values()
        for member in members.values():
            member.start()
        _wait_until(
            lambda: all(member.first_s is not None for member in members.values()), "every group processes on B"
        )
        for writer in self._after:
            writer.stop()
        for member in members.values():
            member.stop()
        # What was left of the copies when they were stopped.
        for name, rest in self._read_copies().items():
            members[name].processed += rest.processed
        self._say("starting A again, to know what it held")
        self._clusters["A"].start()
        for writer in self._writers:
            writer.stop()
        for member in self._members:
            member.join()
        return members

    def _compare(
        self, on_a: Mapping[str, GroupMember], on_b: Mapping[str, GroupMember], moved_s: float
    ) -> tuple[list[GroupOutcome], int, tuple[int, float]]:
        self._say("comparing every record")
        acknowledged = acknowledged_at(self._writers)
        copied = record_ids(self._clusters["B"], {f"A.{topic.name}": topic.partitions for topic in _TOPICS})
        held = record_ids(self._clusters["A"], {topic.name: topic.partitions for topic in _TOPICS})
        if not self._settings.planned:
            # What writers wrote when A came back does not count.
            before = {record for record, at_s in acknowledged.items() if at_s <= moved_s}
            held &= before | copied
        copies = set(_copies())
        groups = [
            judge_group(
                name,
                (
                    [record for _, record in on_a[name].processed],
                    [record for topic, record in on_b[name].processed if topic in copies],
                ),
                held,
                copied,
                None if (first := on_b[name].first_s) is None else first - moved_s,
            )
            for name in self._names
        ]
        until_s = time.time() if self._settings.planned else moved_s
        return groups, len(held), lost_with_source(acknowledged, copied, until_s)


def _copies() -> list[str]:
    return [f"A.{topic.name}" for topic in _TOPICS]


def _process_for(member: GroupMember, seconds: float) -> None:
    """Have a group process until so long after its first record."""
    member.start()
    _wait_until(lambda: member.first_s is not None, f"{member.name} processes")
    time.sleep(seconds)
    member.stop()


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, _READY_WITHIN_S, what, every_s=_POLL_S)
