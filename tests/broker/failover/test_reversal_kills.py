"""A failback that reverses its flow is killed before and after everything that it does, and taken up each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mirror_ray.config.settings import OffsetSettings
from mirror_ray.failover.plan import FailoverOptions, FailoverStep
from mirror_ray.failover.run import read_history
from mirror_ray.model.segment import SegmentBlock
from mirror_ray.reversal import reverse
from mirror_ray.reversal.flow_states import FlowStateTopic
from tests.broker.failover.test_kills import QUICK, KilledError, KilledRunning, Killer, killer
from tests.broker.failover.test_reversal import move, read, scene, write
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import caught_up, numbered, order
from tests.support.groups import process
from tests.support.kafka import produce
from tests.support.local import LocalSystem, aside
from tests.support.unrecorded import carry_out

__all__ = ["killer"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def reversal_killer(killer: Killer, monkeypatch: pytest.MonkeyPatch) -> Killer:
    """Kills around what a reversal writes, too."""
    write_state, delete, append = FlowStateTopic.write, reverse._Reversing._delete, reverse._Reversing._append

    async def written(state: FlowStateTopic, documents: Mapping[str, Any]) -> None:
        turn = (documents.get("reversed") or {}).get("turn")
        await killer.around(f"state of {state.flow.name.source[0]}, {turn}", lambda: write_state(state, documents))

    async def deleted(reversing: Any, topic: str) -> None:
        await killer.around("delete", lambda: delete(reversing, topic))

    async def appended(reversing: Any, blocks: Sequence[SegmentBlock]) -> None:
        await killer.around("map", lambda: append(reversing, blocks))

    monkeypatch.setattr(FlowStateTopic, "write", written)
    monkeypatch.setattr(reverse._Reversing, "_delete", deleted)
    monkeypatch.setattr(reverse._Reversing, "_append", appended)
    return killer


@pytest.mark.parametrize(("mode", "diverged"), [("translate", ""), ("preserve", "recreate")])
async def test_every_moment(
    clusters: Clusters, make_topic: TopicMaker, reversal_killer: Killer, mode: Any, diverged: str
) -> None:
    """Nothing is lost or doubled, and both directions go on where they were left."""
    a, b = clusters
    async with scene(clusters, make_topic, offsets=OffsetSettings(mode=mode)) as (system, names):
        topic = names.topic
        await move(system, names, "failover")
        if diverged:
            await aside(lambda: produce(a.confluent_config(), topic, numbered(10, 7000)))
        await write(b, topic, 40, 200)
        done = await aside(lambda: process(b, names.group, topic, 30))
        options = FailoverOptions(diverged=(diverged,)) if diverged else FailoverOptions()
        await kill_and_go_on(system, order(names.flow, "failback", timing=QUICK, options=options), reversal_killer)
        wanted = {"apply nothing", "apply A->B", "apply B->A", "pause", "map", "commits"}
        wanted |= {f"state of {alias}, {turn}" for alias in "AB" for turn in (1, 2)} | (
            {"delete"} if diverged else set()
        )
        assert {f"{when} {what}" for when in ("before", "after") for what in wanted} <= set(reversal_killer.moments)
        reversal_killer.armed = False
        plan = (await read_history(system.settings, names.flow)).plans()[-1]
        assert (plan.kind, plan.finished, FailoverStep.REVERSE in plan.results) == ("failback", True, True)
        done += await aside(lambda: process(a, names.group, topic))
        assert sorted(map(int, done)) == [*range(60, 240)]
        await write(a, topic, 10, 240)
        await caught_up(system, 2)

        async def equal() -> bool:
            return await read(a, topic) == await read(b, topic)

        await system.wait(equal, "both sides are equal")


@pytest.mark.parametrize("at", ["after apply nothing", "after state of B, 2"])
async def test_written_on_the_target_when_it_was_about_to_be_left(
    clusters: Clusters, make_topic: TopicMaker, reversal_killer: Killer, at: str
) -> None:
    """The flow back goes on, catches up, and is turned round then."""
    a, b = clusters
    async with scene(clusters, make_topic) as (system, names):
        topic = names.topic
        await move(system, names, "failover")
        await write(b, topic, 40, 200)
        asked, running = order(names.flow, "failback", timing=QUICK), KilledRunning(system, reversal_killer)
        reversal_killer.only = at if at != "after apply nothing" else f"second {at}"
        with pytest.raises(KilledError):
            await carry_out(system.settings, asked, running)
        await write(b, topic, 20, 240)
        report = await carry_out(system.settings, asked, running)
        assert (report.plan.finished, report.plan.repeats) == (True, 1), report.plan.results
        assert sorted(map(int, await aside(lambda: process(a, names.group, topic)))) == [*range(60, 260)]
        await caught_up(system, 2)
        assert await read(a, topic) == await read(b, topic)


async def kill_and_go_on(system: LocalSystem, asked: Any, killer: Killer) -> None:
    """Give the same command until it is killed behind its last record."""
    killer.armed = True
    running = KilledRunning(system, killer)
    while True:
        try:
            report = await carry_out(system.settings, asked, running)
        except KilledError as moment:
            if str(moment) == f"after audit {FailoverStep.REDIRECT}":
                return
            continue
        raise AssertionError(f"not every moment came: {killer.moments}, {report.plan}")
