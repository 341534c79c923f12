"""A failover rehearsed on two real clusters under live traffic, with groups at work, and every record compared."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirror_ray.config.load import load_settings
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.failover.plan import FailoverOptions, FailoverPlan, StepResult
from mirror_ray.failover.run import FailoverOrder, carry_out
from mirror_ray.failover.running_system import AttachedSystem
from mirror_ray.failover.steps import StepTiming
from mirror_ray.lab.chaos import topology
from mirror_ray.lab.chaos.clients import client_config, read_partition
from mirror_ray.lab.chaos.consumers import GroupMember
from mirror_ray.lab.chaos.load import AcknowledgedRecords, LoadWriter, TransactionalWriter
from mirror_ray.lab.chaos.records import Identity, identity
from mirror_ray.lab.chaos.run import Say, StartSystem
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import mm2_properties
from mirror_ray.lab.failover_drill.outcome import (
    DrillOutcome,
    DrillSettings,
    GroupOutcome,
    judge_group,
    lost_with_source,
)
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName

FLOW: Final = FlowName("A", "B")
_TOPICS: Final = (
    Topic(cluster="A", name="orders", kind="plain", partitions=3, records_per_s=100),
    Topic(cluster="A", name="clicks", kind="plain", partitions=2, records_per_s=50),
    Topic(cluster="A", name="payments", kind="transactional", partitions=2, records_per_s=50, transactions=True),
)
#: What producers write to once they have moved.
_TOPICS_AFTER: Final = tuple(
    Topic(cluster="B", name=each.name, kind=each.kind, partitions=each.partitions, records_per_s=50) for each in _TOPICS
)
_READY_WITHIN_S: Final = 120.0
_LOOK_S: Final = 0.2
#: Groups at work at the same time, where they are many.
_AT_ONCE: Final = 20
#: A planned failover stops each group after so long, at random; the source is killed after so long with all at work.
_STOPPED_AFTER_S: Final = (0.0, 3.0)
_KILLED_AFTER_S: Final = (2.0, 5.0)


if TYPE_CHECKING:
    _Numbers = array[int]
else:
    # It takes no type when it runs.
    _Numbers = array


class _Timed(_Numbers):
    """Numbers, and when each was acknowledged."""

    def __init__(self, *_: object) -> None:
        self.times_s: list[float] = []

    def append(self, number: int, /) -> None:
        super().append(number)
        self.times_s.append(time.time())


def rehearse(settings: DrillSettings, directory: Path, start_system: StartSystem, say: Say) -> DrillOutcome:
    """Carry out a rehearsal; ``start_system`` and ``say`` as for ``chaos.run``.

    Raises:
        MirrorError: Something that the rehearsal itself needs did not start or did not work.
    """
    with ExitStack() as stack:
        say(f"starting clusters A and B in {directory}")
        clusters = stack.enter_context(topology.clusters(directory, 600.0))
        _create_topics(clusters)
        config = directory / "mm2.properties"
        config.write_text(mm2_properties(list(clusters.values())) + "B->A.enabled = false\n")
        rehearsal = _Rehearsal(settings, clusters, load_settings(config).settings, say)
        stack.callback(rehearsal.ask_to_stop)
        say("starting Ray and the flow A->B")
        with _started(start_system, rehearsal) as system:
            return rehearsal.run(system)


def _started(start_system: StartSystem, rehearsal: _Rehearsal) -> AbstractContextManager[Mirror]:
    return start_system(rehearsal.flows, 1)


class _Rehearsal:
    def __init__(
        self, settings: DrillSettings, clusters: Mapping[str, DevCluster], flows: MirrorSettings, say: Say
    ) -> None:
        self.flows = flows
        self._settings, self._clusters, self._say = settings, clusters, say
        self._dice = random.Random(settings.seed)  # noqa: S311 - a seed repeats a run
        self._names = [f"group-{number:03}" for number in range(1, settings.groups + 1)]
        self._writers = _writers(clusters["A"], _TOPICS, settings.seed)
        self._after: list[LoadWriter] = []
        self._members: list[GroupMember] = []
        self._steps: list[tuple[str, str, float]] = []

    def ask_to_stop(self) -> None:
        """End all that writes and reads."""
        for writer in (*self._writers, *self._after):
            writer.ask_to_stop()
        for member in self._members:
            member.ask_to_stop()

    def run(self, system: Mirror) -> DrillOutcome:
        """The whole rehearsal, with the system up."""
        began_s = time.monotonic()
        for writer in self._writers:
            writer.start()
        _wait(lambda: self._copying(system), "every partition is copied")
        on_a = self._work_on_a(system)
        if self._settings.planned:
            moved_s = self._planned(system)
            on_b = self._finish_on_b()
        else:
            moved_s = self._killed(system)
            on_b = self._go_on_on_b()
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

    def _work_on_a(self, system: Mirror) -> dict[str, GroupMember]:
        """Groups at work on A: stopped at random when this returns, or killed with A's brokers."""
        topics = [topic.name for topic in _TOPICS]
        members = {name: GroupMember(self._clusters["A"], name, topics) for name in self._names}
        self._members += members.values()
        self._say(f"{len(members)} groups are at work on A")
        if self._settings.planned:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                waits_s = {name: self._dice.uniform(*_STOPPED_AFTER_S) for name in members}
                list(pool.map(lambda each: _work_for(each, waits_s[each.group]), members.values()))
            return members
        for each in members.values():
            each.start()
        _wait(lambda: _carried(system) >= len(members), "every group is carried over")
        time.sleep(self._dice.uniform(*_KILLED_AFTER_S))
        return members

    def _planned(self, system: Mirror) -> float:
        self._say("all groups have stopped; stopping the producers")
        for writer in self._writers:
            writer.stop()
        began_s = time.time()
        self._fail_over(system, FailoverOptions())
        return began_s

    def _killed(self, system: Mirror) -> float:
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
        asyncio.run(carry_out(self.flows, order, AttachedSystem(system), note))

    def _finish_on_b(self) -> dict[str, GroupMember]:
        """Every group reads the rest of the copies."""
        self._say("the groups go on on B")
        members = {name: GroupMember(self._clusters["B"], name, _copies(), to_the_end=True) for name in self._names}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(_work, members.values()))
        return members

    def _go_on_on_b(self) -> dict[str, GroupMember]:
        """Producers and groups move; until every group has read all copies and has something new."""
        self._say("the groups and the producers go on on B")
        self._after = list(_writers(self._clusters["B"], _TOPICS_AFTER, self._settings.seed, "after-"))
        for writer in self._after:
            writer.start()
        own = [topic.name for topic in _TOPICS_AFTER]
        members = {name: GroupMember(self._clusters["B"], name, [*_copies(), *own]) for name in self._names}
        self._members += members.values()
        for each in members.values():
            each.start()
        _wait(lambda: all(each.first_s is not None for each in members.values()), "every group works on B")
        for writer in self._after:
            writer.stop()
        for each in members.values():
            each.ask_to_stop()
            each.join()
        # What was left of the copies when they were stopped.
        rest = {name: GroupMember(self._clusters["B"], name, _copies(), to_the_end=True) for name in self._names}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(_work, rest.values()))
        for name, each in members.items():
            each.processed += rest[name].processed
        self._say("starting A again, to know what it held")
        self._clusters["A"].start()
        for writer in self._writers:
            writer.stop()
        for each in self._members:
            each.join()
        return members

    def _compare(
        self, on_a: Mapping[str, GroupMember], on_b: Mapping[str, GroupMember], moved_s: float
    ) -> tuple[list[GroupOutcome], int, tuple[int, float]]:
        self._say("comparing every record")
        acknowledged = {
            Identity(writer.name, number): at_s
            for writer in self._writers
            for numbers in writer.ledger.written.values()
            for number, at_s in zip(numbers, _times(numbers), strict=True)
        }
        copied = _ids(self._clusters["B"], {f"A.{topic.name}": topic.partitions for topic in _TOPICS})
        held = _ids(self._clusters["A"], {topic.name: topic.partitions for topic in _TOPICS})
        if not self._settings.planned:
            # Writers have written on when A came back; that is of no account.
            before = {who for who, at_s in acknowledged.items() if at_s <= moved_s}
            held &= before | copied
        copies = set(_copies())
        groups = [
            judge_group(
                name,
                ([w for _, w in on_a[name].processed], [w for t, w in on_b[name].processed if t in copies]),
                held,
                copied,
                None if (first := on_b[name].first_s) is None else first - moved_s,
            )
            for name in self._names
        ]
        until_s = time.time() if self._settings.planned else moved_s
        return groups, len(held), lost_with_source(acknowledged, copied, until_s)

    @staticmethod
    def _copying(system: Mirror) -> bool:
        wanted = {(topic.name, number) for topic in _TOPICS for number in range(topic.partitions)}
        return wanted <= {(each.topic, each.partition) for each in system.partitions() if each.state == "copying"}


def _writers(cluster: DevCluster, topics: Sequence[Topic], seed: int, prefix: str = "") -> tuple[LoadWriter, ...]:
    made = []
    for topic in topics:
        kind = TransactionalWriter if topic.transactions else LoadWriter
        writer = kind(cluster, topic, f"{prefix}{topic.name}", seed)
        writer.ledger = AcknowledgedRecords(written=defaultdict(lambda: _Timed("Q")))
        made.append(writer)
    return tuple(made)


def _times(numbers: array[int]) -> list[float]:
    return numbers.times_s if isinstance(numbers, _Timed) else []


def _copies() -> list[str]:
    return [f"A.{topic.name}" for topic in _TOPICS]


def _work_for(member: GroupMember, seconds: float) -> None:
    """At work for so long after its first record."""
    member.start()
    _wait(lambda: member.first_s is not None, f"{member.group} works")
    time.sleep(seconds)
    member.ask_to_stop()
    member.join()


def _work(member: GroupMember) -> None:
    member.start()
    member.join()


def _carried(system: Mirror) -> int:
    """Groups that stand somewhere on the target; one at work is behind there, or not, at any moment."""
    found = system.groups(str(FLOW))
    return sum(any(each.target_offset is not None for each in group.partitions) for group in found)


def _ids(cluster: DevCluster, topics: Mapping[str, int]) -> set[Identity]:
    return {
        who
        for topic, partitions in topics.items()
        for number in range(partitions)
        for record in read_partition(cluster, topic, number)
        if (who := identity(record)) is not None
    }


def _create_topics(clusters: Mapping[str, DevCluster]) -> None:
    for alias, topics in (("A", _TOPICS), ("B", _TOPICS_AFTER)):
        new = [NewTopic(each.name, each.partitions, 1, config=dict(each.configs)) for each in topics]
        admin = AdminClient(client_config(clusters[alias], {}))
        for future in admin.create_topics(new).values():
            future.result(60.0)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _READY_WITHIN_S
    waiting = threading.Event()
    while not condition():
        if time.monotonic() > deadline_s:
            raise MirrorError(f"waited {_READY_WITHIN_S:g} s, and it is not so: {what}")
        waiting.wait(_LOOK_S)
