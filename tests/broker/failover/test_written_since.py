"""Whoever writes on the side that is left, and whenever: `done` means that nothing acknowledged stays there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from mirror_ray.failover import copy_progress
from mirror_ray.failover.plan import STEPS, FailoverOptions, FailoverPlan, FailoverStep, Kind, StepResult
from mirror_ray.failover.run import FailoverReport, read_history
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.names import FlowName
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import Names, caught_up, member, new_names, numbered, order, scene, settings
from tests.support.groups import commit, process
from tests.support.kafka import create_topic, produce, produce_transactions
from tests.support.local import LocalSystem, aside
from tests.support.reading import read_all
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)

#: Where the next step finds what was written before it; behind the last one nobody looks any more.
BEFORE_THE_END = STEPS[:-1]


class SlowProducer:
    """Writes a record a partition, again and again, by a thread of its own; knows what was acknowledged, and when."""

    def __init__(self, cluster: DevCluster, topic: str, every_s: float) -> None:
        #: Value, and ``time.time()`` in ms.
        self.acknowledged: list[tuple[bytes, float]] = []
        self._producer, self._topic, self._every_s = Producer(cluster.confluent_config()), topic, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin: returns once the first records are acknowledged."""
        self._write(0)
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        number = 1
        while not self._stop.wait(self._every_s):
            self._write(number)
            number += 1

    def _write(self, number: int) -> None:
        values = [b"late %d %d" % (number, partition) for partition in range(2)]
        for partition, value in enumerate(values):
            self._producer.produce(self._topic, value, partition=partition)
        assert self._producer.flush(30) == 0
        self.acknowledged += [(value, time.time() * 1000) for value in values]


@contextmanager
def slow_producer(cluster: DevCluster, topic: str, every_s: float = 0.7) -> Iterator[SlowProducer]:
    """One that is stopped at the end, and not started yet."""
    producer = SlowProducer(cluster, topic, every_s)
    try:
        yield producer
    finally:
        producer.stop()


async def held(cluster: DevCluster, topic: str) -> set[bytes]:
    """The values of all records of a topic of two partitions."""
    found = await aside(lambda: read_all(cluster.confluent_config(), topic))
    return {record.value or b"" for records in found.values() for record in records}


def left_behind(producer: SlowProducer, report: FailoverReport, copied: set[bytes]) -> list[bytes]:
    """What was acknowledged before the last step began, and is not on the other side, though the plan is finished."""
    if not report.plan.finished:
        return []
    last_ms = report.plan.results[FailoverStep.REDIRECT].began_ms
    return [value for value, at_ms in producer.acknowledged if at_ms < last_ms and value not in copied]


async def until_done(system: LocalSystem, names: Names, kind: Kind = "failover") -> FailoverReport:
    """Give the same command until it is done: twice, where the first one finds out."""
    for _ in range(3):
        report = await carry_out(system.settings, order(names.flow, kind), system.coordinator)
        if report.plan.finished:
            return report
    raise AssertionError(report.plan.results)


async def test_a_slow_producer(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Slower than the look for quiet: it is noticed once the flow is paused, named, and the same command goes on."""
    async with scene(clusters, make_topic) as (system, names):
        with slow_producer(clusters.a, names.topic) as producer:
            producer.start()
            for _ in range(2):
                report = await carry_out(system.settings, order(names.flow), system.coordinator)
                assert left_behind(producer, report, await held(clusters.b, names.remote)) == []
            producer.stop()
        # What a plan that was finished did not see any more is seen by the next one.
        await until_done(system, names)
        assert {value for value, _ in producer.acknowledged} <= await held(clusters.b, names.remote)
        rest = await aside(lambda: process(clusters.b, names.group, names.remote))
        assert len(rest) == len(set(rest)) == 140 + len(producer.acknowledged)


async def test_a_producer_starts_between_any_two_steps(
    clusters: Clusters, make_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that says done has it all; one that does not says who wrote, and is done once the producer has stopped."""
    # A flow that is paused has told all already.
    monkeypatch.setattr(copy_progress, "PUBLISHED_WITHIN_S", 0.4)
    async with scene(clusters, make_topic) as (system, names):
        written = 0
        for step in BEFORE_THE_END:
            with slow_producer(clusters.a, names.topic) as producer:

                def begin(
                    _: FailoverPlan, result: StepResult, at: FailoverStep = step, producer: SlowProducer = producer
                ) -> None:
                    if result.step == at and not producer.acknowledged:
                        producer.start()

                report = await carry_out(system.settings, order(names.flow), system.coordinator, begin)
                assert left_behind(producer, report, await held(clusters.b, names.remote)) == [], step
                if STEPS.index(step) >= STEPS.index(FailoverStep.STOP):
                    said = report.plan.results[FailoverStep.PRODUCERS]
                    assert (report.plan.finished, said.outcome) == (False, "blocked"), step
                    assert "written on" in said.summary
                    assert names.topic in said.summary
                    assert said.figures["written"][names.topic] >= 2
                producer.stop()
            if not report.plan.finished:
                await until_done(system, names)
                assert {value for value, _ in producer.acknowledged} <= await held(clusters.b, names.remote), step
            written += len(producer.acknowledged)
            await system.coordinator.resume(str(names.flow))
            await caught_up(system, 2)
        rest = await aside(lambda: process(clusters.b, names.group, names.remote))
        assert len(rest) == 140 + written


async def test_a_producer_starts_between_any_two_steps_of_the_way_back(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """The same for what was written on the target meanwhile, which the flow back copies."""
    a, b = clusters
    names = new_names(make_topic(a, 2))
    back = FlowName(names.flow.target, names.flow.source)
    there = f"{back.source}.{names.topic}"
    await aside(lambda: create_topic(b.confluent_config(), names.topic, 2))
    await aside(lambda: produce(a.confluent_config(), names.topic, numbered(60)))
    await aside(lambda: produce(b.confluent_config(), names.topic, numbered(60)))
    await aside(lambda: commit(a, names.group, {(names.topic, 0): 10}))
    async with LocalSystem(settings(clusters, names, back), groups=True) as system:
        await caught_up(system, 4)
        for step in BEFORE_THE_END:
            await until_done(system, names)
            with slow_producer(b, names.topic) as producer:

                def begin(
                    _: FailoverPlan, result: StepResult, at: FailoverStep = step, producer: SlowProducer = producer
                ) -> None:
                    if result.step == at and not producer.acknowledged:
                        producer.start()

                report = await carry_out(system.settings, order(names.flow, "failback"), system.coordinator, begin)
                assert left_behind(producer, report, await held(a, there)) == [], step
                producer.stop()
            if not report.plan.finished:
                await until_done(system, names, "failback")
            assert {value for value, _ in producer.acknowledged} <= await held(a, there), step
            await caught_up(system, 4)


async def test_written_while_a_group_is_waited_for(clusters: Clusters, make_topic: TopicMaker) -> None:
    """500 records while a group at work holds up `offsets`; it ends, and the same command copies them and is done."""
    async with scene(clusters, make_topic) as (system, names):
        async with member(clusters.a, names.group, names.topic):
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.next_step == FailoverStep.OFFSETS
            await aside(lambda: produce(clusters.a.confluent_config(), names.topic, numbered(500, 1000)))
        told: list[StepResult] = []
        report = await carry_out(
            system.settings, order(names.flow), system.coordinator, lambda _, result: told.append(result)
        )
        assert report.plan.finished, report.plan.results
        assert (told[0].step, told[0].outcome) == (FailoverStep.PRODUCERS, "blocked")
        assert told[0].figures["written"] == {names.topic: 500}
        assert [result.step for result in told[1:]] == list(STEPS[STEPS.index(FailoverStep.PRODUCERS) :])
        assert len(await held(clusters.b, names.remote)) == 700
        assert len(await aside(lambda: process(clusters.b, names.group, names.remote))) == 640
        (plan,) = (await read_history(system.settings, names.flow)).plans()
        assert plan.finished
        assert {partition.state for partition in await system.coordinator.partitions(str(names.flow))} == {"paused"}


async def test_a_flow_that_was_resumed_meanwhile(clusters: Clusters, make_topic: TopicMaker) -> None:
    """By hand, while a group was waited for: it is paused again before the plan goes on."""
    async with scene(clusters, make_topic) as (system, names):
        async with member(clusters.a, names.group, names.topic):
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.next_step == FailoverStep.OFFSETS
        await system.coordinator.resume(str(names.flow))
        await caught_up(system, 2)
        report = await carry_out(system.settings, order(names.flow), system.coordinator)
        assert report.plan.finished, report.plan.results
        assert [(result.step, result.repeats) for result in report.plan.results.values()] == [
            (step, int(STEPS.index(step) >= STEPS.index(FailoverStep.STOP))) for step in STEPS
        ]
        assert {partition.state for partition in await system.coordinator.partitions(str(names.flow))} == {"paused"}


async def test_written_after_the_last_look(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Nobody looks any more then; a dry run tells of it, and another failover copies it, groups at work left alone."""
    async with scene(clusters, make_topic) as (system, names):
        await until_done(system, names)
        await aside(lambda: produce(clusters.a.confluent_config(), names.topic, numbered(20, 1000)))
        dry = await carry_out(system.settings, order(names.flow, dry=True), system.coordinator)
        assert dry.plan.results[FailoverStep.CHECK].figures["topics"] == {names.topic: 20}
        assert dry.plan.results[FailoverStep.CATCH_UP].outcome == "blocked"
        async with member(clusters.b, names.group, names.remote):
            again = order(names.flow, options=FailoverOptions(skip_active=True))
            report = await carry_out(system.settings, again, system.coordinator)
            assert report.plan.finished, report.plan.results
        assert len(await held(clusters.b, names.remote)) == 220
        assert {partition.state for partition in await system.coordinator.partitions(str(names.flow))} == {"paused"}
        rest = await aside(lambda: process(clusters.b, names.group, names.remote))
        assert len(rest) == 160


async def test_a_transaction_that_is_open_behind_the_pause(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Its records count once it is committed: until it has ended, nobody can say that all is there."""
    async with scene(clusters, make_topic) as (system, names):
        producer = Producer({**clusters.a.confluent_config(), "transactional.id": names.group})

        def begin(_: FailoverPlan, result: StepResult) -> None:
            if result.step == FailoverStep.STOP and result.outcome == "done":
                producer.init_transactions(60)
                producer.begin_transaction()
                producer.produce(names.topic, b"late", partition=0)
                producer.flush(60)

        report = await carry_out(system.settings, order(names.flow), system.coordinator, begin)
        assert not report.plan.finished
        assert report.plan.results[FailoverStep.PRODUCERS].figures["open_transactions"] == {names.topic: 1}
        await aside(lambda: producer.commit_transaction(60))
        await until_done(system, names)
        assert b"late" in await held(clusters.b, names.remote)


async def test_a_group_goes_on_on_the_side_that_it_has_left(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Between two tries, or before the end: it goes on where it is now, and does nothing twice."""
    async with scene(clusters, make_topic) as (system, names):
        other = f"{names.group}-other"
        await aside(lambda: commit(clusters.a, other, {(names.topic, 0): 10}))
        async with member(clusters.b, other, names.remote):
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.next_step == FailoverStep.COMMIT
        done = await aside(lambda: process(clusters.a, names.group, names.topic, 50))
        report = await carry_out(system.settings, order(names.flow), system.coordinator)
        assert report.plan.finished
        rest = await aside(lambda: process(clusters.b, names.group, names.remote))
        assert len(done + rest) == len(set(done + rest)) == 140

        await system.coordinator.resume(str(names.flow))

        def work(_: FailoverPlan, result: StepResult) -> None:
            if result.step == FailoverStep.COMMIT and result.outcome == "done":
                commit(clusters.a, names.group, {(names.topic, 0): 90, (names.topic, 1): 95})

        force = order(names.flow, options=FailoverOptions(force=True))
        report = await carry_out(system.settings, force, system.coordinator, work)
        assert report.plan.next_step == FailoverStep.OFFSETS, report.plan.results
        assert names.group in report.plan.results[FailoverStep.OFFSETS].summary
        report = await until_done(system, names)
        assert [place.offset for place in report.offsets[names.group]] == [90, 95]


async def test_transactions_behind_the_last_step(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Markers and aborted records count as written; once they are passed, what was committed is there, and no more."""
    async with scene(clusters, make_topic) as (system, names):

        def write(_: FailoverPlan, result: StepResult) -> None:
            if result.step == FailoverStep.VERIFY and result.outcome == "done":
                batches = [(numbered(4, 900), True), (numbered(4, 950), False)]
                produce_transactions(clusters.a.confluent_config(), names.topic, batches, transactional_id=names.topic)

        report = await carry_out(system.settings, order(names.flow), system.coordinator, write)
        assert not report.plan.finished
        report = await until_done(system, names)
        assert len(await held(clusters.b, names.remote)) == 204
