"""A plan that is killed before and after everything that it does, and taken up each time.

Between two effects (a record of the audit topic, a pause, checkpoints, commits) a plan keeps nothing but memory, so
these are all the states that a SIGKILL can leave behind. `make failover-kills` does the same with real signals, to the
coordinator and to brokers, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.failover.audit_topic import FailoverAudit
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.plan import STEPS, FailoverStep, Kind
from mirror_ray.failover.run import read_history
from mirror_ray.failover.steps import StepTiming
from mirror_ray.kafka.group_offsets import ToCommit
from mirror_ray.model.errors import ConfigError
from mirror_ray.observe.status import PartitionStatus
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import Names, member, numbered, order, scene
from tests.support.groups import commit, process
from tests.support.kafka import produce
from tests.support.local import LocalSystem, aside
from tests.support.unrecorded import carry_out

pytestmark = pytest.mark.timeout(300)

QUICK = StepTiming(quiet_s=0.1, catch_up_s=60.0)


class KilledError(Exception):
    """The command is no more."""


class Killer:
    """Kills at each moment once, the first time that it comes, and counts what has had an effect."""

    def __init__(self) -> None:
        self.armed = False
        self.moments: list[str] = []
        #: The one moment at which it kills, if it is not armed.
        self.only = ""
        self.came: Counter[str] = Counter()
        self.committed: Counter[tuple[str, str]] = Counter()

    async def around(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do it, if it is not killed before, or after."""
        self._moment(f"before {name}")
        done = await act()
        self._moment(f"after {name}")
        return done

    def _moment(self, name: str) -> None:
        self.came[name] += 1
        if self.only in (name, f"second {name}") and self.came[name] == 1 + self.only.startswith("second "):
            raise KilledError(name)
        if self.armed and name not in self.moments:
            self.moments.append(name)
            raise KilledError(name)


class KilledRunning:
    """A system whose pauses are moments, too."""

    def __init__(self, system: LocalSystem, killer: Killer) -> None:
        self._coordinator, self._killer = system.coordinator, killer

    async def partitions(self, flow: str) -> Sequence[PartitionStatus]:
        return await self._coordinator.partitions(flow)

    async def pause(self, flow: str, topic: str | None = None) -> None:
        await self._killer.around("pause", lambda: self._coordinator.pause(flow, topic))

    async def resume(self, flow: str, topic: str | None = None) -> None:
        await self._killer.around("resume", lambda: self._coordinator.resume(flow, topic))

    async def configuration(self) -> MirrorSettings:
        return await self._coordinator.configuration()

    async def apply(self, settings: MirrorSettings) -> None:
        on = " ".join(f"{flow.name.source[0]}->{flow.name.target[0]}" for flow in settings.flows if flow.enabled)
        await self._killer.around(f"apply {on or 'nothing'}", lambda: self._coordinator.apply(settings))


def named(key: Mapping[str, str], value: Any) -> str:
    """What a record of the audit topic is about; a result that sends a plan back, or holds it up, is another one."""
    if "group" in key:
        return "places"
    return f"{key['step']} blocked" if "step" in key and value["outcome"] == "blocked" else key.get("step", "head")


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    """Kills around everything that a plan writes."""
    killer = Killer()
    append, say, write = FailoverAudit._append, FailoverClusters.append_checkpoints, FailoverClusters.commit

    async def appended(audit: FailoverAudit, records: Iterable[tuple[Mapping[str, str], Any]]) -> None:
        written = list(records)
        name = next((named(key, value) for key, value in written), "nothing")
        await killer.around(f"audit {name}", lambda: append(audit, written))

    async def said(sides: FailoverClusters, records: list[Any]) -> None:
        await killer.around("checkpoints", lambda: say(sides, records))

    async def committed(sides: FailoverClusters, commits: Mapping[str, ToCommit]) -> Any:
        async def write_counted() -> Any:
            killer.committed.update((group, str(at)) for group, offsets in commits.items() for at in offsets)
            return await write(sides, commits)

        return await killer.around("commits", write_counted)

    monkeypatch.setattr(FailoverAudit, "_append", appended)
    monkeypatch.setattr(FailoverClusters, "append_checkpoints", said)
    monkeypatch.setattr(FailoverClusters, "commit", committed)
    return killer


async def kill_and_go_on(
    system: LocalSystem, names: Names, kind: Kind, killer: Killer, back_to: FailoverStep | None = None
) -> None:
    """Give the same command until it is killed behind its last record: then there is nothing left to do.

    ``back_to``: where the plan is sent back to meanwhile, once.
    """
    killer.armed = True
    killer.moments.clear()
    killer.committed.clear()
    running = KilledRunning(system, killer)
    while True:
        try:
            report = await carry_out(system.settings, order(names.flow, kind, timing=QUICK), running)
        except KilledError as moment:
            if str(moment) == f"after audit {STEPS[-1]}":
                break
            continue
        raise AssertionError(f"not every moment came: {killer.moments}, {report.plan.state}")
    plan = (await read_history(system.settings, names.flow)).plans()[-1]
    assert (plan.kind, plan.finished) == (kind, True)
    again = STEPS[STEPS.index(back_to) :] if back_to is not None else ()
    assert [(result.step, result.repeats) for result in plan.results.values()] == [
        (step, int(step in again)) for step in STEPS
    ]
    wanted = {"commits", *(f"audit {step}" for step in again or STEPS)}
    wanted |= {"pause"} if FailoverStep.STOP in (again or STEPS) else set()
    wanted |= {f"audit {back_to} blocked", "audit places", "checkpoints"} if back_to is not None else set()
    assert {f"{when} {what}" for when in ("before", "after") for what in wanted} <= set(killer.moments)
    # Nothing else was done again.
    assert {f"before audit {step}" for step in STEPS if again and step not in again}.isdisjoint(killer.moments)
    # No commit twice, though its step was killed behind it.
    assert set(killer.committed.values()) == {1}, killer.committed


async def test_every_state_that_a_kill_can_leave(clusters: Clusters, make_topic: TopicMaker, killer: Killer) -> None:
    """There and back: every record once for each group, wherever it stood and whatever was killed."""
    a, b = clusters
    async with scene(clusters, make_topic, sync=False) as (system, names):
        at = {f"{names.group}-{n}": {(names.topic, 0): n * 33, (names.topic, 1): 100 - n * 33} for n in range(4)}
        for group, offsets in at.items():
            await aside(lambda group=group, offsets=offsets: commit(a, group, offsets))  # type: ignore[misc]
        await kill_and_go_on(system, names, "failover", killer)
        done = {g: await aside(lambda g=g: process(b, g, names.remote, 40)) for g in at}  # type: ignore[misc]
        await kill_and_go_on(system, names, "failback", killer)
        with pytest.raises(ConfigError, match="has failed back already"):
            await carry_out(system.settings, order(names.flow, "failback"), system.coordinator)
        assert {"before resume", "after resume"} <= set(killer.moments)
        for group, offsets in at.items():
            rest = await aside(lambda group=group: process(a, group, names.topic))  # type: ignore[misc]
            wanted = [b"%d" % n for n in range(200) if n // 2 >= offsets[names.topic, n % 2]]
            assert sorted(done[group] + rest) == sorted(wanted), group


@pytest.mark.parametrize("back_to", [FailoverStep.PRODUCERS, FailoverStep.OFFSETS])
async def test_every_state_of_a_plan_that_has_gone_back(
    clusters: Clusters, make_topic: TopicMaker, killer: Killer, back_to: FailoverStep
) -> None:
    """Once, behind commits of its first round, to copy more or to look for groups: those are where they were or go on.

    The second round resumes and pauses the flow again where records were written, and commits for whom it has to: the
    group that went on, the one that came, and the one that was waited for.
    """
    a, b = clusters
    async with scene(clusters, make_topic, sync=False) as (system, names):
        still, went_on, waits, came = groups = [f"{names.group}-{what}" for what in ("still", "on", "waits", "came")]
        for group in groups[:3]:
            await aside(lambda group=group: commit(a, group, {(names.topic, 0): 10, (names.topic, 1): 20}))  # type: ignore[misc]
        async with member(b, waits, names.remote):
            report = await carry_out(system.settings, order(names.flow, timing=QUICK), system.coordinator)
            assert report.plan.results[FailoverStep.COMMIT].figures["active"] == [waits]
        await aside(lambda: commit(a, came, {(names.topic, 0): 0, (names.topic, 1): 0}))
        done = {g: await aside(lambda g=g: process(a, g, names.topic, 40)) for g in (went_on, came)}  # type: ignore[misc]
        if back_to == FailoverStep.PRODUCERS:
            await aside(lambda: produce(a.confluent_config(), names.topic, numbered(50, 200)))
        await kill_and_go_on(system, names, "failover", killer, back_to)
        assert ("after resume" in killer.moments) == (back_to == FailoverStep.PRODUCERS)
        moved = Counter(group for group, _ in killer.committed)
        assert moved.keys() == {went_on, waits, came}
        count = 250 if back_to == FailoverStep.PRODUCERS else 200
        assert {partition.state for partition in await system.coordinator.partitions(str(names.flow))} == {"paused"}
        for group in groups:
            rest = await aside(lambda group=group: process(b, group, names.remote))  # type: ignore[misc]
            first = (0, 0) if group == came else (10, 20)
            wanted = [b"%d" % n for n in range(count) if n // 2 >= first[n % 2]]
            assert sorted(done.get(group, []) + rest) == sorted(wanted), group
        assert still not in moved
