"""A plan is given up where it stands, and another one begun: what the first one has paused is copied on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.failover.plan import FailoverPlan, FailoverStep, StepResult
from mirror_ray.failover.run import read_history
from mirror_ray.observe.status import PartitionStatus
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import numbered, order, scene
from tests.support.groups import process
from tests.support.kafka import produce
from tests.support.local import LocalSystem, aside
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)


class WrittenOnce:
    """A system of which something is written on the source once its flow has been paused: the first time, or never."""

    def __init__(self, system: LocalSystem, write: Callable[[], None] | None) -> None:
        self._coordinator, self._write, self._paused = system.coordinator, write, False

    async def partitions(self, flow: str) -> Sequence[PartitionStatus]:
        found = await self._coordinator.partitions(flow)
        if self._write is not None and self._paused and not any(partition.replicator for partition in found):
            write, self._write = self._write, None
            await aside(write)
        return found

    async def pause(self, flow: str, topic: str | None = None) -> None:
        await self._coordinator.pause(flow, topic)
        self._paused = True

    async def resume(self, flow: str, topic: str | None = None) -> None:
        await self._coordinator.resume(flow, topic)

    async def configuration(self) -> MirrorSettings:
        return await self._coordinator.configuration()

    async def apply(self, settings: MirrorSettings) -> None:
        await self._coordinator.apply(settings)


@pytest.mark.parametrize("at", [FailoverStep.STOP, FailoverStep.VERIFY])
async def test_a_plan_that_was_sent_back_is_begun_anew(
    clusters: Clusters, make_topic: TopicMaker, at: FailoverStep
) -> None:
    """Before `stop` was ever over, and after it: the new plan lifts the pause, catches up, and is done."""
    async with scene(clusters, make_topic) as (system, names):

        def write() -> None:
            produce(clusters.a.confluent_config(), names.topic, numbered(20, 1000))

        def write_at(_: FailoverPlan, result: StepResult) -> None:
            if result.step == at and not result.repeats:
                write()

        running = WrittenOnce(system, write if at == FailoverStep.STOP else None)
        report = await carry_out(system.settings, order(names.flow), running, write_at)
        assert report.plan.next_step == FailoverStep.PRODUCERS, report.plan.results
        assert FailoverStep.STOP not in report.plan.results
        report = await carry_out(system.settings, order(names.flow, restart=True), system.coordinator)
        assert report.plan.finished, report.plan.results
        old, new = (await read_history(system.settings, names.flow)).plans()
        assert (old.abandoned, new.id, new.repeats) == (True, report.plan.id, 0)
        assert {partition.state for partition in await system.coordinator.partitions(str(names.flow))} == {"paused"}
        assert len(await aside(lambda: process(clusters.b, names.group, names.remote))) == 160
