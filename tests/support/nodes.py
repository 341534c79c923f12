"""Rays of several nodes on this machine, whose nodes come and go."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster

from mirror_ray import own_ray
from mirror_ray.attach import connect, disconnect, prepare
from mirror_ray.coordination.naming import NAMESPACE

_LOOPBACK = "127.0.0.1"
_STORE_BYTES = 80 << 20
_SMALL: dict[str, Any] = {
    "node_ip_address": _LOOPBACK,
    "object_store_memory": _STORE_BYTES,
    "include_dashboard": False,
    "include_log_monitor": False,
    "temp_dir": own_ray.temporary_directory(),
}
_ENDS_WITHIN_S = 10.0


class ExtraNode:
    """A node with processes of its own. The coordinator's is another one, for it was there before."""

    def __init__(self, node: Any) -> None:
        (self._raylet,) = (psutil.Process(each.process.pid) for each in node.all_processes["raylet"])

    def has(self, pid: int) -> bool:
        """Whether a process runs there."""
        return pid in {each.pid for each in self._raylet.children(recursive=True)}

    def lose(self, *, spare: int | None = None) -> None:
        """Kill all of its processes, at once and without a word; ``spare`` lives on. Twice is once."""
        if not self._raylet.is_running():
            return
        for process in [self._raylet, *self._raylet.children(recursive=True)]:
            if process.pid != spare:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        # Ray's workers look for a process of their raylet's id, and a zombie is one. On real nodes init reaps it.
        self._raylet.wait(_ENDS_WITHIN_S)


@contextmanager
def extra_node() -> Iterator[ExtraNode]:
    """A node more in the Ray that this process is connected to."""
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    before = os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    own_ray.prepare_environment(loopback=True)
    try:
        parameters = RayParams(
            gcs_address=ray.get_runtime_context().gcs_address,
            node_ip_address=_LOOPBACK,
            num_cpus=8,
            object_store_memory=_STORE_BYTES,
            include_log_monitor=False,  # type: ignore[arg-type]
            temp_dir=own_ray.temporary_directory(),
        )
        node = Node(parameters, head=False, shutdown_at_exit=True, spawn_reaper=False)
    finally:
        if before is None:
            del os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]
    extra = ExtraNode(node)
    try:
        yield extra
    finally:
        extra.lose()


@contextmanager
def several_nodes(cpus: int) -> Iterator[Cluster]:
    """A Ray of its own, in place of that of the other tests; nodes are added to it. The first has so many CPUs."""
    others = ray.get_runtime_context().gcs_address if ray.is_initialized() else None
    disconnect()
    os.environ.setdefault("RAY_worker_niceness", "0")
    prepare(loopback=True)
    try:
        cluster = Cluster(head_node_args={**_SMALL, "num_cpus": cpus, "no_monitor": True}, initialize_head=True)
        try:
            ray.init(address=cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
            yield cluster
        finally:
            disconnect()
            cluster.shutdown()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"]
        if others is not None:
            connect("tests", others)


def add_node(cluster: Cluster) -> Any:
    """Add a node with one CPU."""
    return cluster.add_node(**_SMALL, num_cpus=1)


def announce_end(node: Any) -> None:
    """Let Ray know that the node goes away within a minute, as a cloud does with machines that it wants back."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DRAIN_NODE_REASON_PREEMPTION  # type: ignore[attr-defined]
    deadline_ms = int(time.time() * 1000) + 60_000
    accepted, why = GcsClient(address=node.gcs_address).drain_node(node.node_id, reason, "by a test", deadline_ms)
    assert accepted, why
