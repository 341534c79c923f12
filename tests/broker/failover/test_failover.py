"""Failover and failback between real brokers: every record once, plans that break off in every step, a source gone."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mirror_ray.failover.audit_topic import FailoverAudit
from mirror_ray.failover.plan import STEPS, FailoverOptions, FailoverPlan, FailoverStep, StepResult
from mirror_ray.failover.run import read_history
from mirror_ray.failover.steps import StepTiming
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError, MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.offsets.flow_maps import RemotePartition
from mirror_ray.offsets.translation import Translation
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import Names, caught_up, member, new_names, numbered, order, outcomes, scene, settings
from tests.support.groups import commit, committed, process
from tests.support.kafka import create_topic, produce, produce_transactions
from tests.support.local import LocalSystem, aside
from tests.support.reading import end_offsets
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)


async def test_every_record_once_over_both_sides_and_back(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A hundred groups stop anywhere, move, go on, and come back; the flow resumes and copies nothing twice."""
    a, b = clusters
    names = new_names(make_topic(a, 2))
    topic, prefix = names.topic, names.group
    half = [(numbered(20, 20 * n), n % 4 > 0) for n in range(20)]
    await aside(lambda: produce(a.confluent_config(), topic, numbered(200, 1000)))
    await aside(lambda: produce_transactions(a.confluent_config(), topic, half, transactional_id=topic))
    groups = [f"{prefix}-{number}" for number in range(100)]
    for number, group in enumerate(groups):
        start = {(topic, 0): 3 * number, (topic, 1): 2 * number}
        await aside(lambda group=group, start=start: commit(a, group, start))  # type: ignore[misc]
    wanted = {group: sorted(await aside(lambda group=group: rest(a, group, topic))) for group in groups[::20]}  # type: ignore[misc]
    config = settings(clusters, names)
    async with LocalSystem(config, groups=True) as system:
        report = await carry_out(config, order(names.flow), system.coordinator)
        assert report.plan.finished
        assert outcomes(report) == ["done"] * 9
        verified = report.plan.results[FailoverStep.VERIFY].figures
        assert (verified["different"], verified["not_comparable"]) == ([], 0)
        first = {g: await aside(lambda g=g: process(b, g, names.remote, 50)) for g in wanted}  # type: ignore[misc]
        back = await carry_out(config, order(names.flow, "failback"), system.coordinator)
        assert back.plan.finished, back.plan.results
        for group, values in wanted.items():
            last = await aside(lambda group=group: process(a, group, topic))  # type: ignore[misc]
            assert sorted(first[group] + last) == values
        await aside(lambda: produce(a.confluent_config(), topic, numbered(10, 5000)))

        async def copied() -> bool:
            ends = await aside(lambda: end_offsets(b.confluent_config(), names.remote))
            return sum(ends.values()) >= 200 + 15 * 20 + 10

        await system.wait(copied, "what came last is copied")
        await caught_up(system, 2)
        ends = await aside(lambda: end_offsets(b.confluent_config(), names.remote))
        assert sum(ends.values()) == 200 + 15 * 20 + 10
        await follows_again(system, clusters, names, groups[0])


def rest(cluster: DevCluster, group: str, topic: str) -> list[bytes]:
    """What a group has not processed, without committing."""
    stands = committed(cluster, group, topic, 2)
    values = process(cluster, group, topic)
    commit(cluster, group, {(topic, number): offset for number, offset in stands.items()})
    return values


async def follows_again(system: LocalSystem, clusters: Clusters, names: Names, group: str) -> None:
    """The group sync moves a group on the target that has come back, though it was committed there by itself."""
    await aside(lambda: process(clusters.a, group, names.topic))
    ends = await aside(lambda: end_offsets(clusters.b.confluent_config(), names.remote))

    async def there() -> bool:
        return await aside(lambda: committed(clusters.b, group, names.remote, 2)) == ends

    await system.wait(there, "the group sync has followed")


async def test_what_was_written_on_the_target_comes_back_by_the_flow_back(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """A group that went on in both topics on the target goes on in both on the source; what it left, and no more."""
    a, b = clusters
    names = new_names(make_topic(a, 2))
    group, topic = names.group, names.topic
    back = FlowName(names.flow.target, names.flow.source)
    await aside(lambda: create_topic(b.confluent_config(), topic, 2))
    await aside(lambda: produce(a.confluent_config(), topic, numbered(100)))
    await aside(lambda: commit(a, group, {(topic, 0): 30, (topic, 1): 30}))
    config = settings(clusters, names, back)
    async with LocalSystem(config, groups=True) as system:
        await caught_up(system, 4)
        report = await carry_out(config, order(names.flow), system.coordinator)
        assert report.plan.finished, report.plan.results
        await aside(lambda: produce(b.confluent_config(), topic, numbered(50, 100)))
        await aside(lambda: commit(b, group, {(topic, 0): 10, (topic, 1): 5, (names.remote, 0): 45}))
        report = await carry_out(config, order(names.flow, "failback"), system.coordinator)
        assert report.plan.finished, report.plan.results
        found = {place.origin: place.offset for place in report.offsets[group]}
        assert found == {(topic, 0): 10, (topic, 1): 5, (names.remote, 0): 45, (names.remote, 1): 30}
        assert report.plan.results[FailoverStep.VERIFY].figures["compared"] == 4
        left = await aside(lambda: process(a, group, f"{back.source}.{topic}"))
        assert len(left) == 50 - 10 - 5
        assert len(await aside(lambda: process(a, group, topic))) == 100 - 45 - 30


async def test_another_record_at_a_place_stops_it_and_a_new_plan_takes_its_turn(
    clusters: Clusters, make_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A translation that was wrong would be seen before anybody starts; a failback waits for the failover's end."""
    async with scene(clusters, make_topic) as (system, names):
        right = RemotePartition.translate_at_once

        def wrong(remote: RemotePartition, offset: int) -> Translation | None:
            return right(remote, offset + 1)

        with monkeypatch.context() as patched:
            patched.setattr(RemotePartition, "translate_at_once", wrong)
            report = await carry_out(
                system.settings, order(names.flow, options=FailoverOptions(force=True)), system.coordinator
            )
        assert report.plan.next_step == FailoverStep.VERIFY
        assert len(report.plan.results[FailoverStep.VERIFY].figures["different"]) == 2
        with pytest.raises(ConfigError, match="is not finished"):
            await carry_out(system.settings, order(names.flow, "failback"), system.coordinator)
        again = order(names.flow, options=FailoverOptions(force=True), restart=True)
        report = await carry_out(system.settings, again, system.coordinator)
        assert [place.offset for place in report.offsets[names.group]] == [30, 30]
        plans = (await read_history(system.settings, names.flow)).plans()
        assert [plan.state for plan in plans] == ["abandoned", "finished"]


class BrokenOffError(Exception):
    """A plan is cut off."""


@pytest.mark.parametrize("when", ["before", "after"])
async def test_it_is_taken_up_after_a_break_in_each_step(
    clusters: Clusters, make_topic: TopicMaker, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Cut off before or after each result is in the audit topic, and taken up by the same order each time."""
    left = list(STEPS)
    write = FailoverAudit.result
    written: list[FailoverStep] = []

    async def cut(audit: FailoverAudit, plan: FailoverPlan, result: StepResult) -> None:
        breaks = bool(left) and left[0] == result.step
        if breaks:
            left.pop(0)
        if breaks and when == "before":
            raise BrokenOffError
        await write(audit, plan, result)
        written.append(result.step)
        if breaks:
            raise BrokenOffError

    async with scene(clusters, make_topic) as (system, names):
        monkeypatch.setattr(FailoverAudit, "result", cut)
        for _ in STEPS:
            with pytest.raises(BrokenOffError):
                await carry_out(system.settings, order(names.flow), system.coordinator)
        if when == "before":
            await carry_out(system.settings, order(names.flow), system.coordinator)
        assert written == list(STEPS)
        (plan,) = (await read_history(system.settings, names.flow)).plans()
        assert plan.finished
        assert len(await aside(lambda: process(clusters.b, names.group, names.remote))) == 140


async def test_a_dry_run_changes_nothing(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Neither a plan nor a pause nor an offset is left behind, and all figures are there."""
    async with scene(clusters, make_topic) as (system, names):
        before = (await read_history(system.settings, names.flow)).plans()
        report = await carry_out(system.settings, order(names.flow, dry=True), system.coordinator)
        assert list(report.plan.results) == list(STEPS)
        assert outcomes(report) == ["done"] * 9
        assert report.plan.results[FailoverStep.CHECK].figures["groups"] == 1
        assert [place.offset for place in report.offsets[names.group]] == [30, 30]
        assert (await read_history(system.settings, names.flow)).plans() == before
        assert {partition.state for partition in await system.coordinator.partitions(str(names.flow))} == {"copying"}


async def test_groups_at_work_hold_it_up(clusters: Clusters, make_topic: TopicMaker) -> None:
    """On the target they are named and left, and the plan waits until they are gone, or goes on without them."""
    async with scene(clusters, make_topic) as (system, names):
        topic, group = names.topic, names.group
        idle = f"{group}-idle"
        await aside(lambda: commit(clusters.a, idle, {(topic, 0): 10}))
        async with member(clusters.b, group, names.remote):
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.next_step == FailoverStep.COMMIT
            assert report.plan.results[FailoverStep.COMMIT].figures["active"] == [group]
            assert (await aside(lambda: committed(clusters.b, idle, names.remote, 1)))[0] == 10
        async with member(clusters.b, idle, names.remote):
            # It was moved by the first try.
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.finished
        async with member(clusters.a, group, topic):
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.next_step == FailoverStep.OFFSETS
            without = order(names.flow, options=FailoverOptions(skip_active=True))
            report = await carry_out(system.settings, without, system.coordinator)
            assert report.plan.finished
            assert list(report.offsets) == [idle]


async def test_an_offset_in_an_open_transaction_holds_it_up(clusters: Clusters, make_topic: TopicMaker) -> None:
    """It may become the group's offset later: what was committed before it is not taken for final."""
    async with scene(clusters, make_topic) as (system, names):
        consumer = Consumer({**clusters.a.confluent_config(), "group.id": names.group})
        producer = Producer({**clusters.a.confluent_config(), "transactional.id": names.group})

        def begin() -> None:
            producer.init_transactions(60)
            producer.begin_transaction()
            offsets = [TopicPartition(names.topic, 0, 70)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)

        await aside(begin)
        with pytest.raises(MirrorError, match="transaction"):
            await carry_out(system.settings, order(names.flow), system.coordinator)
        await aside(lambda: producer.commit_transaction(60))
        consumer.close()
        report = await carry_out(system.settings, order(names.flow), system.coordinator)
        assert [place.offset for place in report.offsets[names.group]] == [70, 30]


async def test_producers_that_write_hold_it_up(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Their topics are named, and nothing is paused or committed."""
    async with scene(clusters, make_topic) as (system, names):
        stop = asyncio.Event()

        async def write() -> None:
            while not stop.is_set():
                await aside(lambda: produce(clusters.a.confluent_config(), names.topic, numbered(2)))

        writing = asyncio.create_task(write())
        report = await carry_out(system.settings, order(names.flow, timing=StepTiming(1.5, 5)), system.coordinator)
        stop.set()
        await writing
        assert report.plan.next_step == FailoverStep.PRODUCERS
        assert list(report.plan.results[FailoverStep.PRODUCERS].figures["written"]) == [names.topic]
        report = await carry_out(system.settings, order(names.flow), system.coordinator)
        assert report.plan.finished


async def test_the_source_is_gone(clusters: Clusters, make_topic: TopicMaker) -> None:
    """What the target knows is enough: groups go on where their last checkpoint was."""
    async with scene(clusters, make_topic) as (system, names):

        async def told() -> bool:
            stands = await aside(lambda: committed(clusters.b, names.group, names.remote, 2))
            return stands == {0: 30, 1: 30}

        await system.wait(told, "the group sync has written")
    known = system.settings.clusters
    gone = known[names.flow.source].model_copy(update={"bootstrap_servers": ("127.0.0.1:1",)})
    config = system.settings.model_copy(update={"clusters": {**known, names.flow.source: gone}})
    with pytest.raises(ConfigError):
        await carry_out(config, order(names.flow, "failback", options=FailoverOptions(source_is_gone=True)), None)
    report = await carry_out(config, order(names.flow), None)
    assert report.plan.next_step == FailoverStep.DETECT
    assert "--source-is-gone" in report.plan.results[FailoverStep.DETECT].summary
    report = await carry_out(config, order(names.flow, options=FailoverOptions(source_is_gone=True)), None)
    assert report.plan.finished, report.plan.results
    assert [place.offset for place in report.offsets[names.group]] == [30, 30]
    with pytest.raises(ClusterUnreachableError):
        await carry_out(config, order(names.flow, "failback"), None)
