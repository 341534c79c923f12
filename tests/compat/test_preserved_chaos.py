"""Preserved offsets between a broker of an earlier version and one of today, which die and stand still in turns.

By the writers, the groups and the comparison of ``mirror-ray chaos --preserve-offsets``. ``LONG_CHAOS`` is how many
rounds: four faults each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import pytest

from mirror_ray.config.settings import GroupSettings, MirrorSettings, OffsetSettings, TopicSettings
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.lab.chaos import topology
from mirror_ray.lab.chaos.compare import compare_topic, log_ends_apart
from mirror_ray.lab.chaos.first_offsets import begin_log
from mirror_ray.lab.chaos.group_offsets import CommittingGroups
from mirror_ray.lab.chaos.writers import ChaosLoad
from mirror_ray.lab.devcluster import QUICK_START, DevCluster
from tests.support.local import LocalSystem, aside
from tests.support.old_kafka import OldCluster
from tests.support.systems import settings_of
from tests.support.waiting import wait_until

_ROUNDS: Final = int(os.environ.get("LONG_CHAOS", "0"))
pytestmark = [
    pytest.mark.timeout(600 + 120 * _ROUNDS),
    pytest.mark.skipif(not _ROUNDS, reason="takes minutes: LONG_CHAOS=1"),
]

VERSIONS: Final = os.environ.get("KAFKA_VERSIONS", "2.8.2 3.9.1").split()
#: The first version that a target may have.
_FIRST_TARGET: Final = (2, 5)
_WRITTEN_S: Final = 3.0
_COPIED_WITHIN_S: Final = 180.0

#: Of the chaos run's topics one of each kind, from A to B; and those that it has from B to A.
TOPICS: Final = tuple(topic for topic in topology.PRESERVED if not topic.begins_late and topic.remote_configs is None)


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest) -> Iterator[OldCluster]:
    """A broker of an earlier version."""
    with OldCluster(request.param) as cluster:
        if cluster.number < _FIRST_TARGET:
            pytest.skip("no target")
        yield cluster


@pytest.fixture
def today(tmp_path: Path) -> Iterator[DevCluster]:
    """A broker of today."""
    with DevCluster("today", data_dir=tmp_path / "today", jvm_options=QUICK_START) as cluster:
        yield cluster


async def test_every_record_and_group_has_its_offset(old: OldCluster, today: DevCluster) -> None:
    """Both ways at once, from offset 1,000,000 on, through the deaths and freezes of both brokers."""
    # It has what the laboratory needs of a cluster by the same names.
    clusters = {"A": today, "B": cast("DevCluster", old)}
    await aside(partial(topology.create_all_topics, clusters, TOPICS))
    await aside(partial(_begin_logs, today, old))
    load, groups = ChaosLoad(clusters, TOPICS, 1), CommittingGroups(clusters, TOPICS, 1)
    load.start()
    groups.start()
    try:
        prefix_kept_s = CoordinatorTiming().prefix_kept_s
        async with LocalSystem(_settings(clusters), groups=True, prefix_kept_s=prefix_kept_s) as system:
            await system.wait(partial(_all_copied, system), "every partition is copied", _COPIED_WITHIN_S)
            for number in range(_ROUNDS):
                await _faults(today, old)
                await system.wait(partial(_all_copied, system), f"copied after round {number}", _COPIED_WITHIN_S)
                load.check()
                groups.check()
            await aside(load.stop)
            await _until_nothing(partial(log_ends_apart, TOPICS, clusters))
            await aside(groups.stop)
            await _until_nothing(groups.differences)
    finally:
        load.ask_to_stop()
        groups.ask_to_stop()
    for topic in TOPICS:
        outcome = await aside(partial(compare_topic, topic, clusters, load, preserve_offsets=True))
        assert not outcome.differences, outcome.differences
        assert outcome.target_records > 0


async def _faults(today: DevCluster, old: OldCluster) -> None:
    """Kill and freeze both brokers, with records written in between."""
    for kill, start in ((old.kill, old.start_again), (today.brokers[0].kill, today.brokers[0].start)):
        await aside(kill)
        await asyncio.sleep(_WRITTEN_S)
        await aside(start)
        await asyncio.sleep(_WRITTEN_S)
    for broker in (*old.brokers, *today.brokers):
        broker.suspend()
        await asyncio.sleep(_WRITTEN_S)
        broker.resume()
        await asyncio.sleep(_WRITTEN_S)


def _begin_logs(today: DevCluster, old: OldCluster) -> None:
    """As ``first_offsets.begin_logs``."""
    today.brokers[0].stop()
    old.brokers[0].stop()
    for alias, data in (("A", today.dir / "broker-1" / "data"), ("B", old.dir / "broker-1" / "data")):
        for topic in TOPICS:
            for number in range(topic.partitions if topic.cluster == alias else 0):
                begin_log(data / f"{topic.name}-{number}", topic.first_offset)
    today.brokers[0].start()
    old.start_again()


def _settings(clusters: Mapping[str, Any]) -> MirrorSettings:
    return settings_of(
        clusters,
        "A->B",
        "B->A",
        topics=TopicSettings(include=tuple(topic.name for topic in TOPICS), refresh_interval_s=1.0),
        groups=GroupSettings(emit_checkpoints_interval_s=0.2, sync_offsets_interval_s=0.2, refresh_interval_s=0.2),
        offsets=OffsetSettings(mode="preserve"),
    )


async def _all_copied(system: LocalSystem) -> bool:
    lines = await system.coordinator.partitions()
    return sum(line.state == "copying" for line in lines) == sum(topic.partitions for topic in TOPICS)


async def _until_nothing(find: Any) -> None:
    """Wait until nothing is found; what remains is shown."""
    found: list[Sequence[str]] = []

    def nothing() -> bool:
        found.append(find())
        return not found[-1]

    try:
        await aside(partial(wait_until, nothing, _COPIED_WITHIN_S, "nothing is wrong"))
    except AssertionError:
        pytest.fail("\n".join(found[-1]))
