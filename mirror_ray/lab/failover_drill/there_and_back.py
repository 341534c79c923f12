"""Failover and failback, round after round, in topics that keep their names, under live traffic and by real processes.

In each round writers and groups work on A, the flow fails over, they go on on B in the same topics, and come back by a
failback. Either all of them are stopped before each move, or A's brokers are killed (SIGKILL) under load, in every
second round shortly after the replicators. In the end both sides must hold the same records, and every group must have
processed them.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import psutil

from mirror_ray.config.load import load_settings
from mirror_ray.failover.plan import Kind
from mirror_ray.lab.background import wait_until
from mirror_ray.lab.chaos import topology
from mirror_ray.lab.chaos.chaos_report import FORGET_EVERY_S
from mirror_ray.lab.chaos.chaos_run import Say, StartSystem
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import write_mm2_properties
from mirror_ray.lab.failover_drill import both_sides, traffic
from mirror_ray.lab.failover_drill.command import FailoverCommand
from mirror_ray.lab.failover_drill.drill_report import lost_with_source
from mirror_ray.lab.failover_drill.phase import Phase
from mirror_ray.lab.failover_drill.there_and_back_report import (
    CommandRun,
    Move,
    PhaseRecords,
    ThereAndBackOutcome,
    ThereAndBackSettings,
    judge_group,
    judge_records,
)
from mirror_ray.lab.failover_drill.traffic import TimedMember
from mirror_ray.lab.kafka_client import create_topics
from mirror_ray.lab.load_record import RecordId
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.model.policy import IDENTITY_POLICY_CLASS

FLOW: Final = FlowName("A", "B")
#: The same ones on both sides.
_TOPICS: Final = (
    Topic(cluster="A", name="orders", kind="plain", partitions=3, records_per_s=100),
    Topic(cluster="A", name="payments", kind="transactional", partitions=2, records_per_s=50, transactions=True),
)
_READY_WITHIN_S: Final = 120.0
_POLL_S: Final = 0.2
#: How long all work on a side before it is left, at random.
_AT_WORK_S: Final = (1.0, 3.0)
#: In every second round the replicators are killed so long before A, at random.
_BEFORE_A_S: Final = (0.0, 1.0)
_QUIET_S: Final = 1.0
_CATCH_UP_S: Final = 120.0
#: How often a command is given that has to be done.
_TRIES: Final = 10
_BLOCKED: Final = re.compile(r"  ([a-z-]+): blocked:")


def drill_there_and_back(
    settings: ThereAndBackSettings, directory: Path, name: str, start_system: StartSystem, say: Say
) -> ThereAndBackOutcome:
    """Carry out a drill with the system of that ``name``; other arguments and errors as for ``run_chaos``."""
    with ExitStack() as stack:
        say(f"starting clusters A and B in {directory}")
        clusters = stack.enter_context(topology.chaos_clusters(directory, FORGET_EVERY_S))
        create_topics(clusters["A"], [topic.new_topic() for topic in _TOPICS])
        config = write_mm2_properties(directory, list(clusters.values()), _properties(settings))
        drill = _Drill(settings, clusters, directory, name, say)
        stack.callback(drill.ask_to_stop)
        say("starting Ray and the flow A->B")
        with start_system(load_settings(config).settings, 1) as system:
            return drill.run(system)


def _properties(settings: ThereAndBackSettings) -> str:
    lines = [f"replication.policy.class = {IDENTITY_POLICY_CLASS}", "B->A.enabled = false", "A->B.groups = group-.*"]
    lines.append("A->B.topics = " + ", ".join(topic.name for topic in _TOPICS))
    lines += ["A->B.offsets = preserve"] if settings.preserve_offsets else []
    return "\n".join([*lines, ""])


class _Drill:
    def __init__(
        self, settings: ThereAndBackSettings, clusters: Mapping[str, DevCluster], directory: Path, name: str, say: Say
    ) -> None:
        self._settings, self._clusters, self._name, self._say = settings, clusters, name, say
        self._dice = random.Random(settings.seed)  # noqa: S311 - a seed repeats a run
        self._groups = [f"group-{number:03}" for number in range(1, settings.groups + 1)]
        self._exports = directory / "diverged"
        self._phases: list[Phase] = []
        self._commands: list[CommandRun] = []
        self._round = 1

    def ask_to_stop(self) -> None:
        """Have all writers and readers end soon."""
        for phase in self._phases:
            phase.ask_to_stop()

    def run(self, system: Mirror) -> ThereAndBackOutcome:
        """The whole drill, with the system up."""
        began_s = time.monotonic()
        phase = self._new_phase("A")
        phase.start_writers()
        _wait_until(lambda: traffic.is_copying(system, FLOW, _TOPICS), "every partition is copied")
        phase.start_groups()
        for number in range(1, self._settings.rounds + 1):
            self._round = number
            phase = self._go_there_planned(phase) if self._settings.planned else self._lose_a(phase, system)
            phase = self._come_back(phase)
        self._work(phase)
        self._say("stopping all; waiting until all is copied")
        phase.stop(self._dice)
        self._wait_until_copied(system)
        rest = self._read_rest()
        return self._judge(rest, began_s)

    def _go_there_planned(self, there: Phase) -> Phase:
        self._work(there)
        self._say(f"round {self._round}: stopping writers and groups on A")
        there.stop(self._dice)
        self._do("failover")
        return self._go_on_on("B")

    def _lose_a(self, there: Phase, system: Mirror) -> Phase:
        _wait_until(lambda: traffic.synced_groups(system, FLOW) >= len(self._groups), "every group is synced")
        self._work(there)
        if self._round % 2:
            self._kill_replicators(system)
        self._say(f"round {self._round}: killing A's brokers")
        there.kill()
        self._do("failover", "--source-is-gone")
        here = self._go_on_on("B")
        self._work(here)
        self._say("starting A again")
        there.come_back()
        # Where nothing has diverged there is nothing to choose.
        self._give("failback", (), ("reverse", "producers"))
        return here

    def _kill_replicators(self, system: Mirror) -> None:
        """Shortly before A dies, so that A acknowledges records which B never gets."""
        self._say(f"round {self._round}: killing the replicators")
        for replicator in system.replicators:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(replicator.pid).kill()
        time.sleep(self._dice.uniform(*_BEFORE_A_S))

    def _come_back(self, here: Phase) -> Phase:
        self._work(here)
        # Where nothing has diverged this is of no account.
        export = ["--diverged", "recreate", "--export-diverged", str(self._exports / f"round-{self._round}")]
        options = () if self._settings.planned else tuple(export)
        self._give("failback", options, ("producers",))
        self._say("stopping writers and groups on B")
        here.stop(self._dice)
        self._do("failback", *options)
        return self._go_on_on("A")

    def _new_phase(self, alias: str) -> Phase:
        phase = Phase(
            self._clusters[alias], _TOPICS, self._groups, self._settings.seed, f"{len(self._phases)}-{alias}-"
        )
        self._phases.append(phase)
        return phase

    def _go_on_on(self, alias: str) -> Phase:
        phase = self._new_phase(alias)
        self._say(f"writers and groups go on on {alias}")
        phase.start()
        return phase

    def _work(self, phase: Phase) -> None:
        """Let all work for a while, at least until every group has processed something."""
        for_s = self._dice.uniform(*_AT_WORK_S)

        def at_work() -> bool:
            for thread in (*phase.writers, *phase.members.values()):
                thread.check()
            return all(member.first_s is not None for member in phase.members.values())

        _wait_until(at_work, f"every group processes on {phase.alias}")
        time.sleep(for_s)

    def _do(self, kind: Kind, *options: str) -> None:
        """Give a command until it is done. It is wrong, and no reason to end, that once is not enough."""
        for _ in range(_TRIES):
            run = self._give(kind, options, ())
            if run.exit_code == 0:
                return
        raise MirrorError(f"{kind} is not done by {_TRIES} commands, the last one's messages are: {run.messages}")

    def _give(self, kind: Kind, options: Sequence[str], stops_in: Collection[str]) -> CommandRun:
        waits = ["--quiet-for", str(_QUIET_S), "--catch-up-within", str(_CATCH_UP_S)]
        began_s = time.monotonic()
        command = FailoverCommand([kind, str(FLOW), "--yes", *waits, "--name", self._name, *options])
        with command.running():
            exit_code = command.wait()
        blocked = _BLOCKED.findall(command.text)
        run = CommandRun(
            round=self._round,
            text=" ".join([kind, *(option.replace(str(self._exports), "DIR") for option in options)]),
            stops_in=stops_in,
            exit_code=exit_code,
            blocked_in=blocked[-1] if blocked and exit_code else "",
            seconds=time.monotonic() - began_s,
            step_s={str(step): took_s for step, took_s in command.step_s.items()},
            messages=command.text,
        )
        self._commands.append(run)
        self._say(f"{run.text}: exit code {run.ended} after {run.seconds:.1f} s")
        if run.wrong is not None:
            self._say(command.text)
        return run

    def _wait_until_copied(self, system: Mirror) -> None:
        ends = both_sides.log_ends(self._clusters["A"], _TOPICS)

        def copied() -> bool:
            found = {(status.topic, status.partition): status.position for status in system.partitions(str(FLOW))}
            return all(found.get(partition, -1) >= end for partition, end in ends.items())

        _wait_until(copied, "all is copied")
        if self._settings.preserve_offsets:
            _wait_until(lambda: both_sides.log_ends(self._clusters["B"], _TOPICS) == ends, "both sides end alike")

    def _read_rest(self) -> Mapping[str, TimedMember]:
        """Have every group process what is left on A."""
        names = [topic.name for topic in _TOPICS]
        members = {name: TimedMember(self._clusters["A"], name, names, to_the_end=True) for name in self._groups}
        for member in members.values():
            member.start()
        for member in members.values():
            member.join()
        return members

    def _judge(self, rest: Mapping[str, TimedMember], began_s: float) -> ThereAndBackOutcome:
        self._say("comparing every record")
        held, differences = both_sides.compare(
            self._clusters["A"], self._clusters["B"], _TOPICS, preserve_offsets=self._settings.preserve_offsets
        )
        exported, known = both_sides.exported_ids(self._exports), set(held)
        writers = [writer for phase in self._phases for writer in phase.writers]
        groups = []
        for name in self._groups:
            last = [(record, at_s) for (_, record), at_s in zip(rest[name].processed, rest[name].times_s, strict=True)]
            phases = [*(phase.processed(name) for phase in self._phases), PhaseRecords(last, None)]
            groups.append(judge_group(name, phases, known, exported))
        acknowledged = traffic.acknowledged_at(writers)
        return ThereAndBackOutcome(
            settings=self._settings,
            moves=[self._move(number, known) for number in range(1, len(self._phases))],
            commands=self._commands,
            groups=groups,
            records=judge_records(acknowledged, traffic.aborted(writers), held, exported, differences),
            duration_s=time.monotonic() - began_s,
        )

    def _move(self, number: int, held: Collection[RecordId]) -> Move:
        """The move to the phase of that number; ``held``: the records that both sides have in the end."""
        left, new = self._phases[number - 1], self._phases[number]
        rpo = lost_with_source(traffic.acknowledged_at(left.writers), held, left.left_s)
        firsts = {name: member.first_s for name, member in new.members.items()}
        return Move(
            round=(number + 1) // 2,
            kind="failover" if number % 2 else "failback",
            killed=left.killed,
            rpo_records=rpo[0],
            rpo_s=rpo[1],
            first_s={name: None if at_s is None else at_s - left.left_s for name, at_s in firsts.items()},
        )


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, _READY_WITHIN_S, what, every_s=_POLL_S)
