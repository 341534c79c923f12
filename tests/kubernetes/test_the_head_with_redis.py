"""The component ``availability``: Ray's state is in a Redis, and the head may go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror_ray.lab.devcluster.process import GuardedProcess
from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.machine import OUTSIDE
from tests.support.kubernetes.record import Record
from tests.support.kubernetes.redis import redis_for
from tests.support.kubernetes.system import MirrorOnKubernetes

pytestmark = pytest.mark.timeout(1200)

_CHAPTER = "The head, with Redis behind it"


@pytest.fixture(scope="module")
def redis(
    mirror: MirrorOnKubernetes, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GuardedProcess]:
    """A Redis of the user's."""
    with redis_for(mirror.kubectl, control_plane.pki, tmp_path_factory.mktemp("redis") / "data") as redis:
        yield redis


@pytest.fixture(scope="module")
def available(mirror: MirrorOnKubernetes, redis: GuardedProcess, record: Record) -> MirrorOnKubernetes:
    """The system with the component, begun anew."""
    title = "the component `availability` is added, as an upgrade is made"
    with record.step(_CHAPTER, title) as step, mirror.watched(step):
        mirror.replace(lambda overlay: overlay.add_availability(OUTSIDE[0]))
    return mirror


def test_the_head_comes_back(available: MirrorOnKubernetes, record: Record) -> None:
    """Its pod is deleted: replicators copy on, the new head finds the actors, and nobody hands a job in."""
    before = available.head()["metadata"]["name"]
    workers = available.ready_workers()
    with record.step(_CHAPTER, "the head's pod is deleted; another one is ready") as step, available.watched(step):
        available.kubectl("delete", "pod", before)
        available.wait_head(other_than=before)
        assert available.ready_workers() == workers
    with record.step(_CHAPTER, "`mirror-ray status` on the new head"):
        available.run("status")


def test_the_heads_node_is_drained(available: MirrorOnKubernetes, record: Record) -> None:
    """No budget holds it any more."""
    before = available.head()
    node = before["spec"]["nodeName"]
    with record.step(_CHAPTER, "the node of the head is drained") as step, available.watched(step):
        try:
            available.drain(node, "ray.io/node-type=head")
            available.wait_head(other_than=before["metadata"]["name"])
        finally:
            available.kubectl("uncordon", node)
        assert available.head()["spec"]["nodeName"] != node


def test_nothing_stays_in_redis(available: MirrorOnKubernetes, record: Record) -> None:
    """KubeRay's job clears what a deleted cluster left there: its pod is admitted, and may reach Redis."""
    with record.step(_CHAPTER, "the RayCluster is deleted: KubeRay's job clears its state in Redis"):
        available.run("down")
        available.kubectl("delete", "rayjob", "mirror-ray-up")
        available.kubectl("delete", "raycluster", "mirror-ray", "--timeout=300s", timeout_s=330)
