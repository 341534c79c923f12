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

from mirror_ray.failover.audit import Audit
from mirror_ray.failover.plan import STEPS, Kind
from mirror_ray.failover.run import carry_out, look
from mirror_ray.failover.sides import Sides
from mirror_ray.failover.steps import Timing
from mirror_ray.kafka.group_offsets import ToCommit
from mirror_ray.model.errors import ConfigError
from mirror_ray.observe.status import PartitionStatus
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import Names, order, scene
from tests.support.groups import commit, process
from tests.support.local import LocalSystem, aside

pytestmark = pytest.mark.timeout(300)

QUICK = Timing(quiet_s=0.1, catch_up_s=60.0)


class KilledError(Exception):
    """The command is no more."""


class Killer:
    """Kills at each moment once, the first time that it comes, and counts what has had an effect."""

    def __init__(self) -> None:
        self.moments: list[str] = []
        self.committed: Counter[tuple[str, str]] = Counter()

    async def around(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do it, if it is not killed before, or after."""
        self._moment(f"before {name}")
        done = await act()
        self._moment(f"after {name}")
        return done

    def _moment(self, name: str) -> None:
        if name not in self.moments:
            self.moments.append(name)
            raise KilledError(name)


class KilledRunning:
    """A system whose pauses are moments, too."""

    def __init__(self, system: LocalSystem, killer: Killer) -> None:
        self._coordinator, self._killer = system.coordinator, killer

    async def partitions(self, flow: str) -> Sequence[PartitionStatus]:
        """See ``Running``."""
        return await self._coordinator.partitions(flow)

    async def pause(self, flow: str) -> None:
        """See ``Running``."""
        await self._killer.around("pause", lambda: self._coordinator.pause(flow))

    async def resume(self, flow: str) -> None:
        """See ``Running``."""
        await self._killer.around("resume", lambda: self._coordinator.resume(flow))


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    """Kills around everything that a plan writes."""
    killer = Killer()
    append, say, write = Audit._append, Sides.say, Sides.commit

    async def appended(audit: Audit, records: Iterable[tuple[Mapping[str, str], Any]]) -> None:
        written = list(records)
        name = next(("places" if "group" in key else key.get("step", "head") for key, _ in written), "nothing")
        await killer.around(f"audit {name}", lambda: append(audit, written))

    async def said(sides: Sides, records: list[Any]) -> None:
        await killer.around("checkpoints", lambda: say(sides, records))

    async def committed(sides: Sides, commits: Mapping[str, ToCommit]) -> Any:
        async def write_counted() -> Any:
            killer.committed.update((group, str(at)) for group, offsets in commits.items() for at in offsets)
            return await write(sides, commits)

        return await killer.around("commits", write_counted)

    monkeypatch.setattr(Audit, "_append", appended)
    monkeypatch.setattr(Sides, "say", said)
    monkeypatch.setattr(Sides, "commit", committed)
    return killer


async def kill_and_go_on(system: LocalSystem, names: Names, kind: Kind, killer: Killer) -> None:
    """Give the same command until it is killed behind its last record: then there is nothing left to do."""
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
    plan = (await look(system.settings, names.flow)).plans()[-1]
    assert (plan.kind, plan.finished) == (kind, True)
    assert [(result.step, result.repeats) for result in plan.results.values()] == [(step, 0) for step in STEPS]
    assert {f"{when} audit {step}" for when in ("before", "after") for step in STEPS} <= set(killer.moments)
    assert {f"{when} {what}" for when in ("before", "after") for what in ("pause", "commits")} <= set(killer.moments)
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
