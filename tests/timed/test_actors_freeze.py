"""Actors that stand still or die, and nodes that are lost: others go on soon, and the copy ends equal.

The target forgets producers of old records five times a second, so that sequences alone keep nobody apart.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator

import psutil
import pytest

from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.observe.status import ReplicatorStatus
from tests.support.clusters import Clusters, TopicMaker
from tests.support.nodes import ExtraNode, extra_node
from tests.support.processes import kill_process, stopped, wait_ended
from tests.support.scene import PARTITIONS, Scene, open_scene
from tests.support.waiting import wait_until

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)

_log = logging.getLogger(__name__)

_TIMEOUT_S = 60.0
#: The limit that we promise, from the event that tells of the loss.
ELSEWHERE_WITHIN_S = 5.0
#: What a busy machine adds.
_PATIENCE_S = 2.0


@pytest.fixture(scope="module")
def scene(clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker, module_system: str) -> Iterator[Scene]:
    """Records of which half are a year old are copied; equal in the end, after all that these tests do."""
    with open_scene(module_system, clusters.a, fragile, make_topic) as scene:
        yield scene
        scene.ends_equal()


@pytest.fixture
def node(scene: Scene) -> Iterator[ExtraNode]:
    """A second node of the scene's Ray; the coordinator and the first replicator are not on it."""
    scene.scale(1)
    with extra_node() as extra:
        yield extra


def test_a_replicator_that_stays_frozen_is_killed(scene: Scene) -> None:
    """Whoever does not answer for a quarter of a minute is replaced by a new process; the others never stop."""
    scene.scale(2)
    victim = scene.mirror.replicators[1]
    others = set(range(PARTITIONS)) - scene.owned_by(victim.id)
    stopped_s = time.monotonic()
    with stopped(victim.pid):
        scene.spread_over(2, without={victim.pid})
    assert not psutil.pid_exists(victim.pid)
    assert scene.arrivals.longest_s(others, stopped_s) < ELSEWHERE_WITHIN_S, scene.log()


@pytest.mark.parametrize("lives_on", [False, True], ids=["dead", "frozen and continued"])
def test_a_lost_node(scene: Scene, node: ExtraNode, lives_on: bool) -> None:
    """Its partitions copy elsewhere within 5 s of the loss being seen, also if its replicator was only out of reach."""
    victim = _replicator_on(node, scene)
    process = psutil.Process(victim.pid)
    replicators = len(scene.mirror.replicators)
    theirs = scene.owned_by(victim.id)
    lost_s, lost_ms = time.monotonic(), time.time() * 1000
    with stopped(victim.pid) if lives_on else contextlib.nullcontext():
        node.lose(spare=victim.pid if lives_on else None)
        # Told by Ray that it is dead, or left without an answer for too long, whichever comes first.
        seen = scene.event("others take over", "goes to the others", since_ms=lost_ms)
        seen_s = time.monotonic() - (time.time() - seen.time_ms / 1000)
        elsewhere_s = scene.arrives_again(theirs, seen_s)
        _log.info("node lost: seen after %.2f s, elsewhere %.2f s later", seen_s - lost_s, elsewhere_s)
        assert elsewhere_s < ELSEWHERE_WITHIN_S + _PATIENCE_S, scene.log()
    scene.spread_over(replicators, without={victim.pid})
    wait_ended(process, _TIMEOUT_S)


def test_a_frozen_coordinator_goes_on_where_it_was(scene: Scene) -> None:
    """Stopped for longer than a replicator may be silent, and continued: nothing stops, nobody is moved or killed."""
    scene.scale(1)
    before = scene.mirror.status()
    stopped_s = time.monotonic()
    with stopped(before.coordinator_pid):
        time.sleep(CoordinatorTiming().unresponsive_s + 1)
    scene.spread_over(1)
    after = scene.mirror.status()
    assert (after.coordinator_pid, after.replicators[0].pid) == (before.coordinator_pid, before.replicators[0].pid)
    assert scene.arrivals.longest_s(range(PARTITIONS), stopped_s) < ELSEWHERE_WITHIN_S, scene.log()


def test_coordinator_and_replicator_die_together(scene: Scene) -> None:
    """The next coordinator adopts who lives, and hands out what the dead one had when its lease has run out."""
    scene.scale(2)
    kept, victim = scene.mirror.replicators
    theirs = scene.owned_by(victim.id)
    pid = scene.mirror.status().coordinator_pid
    killed_s = time.monotonic()
    for actor in (pid, victim.pid):
        kill_process(actor)
    wait_until(lambda: scene.mirror.status().coordinator_pid != pid, _TIMEOUT_S, "another coordinator")
    scene.spread_over(2, without={victim.pid})
    assert scene.replicator(kept.id).pid == kept.pid
    others = set(range(PARTITIONS)) - theirs
    stood_s, again_s = (scene.arrivals.longest_s(some, killed_s) for some in (others, theirs))
    _log.info("both killed: the dead one's partitions stood for %.2f s, the others for %.2f s", again_s, stood_s)
    assert stood_s < ELSEWHERE_WITHIN_S, scene.log()


def _replicator_on(node: ExtraNode, scene: Scene) -> ReplicatorStatus:
    """Ray spreads replicators over nodes as it likes: more of them, until one is there."""
    for replicators in (2, 3, PARTITIONS):
        scene.scale(replicators)
        for replicator in scene.mirror.replicators:
            if node.has(replicator.pid):
                return replicator
    raise AssertionError(f"no replicator on the second node: {scene.mirror.replicators}")
