"""A second node of a Ray on this machine, to be lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import ray

from mirror_ray import own_ray

_LOOPBACK = "127.0.0.1"
_STORE_BYTES = 80 << 20
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
