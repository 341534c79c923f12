"""Failover and failback whose command, coordinator or brokers are killed (SIGKILL) in each step, by real processes.

In each round records are written on A, groups process some of them there, fail over, process some on B, fail back and
process the rest on A. One victim is killed in one step of both plans, and the same command is given again until it is
done. Then every group must have processed every record of the round once. Where topics keep their names, records are
written on B, too, and both sides must hold the same ones.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, Consumer, KafkaException, Producer, TopicPartition

from mirror_ray.config.load import load_settings
from mirror_ray.failover.plan import FailoverStep, Kind
from mirror_ray.lab.background import wait_until
from mirror_ray.lab.chaos import topology
from mirror_ray.lab.chaos.chaos_report import FORGET_EVERY_S
from mirror_ray.lab.chaos.chaos_run import Say, StartSystem
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import write_mm2_properties
from mirror_ray.lab.failover_drill.command import FailoverCommand
from mirror_ray.lab.failover_drill.drill_report import (
    VICTIMS,
    Kill,
    KillSettings,
    KillsOutcome,
    KillVictim,
    group_differences,
)
from mirror_ray.lab.kafka_client import client_config, create_topic, read_placed
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.policy import IDENTITY_POLICY_CLASS

_TOPIC: Final = "orders"
_PARTITIONS: Final = 3
_RECORDS: Final = 90
_QUIET_S: Final = 0.5
_WITHIN_S: Final = 180.0
_TRIES: Final = 20
_RETRY_AFTER_S: Final = 1.0
#: How long a killed broker is down.
_DOWN_S: Final = 1.0
#: How long a step is expected to last before steps have been timed; and how often a condition is checked.
_STEP_S: Final = 0.3
_EXIT_USAGE: Final = 2
#: A message of `failback` where the plan was finished by an earlier command.
_FINISHED_ALREADY: Final = "has failed back already"


def drill_kills(
    settings: KillSettings, directory: Path, name: str, start_system: StartSystem, say: Say
) -> KillsOutcome:
    """Go through all rounds with the system of that ``name``; other arguments and errors as for ``run_chaos``."""
    began_s = time.monotonic()
    say(f"starting clusters A and B in {directory}")
    with topology.chaos_clusters(directory, FORGET_EVERY_S) as clusters:
        create_topic(clusters["A"], _TOPIC, _PARTITIONS)
        config = write_mm2_properties(directory, list(clusters.values()), _properties(settings))
        say("starting Ray and the flow A->B")
        with start_system(load_settings(config).settings, 1) as system:
            rounds = _Rounds(settings, clusters, system, name, say)
            rounds.run_all()
    return KillsOutcome(
        settings=settings,
        kills=rounds.kills,
        wrong=rounds.wrong,
        records=rounds.written,
        duration_s=time.monotonic() - began_s,
    )


def _properties(settings: KillSettings) -> str:
    lines = ["B->A.enabled = false"]
    if settings.identity:
        lines += [f"replication.policy.class = {IDENTITY_POLICY_CLASS}", f"A->B.topics = {_TOPIC}"]
    return "\n".join([*lines, ""])


class _Rounds:
    def __init__(
        self, settings: KillSettings, clusters: Mapping[str, DevCluster], system: Mirror, name: str, say: Say
    ) -> None:
        self.kills: list[Kill] = []
        self.wrong: list[str] = []
        self.written = 0
        #: Seconds of each step without a kill.
        self.step_s: dict[FailoverStep, float] = {}
        self._settings, self._clusters, self._system, self._name, self._say = settings, clusters, system, name, say
        self._dice = random.Random(settings.seed)  # noqa: S311 - a seed repeats a run
        self._groups = [f"group-{number}" for number in range(1, settings.groups + 1)]

    def run_all(self) -> None:
        """Run a round without a kill, and then the others, until one leaves something wrong."""
        start = dict.fromkeys(range(_PARTITIONS), 0)
        for group in self._groups:
            _commit(self._clusters["A"], group, start)
        self._round(None)
        for victim, step in product(VICTIMS, self._settings.steps):
            if not self.wrong:
                self._round((victim, step))

    def _round(self, kill: tuple[KillVictim, FailoverStep] | None) -> None:
        a, b = self._clusters["A"], self._clusters["B"]
        wait_until(self._copies, _WITHIN_S, "A->B copies", every_s=_STEP_S)
        values = self._write(a)
        share = _RECORDS // 3
        values_of = {group: _process(a, group, _TOPIC, self._dice.randint(0, share)) for group in self._groups}
        self._plan("failover", kill)
        if self._settings.identity:
            values += self._write(b)
        remote = _TOPIC if self._settings.identity else f"A.{_TOPIC}"
        for group, processed in values_of.items():
            processed.extend(_process(b, group, remote, self._dice.randint(0, share)))
        self._plan("failback", kill)
        for group, processed in values_of.items():
            processed.extend(_process(a, group, _TOPIC, None))
            self.wrong += group_differences(group, values, processed)
        if self._settings.identity:
            self.wrong += _differences(a, b)

    def _write(self, cluster: DevCluster) -> list[bytes]:
        """Write records that no other is like; returns their values."""
        values = [b"%d" % number for number in range(self.written, self.written + _RECORDS)]
        _write(cluster, values)
        self.written += len(values)
        return values

    def _plan(self, kind: Kind, kill: tuple[KillVictim, FailoverStep] | None) -> None:
        """Give the command until the plan is finished; a step that it does not have kills nobody."""
        steps = self._settings.steps_of(kind)
        kill = kill if kill is not None and kill[1] in steps else None
        began_s = time.monotonic()
        in_step, tries = False, 0
        while True:
            tries += 1
            command = FailoverCommand([kind, "A->B", "--yes", "--quiet-for", str(_QUIET_S), "--name", self._name])
            with command.running():
                if tries == 1 and kill is not None:
                    in_step = self._kill(command, kill[0], steps.index(kill[1]), self.step_s.get(kill[1], _STEP_S))
                exit_code = command.wait()
            if exit_code == 0 or (exit_code == _EXIT_USAGE and _FINISHED_ALREADY in command.text):
                break
            if tries == _TRIES:
                raise MirrorError(
                    f"{kind} is not done by {tries} commands, the messages of the last one are: {command.text}"
                )
            time.sleep(_RETRY_AFTER_S)
        if kill is None:
            self.step_s |= command.step_s
            return
        victim, step = kill
        took_s = time.monotonic() - began_s
        self.kills.append(Kill(kind=kind, victim=victim, step=step, in_step=in_step, tries=tries, seconds=took_s))
        self._say(f"{kind:8}  {victim:11} killed in {step:9} done by command {tries} after {took_s:.1f} s")

    def _kill(self, command: FailoverCommand, victim: KillVictim, steps_before: int, step_s: float) -> bool:
        """Kill the victim while the step behind so many others is carried out; returns whether it still was."""
        # Asked before: a step may end before the answer comes.
        coordinator = self._coordinator()
        command.wait_for(steps_before)
        time.sleep(self._dice.uniform(0, step_s))
        in_step = command.is_running and command.reported == steps_before
        if victim == "command":
            command.kill()
        elif victim == "coordinator":
            with suppress(psutil.NoSuchProcess):
                coordinator.kill()
        else:
            cluster = self._clusters[victim.removeprefix("broker ")]
            cluster.brokers[0].kill()
            time.sleep(_DOWN_S)
            cluster.start()
        return in_step

    def _coordinator(self) -> psutil.Process:
        """The coordinator's process, once it answers: it may have been killed a moment ago."""
        found: list[psutil.Process] = []

        def answers() -> bool:
            with suppress(MirrorError, psutil.NoSuchProcess):
                found.append(psutil.Process(self._system.status().coordinator_pid))
            return bool(found)

        wait_until(answers, _WITHIN_S, "the coordinator answers", every_s=_STEP_S)
        return found[0]

    def _copies(self) -> bool:
        """Whether every partition is copied; a coordinator that restarts answers after a moment."""
        with suppress(MirrorError):
            found = [status.state for status in self._system.partitions("A->B") if status.topic == _TOPIC]
            return found == ["copying"] * _PARTITIONS
        return False


def _differences(a: DevCluster, b: DevCluster) -> list[str]:
    """The partitions whose records are not the same on both sides, once B has had the time to get A's."""

    def values(cluster: DevCluster, number: int) -> list[bytes | None]:
        return [placed.record.value for placed in read_placed(cluster, _TOPIC, number)]

    def differing() -> list[int]:
        return [number for number in range(_PARTITIONS) if values(a, number) != values(b, number)]

    with suppress(MirrorError):
        wait_until(lambda: not differing(), _WITHIN_S, "both sides hold the same", every_s=_STEP_S)
    return [f"{_TOPIC}-{number} has other records on A than on B" for number in differing()]


def _write(cluster: DevCluster, values: list[bytes]) -> None:
    producer = Producer(client_config(cluster, {"enable.idempotence": True}))
    for number, value in enumerate(values):
        producer.produce(_TOPIC, value, partition=number % _PARTITIONS)
    if producer.flush(_WITHIN_S):
        raise MirrorError("not every record of a round could be written")


def _process(cluster: DevCluster, group: str, topic: str, most: int | None) -> list[bytes]:
    """Read from the group's committed offsets, ``most`` records or all, and commit; returns their values."""
    settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "error"}
    consumer = Consumer(client_config(cluster, {**settings, "enable.partition.eof": True}))
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_STORED) for number in range(_PARTITIONS)])
        ended: set[int] = set()
        deadline_s = time.monotonic() + _WITHIN_S
        while len(ended) < _PARTITIONS and (most is None or len(values) < most):
            message = consumer.poll(1.0)
            if time.monotonic() > deadline_s:
                raise MirrorError(f"{group} can't read {topic} to its end")
            if message is None:
                continue
            if message.error() is not None:
                ended.add(message.partition() or 0)
                continue
            values.append(message.value() or b"")
        if values:
            positions = consumer.position(consumer.assignment())
            known = [position for position in positions if position.offset != OFFSET_INVALID]
            consumer.commit(offsets=known, asynchronous=False)
    finally:
        consumer.close()
    return values


def _commit(cluster: DevCluster, group: str, offsets: Mapping[int, int]) -> None:
    consumer = Consumer(client_config(cluster, {"group.id": group}))
    partitions = [TopicPartition(_TOPIC, number, offset) for number, offset in offsets.items()]
    deadline_s = time.monotonic() + _WITHIN_S
    try:
        while True:
            try:
                consumer.commit(offsets=partitions, asynchronous=False)
            except KafkaException:
                # The first commit has the brokers create the offsets topic.
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_STEP_S)
            else:
                return
    finally:
        consumer.close()
