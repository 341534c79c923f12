"""Rays of several nodes on this machine, whose nodes come and go."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import ray
from ray.autoscaler._private.fake_multi_node.node_provider import FAKE_HEAD_NODE_ID
from ray.cluster_utils import Cluster

from actors.connection import connect, disconnect, prepare
from mirror_ray import own_ray
from mirror_ray.lab.devcluster.ports import free_port
from mirror_ray.state.actor_names import NAMESPACE

_LOOPBACK = "127.0.0.1"
_STORE_BYTES = 80 << 20
_FAKE_CLOUD = "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider"
_HEAD = "ray.head.default"
#: What Ray wants to read in an autoscaler's configuration, even where a cloud of its own has no use for it.
_EMPTY_LISTS = (
    "setup_commands head_setup_commands worker_setup_commands initialization_commands head_start_ray_commands"
    " worker_start_ray_commands cluster_synced_files rsync_exclude rsync_filter"
)
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
        (self._raylet,) = (psutil.Process(raylet.process.pid) for raylet in node.all_processes["raylet"])

    def has(self, pid: int) -> bool:
        """Whether a process runs there."""
        return pid in {child.pid for child in self._raylet.children(recursive=True)}

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
def several_nodes(cpus: int, **head: Any) -> Iterator[Cluster]:
    """A Ray of its own, in place of that of the other tests; nodes are added to it.

    ``cpus``: of its first node; ``head``: more of what Ray is to know of that one.
    """
    others = ray.get_runtime_context().gcs_address if ray.is_initialized() else None
    disconnect()
    with patch.dict(os.environ, {"RAY_worker_niceness": "0"}):
        prepare(loopback=True)
        cluster = Cluster(initialize_head=True, head_node_args={"no_monitor": True, **_SMALL, "num_cpus": cpus, **head})
        try:
            ray.init(address=cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
            yield cluster
        finally:
            disconnect()
            cluster.shutdown()  # type: ignore[no-untyped-call]
    if others is not None:
        connect("tests", others)


@contextmanager
def autoscaled_nodes(directory: Path) -> Iterator[Cluster]:
    """The same with Ray's autoscaler: the first node has one CPU, and two more of one CPU each can be had.

    The autoscaler is the real one; what stands for a cloud starts processes on this machine, and looks every second.
    """
    port = free_port()
    address = f"{_LOOPBACK}:{port}"
    provider = {"type": "external", "module": _FAKE_CLOUD, "launch_multiple": True, "gcs_address": address}
    config = {
        **dict.fromkeys(_EMPTY_LISTS.split(), ()),
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "cluster_name": "autoscaled",
        "upscaling_speed": 1.0,
        "file_mounts_sync_continuously": False,
        "provider": {**provider, "head_node_id": FAKE_HEAD_NODE_ID},
        "max_workers": 2,
        "idle_timeout_minutes": 0.1,
        "head_node_type": _HEAD,
        "available_node_types": {
            _HEAD: {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
            "small": {
                "resources": {"CPU": 1, "object_store_memory": _STORE_BYTES},
                "node_config": {},
                "min_workers": 0,
                "max_workers": 2,
            },
        },
    }
    path = directory / "autoscaling.json"
    path.write_text(json.dumps(config))
    ids = ("RAY_OVERRIDE_NODE_ID_FOR_TESTING", "RAY_CLOUD_INSTANCE_ID")
    names = {"RAY_NODE_TYPE_NAME": _HEAD, **dict.fromkeys(ids, FAKE_HEAD_NODE_ID)}
    wishes = {"RAY_FAKE_CLUSTER": "1", "RAY_enable_autoscaler_v2": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    with (
        patch.dict(os.environ, wishes),
        several_nodes(
            1, gcs_server_port=port, no_monitor=False, autoscaling_config=str(path), env_vars=names
        ) as cluster,
    ):
        yield cluster


def add_node(cluster: Cluster, **more: Any) -> Any:
    """Add a node with one CPU, and ``more`` of what Ray is to know of it.

    Ray waits 30 s for it, which a busy machine may need longer for: then once more.
    """
    before = set(psutil.Process().children(recursive=True))
    try:
        return cluster.add_node(**_SMALL, num_cpus=1, **more)
    except Exception as error:
        if "timed out during startup" not in str(error):
            raise
        for process in set(psutil.Process().children(recursive=True)) - before:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return cluster.add_node(**_SMALL, num_cpus=1, **more)


def announce_end(node: Any) -> None:
    """Let Ray know that the node goes away within a minute, as a cloud does with machines that it wants back."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DRAIN_NODE_REASON_PREEMPTION  # type: ignore[attr-defined]
    deadline_ms = int(time.time() * 1000) + 60_000
    accepted, why = GcsClient(address=node.gcs_address).drain_node(node.node_id, reason, "by a test", deadline_ms)
    assert accepted, why
