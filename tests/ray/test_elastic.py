"""Replicators that follow load and nodes, on a Ray of several nodes, while records keep coming."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from actors.system import spawn_coordinator, start_system
from mirror_ray.config.settings import ElasticSettings, PlacementSettings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.nodes import add_node, announce_end, autoscaled_nodes, several_nodes
from tests.support.scene import PARTITIONS, Scene, open_scene
from tests.support.waiting import wait_until

#: A thousand records a second are far above 3 % of a core.
_LIVELY = ElasticSettings(max_replicators=2, target_cpu=0.03, scale_out_after_s=1.5, scale_in_after_s=4.0)
#: Two idle replicators are far below a whole one.
_CALM = _LIVELY.model_copy(update={"target_cpu": 1.0})


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    """One node with room for one replicator."""
    with several_nodes(1) as cluster:
        yield cluster


def _handed_out(scene: Scene) -> list[str]:
    """The partitions that were handed out after the first time, each as often as it was."""
    texts = [event.text.partition("assigned ") for event in scene.mirror.events(500)]
    return [name for _, _, names in [text for text in texts if text[1]][1:] for name in names.split(", ")]


def test_replicators_follow_load_and_nodes(clusters: Clusters, make_topic: TopicMaker, nodes: Cluster) -> None:
    """Out to a node that is added, off one that is going away, on without one that is lost, in when all is quiet.

    What does not have to move never does, each record arrives once, and the event log says why.
    """
    system = f"test-{uuid.uuid4().hex[:6]}"
    with open_scene(system, *clusters, make_topic, elastic=_LIVELY, replicator_cpus=1.0) as scene:
        scene.spread_over(1)
        scene.event("no node has 1 CPU free")
        leaving = add_node(nodes)
        scene.spread_over(2)
        scene.event("scale from 1 to 2 replicators: ")
        first, second = (replicator.id for replicator in scene.mirror.replicators)
        stayed = scene.owned_by(first)
        lost = add_node(nodes)
        announce_end(leaving)
        scene.event("its node is going away")
        wait_until(
            lambda: second not in {replicator.id for replicator in scene.mirror.replicators}, 30, "it has been left"
        )
        scene.spread_over(2)
        nodes.remove_node(leaving)
        assert not [event for event in scene.mirror.events(500) if event.level == "error"], scene.log()
        nodes.remove_node(lost, allow_graceful=False)
        wait_until(lambda: scene.owned_by(first) == set(range(PARTITIONS)), 30, "all with the one that is left")
        add_node(nodes)
        scene.spread_over(2)
        scene.production.stop()
        start_system(scene.settings.model_copy(update={"elastic": _CALM}), name=system)
        scene.event("scale from 2 to 1 replicators: fewer do")
        wait_until(lambda: len(scene.mirror.replicators) == 1, 30, "one replicator")
        scene.ends_equal()
        assert not {f"{scene.topic}-{partition}" for partition in stayed} & set(_handed_out(scene)), scene.log()
        scene.mirror.down(10.0)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[None]:
    """Nodes that Ray's autoscaler starts and ends."""
    with autoscaled_nodes(tmp_path):
        yield


def _nodes_alive() -> int:
    return sum(node["Alive"] for node in ray.nodes())  # type: ignore[no-untyped-call]


def test_coordinators_are_on_the_head(nodes: Cluster) -> None:
    """Where the service of the gateway looks for them, and where no autoscaler takes a node away."""
    for _ in range(2):
        add_node(nodes)
    coordinators = [spawn_coordinator(f"test-{uuid.uuid4().hex[:6]}") for _ in range(3)]
    where = [
        coordinator.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())
        for coordinator in coordinators
    ]
    # This process is at the head, too.
    assert ray.get(where) == [ray.get_runtime_context().get_node_id()] * 3


def test_replicators_run_on_nodes_of_their_labels(clusters: Clusters, make_topic: TopicMaker, nodes: Cluster) -> None:
    """The head and a node of another region have room, and get none; where there is no more room, that is said."""
    system, near = f"test-{uuid.uuid4().hex[:6]}", {"ray.io/availability-region": "near"}
    add_node(nodes, labels={"ray.io/availability-region": "far"})
    placed = PlacementSettings(labels=near)
    with open_scene(system, *clusters, make_topic, elastic=_LIVELY, placement=placed, replicator_cpus=1.0) as scene:
        there = add_node(nodes, labels=near)
        scene.spread_over(1)
        scene.event("no node of ray.io/availability-region=near has 1 CPU free")
        (replicator,) = scene.mirror.replicators
        raylet = psutil.Process(there.all_processes["raylet"][0].process.pid)
        assert replicator.pid in {child.pid for child in raylet.children(recursive=True)}
        scene.ends_equal()
        scene.mirror.down(10.0)


def test_rays_autoscaler_brings_nodes_and_takes_them_back(
    clusters: Clusters, make_topic: TopicMaker, cloud: None
) -> None:
    """What is asked for comes, a replicator takes the room, and when it has gone in again the node goes, too."""
    system = f"test-{uuid.uuid4().hex[:6]}"
    with open_scene(system, *clusters, make_topic, elastic=_LIVELY, replicator_cpus=1.0) as scene:
        scene.spread_over(1)
        scene.spread_over(2)
        assert _nodes_alive() == 2
        scene.production.stop()
        start_system(scene.settings.model_copy(update={"elastic": _CALM}), name=system)
        wait_until(lambda: _nodes_alive() == 1, 60, "the node has gone again")
        assert not [event for event in scene.mirror.events(500) if event.level == "error"], scene.log()
        scene.ends_equal()
        scene.mirror.down(10.0)
