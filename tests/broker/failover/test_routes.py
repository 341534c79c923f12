"""Groups of a topic whose records are routed fail over and come back between real brokers."""

from __future__ import annotations

import uuid

import pytest

from mirror_ray.config.settings import MirrorSettings, TopicSettings, TransformSettings
from mirror_ray.failover.bulk_translation import BulkOrder
from mirror_ray.failover.plan import FailoverOptions, FailoverStep
from mirror_ray.groups.bulk import LocalMaps
from mirror_ray.model.names import FlowName
from mirror_ray.topics.planning import make_plan
from mirror_ray.topics.reconciliation import find
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import verify_with_routes
from tests.support.clusters import Clusters
from tests.support.failover import often, order
from tests.support.groups import commit, committed, process
from tests.support.kafka import Message, create_topic, produce
from tests.support.local import LocalSystem, aside
from tests.support.systems import settings_of
from tests.support.transforms import by_first, steps
from tests.support.unrecorded import carry_out, translate_in_bulk

pytestmark = pytest.mark.timeout(300)

RECORDS = 240
AT = (40, 17)


class Scene:
    """A topic of two partitions, of whose records a third goes to one topic and a sixth to another; with a group."""

    def __init__(self, clusters: Clusters) -> None:
        unique = uuid.uuid4().hex[:8]
        self.flow = FlowName(f"A{unique}", f"B{unique}")
        self.topic, self.eu, self.us, self.group = (f"{unique}-{name}" for name in ("orders", "eu", "us", "g"))
        self.remotes = (f"{self.flow.source}.{self.topic}", self.eu, self.us)
        self.a, self.b = clusters.a, clusters.b
        create_topic(self.a.confluent_config(), self.topic, 2)
        self.values = [b"%s %d" % ((b"x", b"e", b"x", b"u", b"e", b"x")[n // 2 % 6], n) for n in range(RECORDS)]
        messages = [Message(value, partition=n % 2) for n, value in enumerate(self.values)]
        produce(self.a.confluent_config(), self.topic, messages)
        commit(self.a, self.group, {(self.topic, number): offset for number, offset in enumerate(AT)})
        self.unread = [v for number, offset in enumerate(AT) for v in self.values[number::2][offset:]]

    def settings(self) -> MirrorSettings:
        """The flow, of this topic and group alone."""
        transforms = steps(by_first(e=self.eu, u=self.us), topics=[self.topic])
        topics = TopicSettings(include=(self.topic,), refresh_interval_s=1.0)
        return settings_of(
            {self.flow.source: self.a, self.flow.target: self.b},
            str(self.flow),
            topics=topics,
            groups=often(self.group),
            transforms=TransformSettings.model_validate(transforms),
        )

    def places(self) -> dict[str, tuple[int, ...]]:
        """Where the group goes on in each topic: behind what it has read of it."""
        found: dict[str, tuple[int, ...]] = {}
        for remote, letter in zip(self.remotes, (b"x", b"e", b"u"), strict=True):
            read = [self.values[number::2][:offset] for number, offset in enumerate(AT)]
            found[remote] = tuple(sum(value.startswith(letter) for value in values) for values in read)
        return found

    def committed(self) -> dict[str, tuple[int, ...]]:
        """Where it stands on the target."""
        return {remote: tuple(committed(self.b, self.group, remote, 2).values()) for remote in self.remotes}


async def carried(system: LocalSystem, scene: Scene) -> None:
    """Both partitions are copied and routed, and the group's places committed."""

    async def done() -> bool:
        lines = [line for line in await system.coordinator.partitions() if line.state == "copying"]
        copied = len(lines) == 6 and all(line.lag_records == 0 for line in lines)
        return copied and await aside(scene.committed) == scene.places()

    await system.wait(done, "everything is copied, and the group carried over")


async def test_there_and_back(clusters: Clusters) -> None:
    """Each is done once on the target; none that was not done in one of the topics is passed on the way back."""
    scene = await aside(lambda: Scene(clusters))
    config = scene.settings()
    async with LocalSystem(config, groups=True) as system:
        await carried(system, scene)
        rows = await translate_in_bulk(config, BulkOrder(flow=scene.flow), LocalMaps)
        found = {tuple(row.translated.destination or ()): row.translated.translation for row in rows}
        assert {key: (translation.offset, translation.exact) for key, translation in found.items()} == {
            (remote, number): (offset, True)
            for remote, offsets in scene.places().items()
            for number, offset in enumerate(offsets)
        }
        report = await carry_out(config, order(scene.flow), system.coordinator)
        assert report.plan.finished, report.plan.results
        assert report.plan.results[FailoverStep.VERIFY].figures["different"] == []
        assert await aside(scene.committed) == scene.places()
        verdict = await verify_with_routes(config, scene.flow, VerifyRequest())
        # The failover has paused them; nothing else keeps them from being equal.
        assert [partition.outcome for partition in verdict.partitions] == ["paused"] * 6
        assert [partition.checked.differences or partition.checked.reason for partition in verdict.partitions] == [
            None
        ] * 6
        assert sum(partition.checked.records for partition in verdict.partitions) == RECORDS
        # It reads its own topic to the end, of the second a part, and of the third nothing.
        there = await aside(lambda: process(scene.b, scene.group, scene.remotes[0]))
        there += await aside(lambda: process(scene.b, scene.group, scene.eu, 12))
        back = await carry_out(config, order(scene.flow, "failback"), system.coordinator)
        assert back.plan.finished, back.plan.results
    again = await aside(lambda: process(scene.a, scene.group, scene.topic))
    assert set(there + again) == set(scene.unread)
    assert {value for value in scene.unread if value.startswith(b"u")} <= set(again)


async def test_the_source_is_gone(clusters: Clusters) -> None:
    """By checkpoints alone the group goes on in each topic where it was seen last."""
    scene = await aside(lambda: Scene(clusters))
    config = scene.settings()
    plan = await aside(lambda: make_plan(config))
    assert [flow.refused for flow in plan.flows] == [()] * 3
    assert {topic.remote_topic for flow in plan.flows for topic in flow.topics} == set(scene.remotes)
    async with LocalSystem(config, groups=True) as system:
        await carried(system, scene)
        for flow in config.flows:
            assert (await find(config, flow, (), {}, every=True)).findings == ()
        statuses = await system.coordinator.groups(str(scene.flow))
        assert {status.flow for status in statuses} == {str(flow.name) for flow in config.flows}
    report = await carry_out(config, order(scene.flow, options=FailoverOptions(source_is_gone=True)), None)
    assert report.plan.finished, report.plan.results
    assert {place.origin.topic for place in report.offsets[scene.group]} == {scene.topic}
    there = [v for remote in scene.remotes for v in await aside(lambda r=remote: process(scene.b, scene.group, r))]  # type: ignore[misc]
    assert sorted(there) == sorted(scene.unread)
