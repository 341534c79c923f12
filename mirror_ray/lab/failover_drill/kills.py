"""Failover and failback whose command, coordinator or brokers are killed (SIGKILL) in each step, by real processes.

Round by round: records are written on A, groups process some of them there, fail over, process some on B, fail back and
process the rest on A. In each round one victim is killed in one step of both plans, and the same command is given until
it is done. Then every group must have processed every record of the round once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirror_ray.config.load import load_settings
from mirror_ray.failover.plan import STEPS, FailoverStep, Kind
from mirror_ray.lab.chaos import topology
from mirror_ray.lab.chaos.clients import client_config
from mirror_ray.lab.chaos.run import Say, StartSystem
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import mm2_properties
from mirror_ray.lab.failover_drill.command import FailoverCommand
from mirror_ray.lab.failover_drill.kills_outcome import Kill, KillSettings, KillsOutcome, KillVictim, differences
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError

_TOPIC: Final = "orders"
_PARTITIONS: Final = 3
_RECORDS: Final = 90
_QUIET_S: Final = 0.5
_WITHIN_S: Final = 180.0
_TRIES: Final = 20
_AGAIN_AFTER_S: Final = 1.0
#: How long a broker is away.
_AWAY_S: Final = 1.0
#: Until steps have been timed.
_STEP_S: Final = 0.3
_EXIT_USAGE: Final = 2
_OVER: Final = "has failed back already"


def rehearse_kills(
    settings: KillSettings, directory: Path, name: str, start_system: StartSystem, say: Say
) -> KillsOutcome:
    """Go through all rounds; ``name`` is the system's, by which the commands find it.

    Raises:
        MirrorError: Something that the rehearsal itself needs did not start or did not work.
    """
    began_s = time.monotonic()
    say(f"starting clusters A and B in {directory}")
    with topology.clusters(directory, 600.0) as clusters:
        admin = AdminClient(client_config(clusters["A"], {}))
        for future in admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)]).values():
            future.result(60.0)
        config = directory / "mm2.properties"
        config.write_text(mm2_properties(list(clusters.values())) + "B->A.enabled = false\n")
        say("starting Ray and the flow A->B")
        with start_system(load_settings(config).settings, 1) as system:
            rounds = _Rounds(settings, clusters, system, name, say)
            rounds.go_through()
    return KillsOutcome(
        settings=settings,
        kills=rounds.kills,
        wrong=rounds.wrong,
        records=rounds.written,
        duration_s=time.monotonic() - began_s,
        step_s=rounds.step_s,
    )


class _Rounds:
    def __init__(
        self, settings: KillSettings, clusters: Mapping[str, DevCluster], system: Mirror, name: str, say: Say
    ) -> None:
        self.kills: list[Kill] = []
        self.wrong: list[str] = []
        self.written = 0
        self.step_s: dict[FailoverStep, float] = {}
        self._settings, self._clusters, self._system, self._name, self._say = settings, clusters, system, name, say
        self._dice = random.Random(settings.seed)  # noqa: S311 - a seed repeats a run
        self._groups = [f"group-{number}" for number in range(1, settings.groups + 1)]

    def go_through(self) -> None:
        """First a round without a kill; the first one that leaves something wrong is the last."""
        start = dict.fromkeys(range(_PARTITIONS), 0)
        for group in self._groups:
            _commit(self._clusters["A"], group, start)
        self._round(None)
        for victim, step in product(self._settings.victims, self._settings.steps):
            if not self.wrong:
                self._round((victim, step))

    def _round(self, kill: tuple[KillVictim, FailoverStep] | None) -> None:
        a, b = self._clusters["A"], self._clusters["B"]
        _wait(self._copies, "A->B copies")
        values = [b"%d" % number for number in range(self.written, self.written + _RECORDS)]
        _write(a, values)
        self.written += len(values)
        share = _RECORDS // 3
        done = {group: _process(a, group, _TOPIC, self._dice.randint(0, share)) for group in self._groups}
        self._plan("failover", kill)
        for group, processed in done.items():
            processed.extend(_process(b, group, f"A.{_TOPIC}", self._dice.randint(0, share)))
        self._plan("failback", kill)
        for group, processed in done.items():
            processed.extend(_process(a, group, _TOPIC, None))
            self.wrong += differences(group, values, processed)

    def _plan(self, kind: Kind, kill: tuple[KillVictim, FailoverStep] | None) -> None:
        """Give the command until it is done."""
        began_s = time.monotonic()
        in_step, tries = False, 0
        while True:
            tries += 1
            command = FailoverCommand([kind, "A->B", "--yes", "--quiet-for", str(_QUIET_S), "--name", self._name])
            with command.running():
                if tries == 1 and kill is not None:
                    in_step = self._kill(command, *kill)
                exit_code = command.wait()
            if exit_code == 0 or (exit_code == _EXIT_USAGE and _OVER in command.text):
                break
            if tries == _TRIES:
                raise MirrorError(f"{kind} is not done by {tries} commands, the last of which said: {command.text}")
            time.sleep(_AGAIN_AFTER_S)
        if kill is None:
            self.step_s |= command.step_s
            return
        victim, step = kill
        took_s = time.monotonic() - began_s
        self.kills.append(Kill(kind=kind, victim=victim, step=step, in_step=in_step, tries=tries, seconds=took_s))
        self._say(f"{kind:8}  {victim:11} killed in {step:9} done by command {tries} after {took_s:.1f} s")

    def _kill(self, command: FailoverCommand, victim: KillVictim, step: FailoverStep) -> bool:
        """Kill it when the step is at work; whether it still was."""
        # Asked before: a step may be over while it is answered.
        coordinator = self._coordinator()
        command.wait_for(STEPS.index(step))
        time.sleep(self._dice.uniform(0, self.step_s.get(step, _STEP_S)))
        in_step = command.is_running and command.told == STEPS.index(step)
        if victim == "command":
            command.kill()
        elif victim == "coordinator":
            with suppress(psutil.NoSuchProcess):
                coordinator.kill()
        else:
            cluster = self._clusters[victim.removeprefix("broker ")]
            cluster.brokers[0].kill()
            time.sleep(_AWAY_S)
            cluster.start()
        return in_step

    def _coordinator(self) -> psutil.Process:
        """Its process, once it answers: it may have been killed a moment ago."""
        found: list[psutil.Process] = []

        def answers() -> bool:
            with suppress(MirrorError, psutil.NoSuchProcess):
                found.append(psutil.Process(self._system.status().coordinator_pid))
            return bool(found)

        _wait(answers, "the coordinator answers")
        return found[0]

    def _copies(self) -> bool:
        """A coordinator that starts again answers after a moment."""
        with suppress(MirrorError):
            found = [each for each in self._system.partitions() if each.topic == _TOPIC]
            return len(found) == _PARTITIONS and all(each.state == "copying" for each in found)
        return False


def _write(cluster: DevCluster, values: list[bytes]) -> None:
    producer = Producer(client_config(cluster, {"enable.idempotence": True}))
    for number, value in enumerate(values):
        producer.produce(_TOPIC, value, partition=number % _PARTITIONS)
    if producer.flush(_WITHIN_S):
        raise MirrorError("not every record of a round could be written")


def _process(cluster: DevCluster, group: str, topic: str, most: int | None) -> list[bytes]:
    """What a group processes from where it stands: so much, or all; what it has processed is committed."""
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
        places = [each for each in consumer.position(consumer.assignment()) if each.offset != OFFSET_INVALID]
        if values:
            consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()
    return values


def _commit(cluster: DevCluster, group: str, offsets: Mapping[int, int]) -> None:
    consumer = Consumer(client_config(cluster, {"group.id": group}))
    places = [TopicPartition(_TOPIC, number, offset) for number, offset in offsets.items()]
    deadline_s = time.monotonic() + _WITHIN_S
    try:
        while True:
            try:
                consumer.commit(offsets=places, asynchronous=False)
            except KafkaException:
                # The first one to commit has the brokers' offsets topic made.
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_STEP_S)
            else:
                return
    finally:
        consumer.close()


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + _WITHIN_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise MirrorError(f"waited {_WITHIN_S:g} s, and it is not so: {what}")
        time.sleep(_STEP_S)
