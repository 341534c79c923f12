"""Actors that stand still and come back, and two systems with one flow: the copy ends equal.

The target forgets producers of old records five times a second, so that sequences alone keep nobody apart.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator

import pytest

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError
from mirror_ray.runtime import attach
from tests.support.clusters import Clusters, TopicMaker
from tests.support.processes import stopped
from tests.support.scene import PARTITIONS, Scene, open_scene
from tests.support.systems import run
from tests.support.waiting import wait_until

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)

_TIMEOUT_S = 60.0


@pytest.fixture
def scene(clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker, system: str) -> Iterator[Scene]:
    """One replicator copies records of which half are a year old."""
    with open_scene(system, clusters.a, fragile, make_topic) as scene:
        yield scene


def test_a_frozen_replicator_gives_up_and_is_used_again(scene: Scene) -> None:
    """Stopped in full flight, it is replaced when its lease has run out; continued, it gives up, and gets its share."""
    scene.scale(2)
    victim = scene.mirror.replicators[1]
    theirs = scene.owned_by(victim.id)
    with stopped(victim.pid):
        scene.event("others take over")
        scene.arrives_again(theirs, time.monotonic())
        assert not scene.owned_by(victim.id)
    assert "it was handed out with epoch" in scene.event("given up").text
    scene.spread_over(2)
    assert scene.replicator(victim.id).pid == victim.pid, scene.log()
    scene.ends_equal()


def test_a_second_system_takes_the_flow_over(scene: Scene) -> None:
    """The first one is fenced, lets go of everything and says what to do; the second one copies on."""
    scene.spread_over(1)
    name = f"second-{uuid.uuid4().hex[:6]}"
    first = scene.mirror
    scene.mirror = run(name, scene.settings)
    try:
        scene.spread_over(1)
        began_s = time.monotonic()
        assert scene.arrives_again(set(range(PARTITIONS)), began_s)
        wait_until(lambda: first.replicators[0].partitions == 0, _TIMEOUT_S, "the first one has let go")

        def told() -> bool:
            (flow,) = first.flows
            return flow.state == "degraded" and any("see that only one system runs" in each for each in flow.problems)

        wait_until(told, _TIMEOUT_S, "the first one says what to do")
        assert [each for each in first.events(100) if each.level == "error" and "another coordinator" in each.text]
        first.down(5.0)
        scene.ends_equal()
    finally:
        with contextlib.suppress(MirrorError):
            attach(name).down(10.0)
