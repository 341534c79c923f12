"""Groups that come to work while a plan is under way, or have committed nothing yet: `done` goes past none of them."""

from __future__ import annotations

import pytest

from mirror_ray.failover.plan import FailoverOptions, FailoverPlan, FailoverStep, StepResult
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import caught_up, member, new_names, numbered, order, scene, settings
from tests.support.groups import commit, process
from tests.support.groups import member as joined
from tests.support.kafka import produce
from tests.support.local import LocalSystem, aside
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)


async def test_a_group_comes_while_another_is_waited_for(clusters: Clusters, make_topic: TopicMaker) -> None:
    """`commit` waits for one on B; another one works on A meanwhile, and is moved, too: it is no one moved before."""
    a, b = clusters
    async with scene(clusters, make_topic, sync=False) as (system, names):
        new = f"{names.group}-new"
        async with member(b, names.group, names.remote):
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.next_step == FailoverStep.COMMIT
            await aside(lambda: commit(a, new, {(names.topic, 0): 0, (names.topic, 1): 0}))
            done = await aside(lambda: process(a, new, names.topic, 50))
        async with member(b, new, names.remote):
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.next_step == FailoverStep.COMMIT, report.plan.results
            assert report.plan.results[FailoverStep.COMMIT].figures["active"] == [new]
            assert report.plan.results[FailoverStep.COMMIT].repeats == 1
        report = await carry_out(system.settings, order(names.flow), system.coordinator)
        assert report.plan.finished, report.plan.results
        rest = await aside(lambda: process(b, new, names.remote))
        assert len(done + rest) == len(set(done + rest)) == 200


async def test_a_group_comes_before_the_end(clusters: Clusters, make_topic: TopicMaker) -> None:
    """As one that has ended, or with members that have committed nothing: both hold the plan up by name."""
    a, b = clusters
    async with scene(clusters, make_topic) as (system, names):
        new, works = f"{names.group}-new", f"{names.group}-works"

        def come(_: FailoverPlan, result: StepResult) -> None:
            if result.step == FailoverStep.COMMIT and result.outcome == "done" and not result.repeats:
                commit(a, new, {(names.topic, 0): 90})

        report = await carry_out(system.settings, order(names.flow), system.coordinator, come)
        assert report.plan.next_step == FailoverStep.OFFSETS, report.plan.results
        assert report.plan.results[FailoverStep.OFFSETS].figures["active"] == [new]
        async with member(a, works, names.topic):
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.next_step == FailoverStep.OFFSETS, report.plan.results
            assert works in report.plan.results[FailoverStep.OFFSETS].summary
            left = order(names.flow, options=FailoverOptions(skip_active=True))
            report = await carry_out(system.settings, left, system.coordinator)
            assert report.plan.finished, report.plan.results
        assert sorted(report.offsets) == [names.group, new]
        assert len(await aside(lambda: process(b, names.group, names.remote))) == 140


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_that_have_committed_nothing_yet(
    clusters: Clusters, make_topic: TopicMaker, protocol: str
) -> None:
    """They read the flow's topic, so they are at work; those of other topics are nobody's business."""
    names, other = new_names(make_topic(clusters.a, 2)), make_topic(clusters.a, 1)
    await aside(lambda: produce(clusters.a.confluent_config(), names.topic, numbered(20)))
    async with LocalSystem(settings(clusters, names), groups=True) as system:
        await caught_up(system, 2)
        with joined(clusters.a, f"{names.group}-other", other, protocol=protocol):
            with joined(clusters.a, f"{names.group}-works", names.topic, protocol=protocol):
                report = await carry_out(system.settings, order(names.flow), system.coordinator)
                assert report.plan.next_step == FailoverStep.OFFSETS, report.plan.results
                assert report.plan.results[FailoverStep.OFFSETS].figures["active"] == [f"{names.group}-works"]
            report = await carry_out(system.settings, order(names.flow), system.coordinator)
            assert report.plan.finished, report.plan.results


async def test_a_first_commit_in_another_partition(clusters: Clusters, make_topic: TopicMaker) -> None:
    """A group has committed in one partition when it is looked up, and in the other one before the end."""
    a, b = clusters
    names = new_names(make_topic(a, 2))
    await aside(lambda: produce(a.confluent_config(), names.topic, numbered(200)))
    await aside(lambda: commit(a, names.group, {(names.topic, 0): 30}))
    async with LocalSystem(settings(clusters, names), groups=True) as system:
        await caught_up(system, 2)

        def go_on(_: FailoverPlan, result: StepResult) -> None:
            if result.step == FailoverStep.VERIFY and not result.repeats:
                commit(a, names.group, {(names.topic, 1): 40})

        report = await carry_out(system.settings, order(names.flow), system.coordinator, go_on)
        assert report.plan.next_step == FailoverStep.OFFSETS, report.plan.results
        report = await carry_out(system.settings, order(names.flow), system.coordinator)
        assert report.plan.finished, report.plan.results
        assert len(await aside(lambda: process(b, names.group, names.remote))) == 130
