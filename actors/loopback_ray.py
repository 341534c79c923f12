"""A Ray on loopback for one system, without what a single machine has no use for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from actors import lazy_agent
from actors.connection import prepare
from mirror_ray import own_ray
from mirror_ray.lab.devcluster.ports import free_port
from mirror_ray.model.errors import MirrorError
from mirror_ray.whoami import this_command

_LOOPBACK = "127.0.0.1"
_DEFAULT_EXTRA = "ray.dashboard.optional_deps"
#: Ports of what is never there; nobody else listens on them either.
_NOBODY = (1, 2, 3)
#: Replicators take logical CPUs; on one machine how many run is for the user to say.
_LEAST_LOGICAL_CPUS = 16
#: No data goes through the object store.
_OBJECT_STORE_BYTES = 100 << 20
#: What Ray keeps for good or nearly so: bytes of a log before it begins anew, logs before that, and what the GCS
#: remembers of processes and actors that have ended, each command among them. Ray's own bounds are 3 GB of each log and
#: 100,000 of those.
_BOUNDS = {
    "RAY_ROTATION_MAX_BYTES": 16 << 20,
    "RAY_ROTATION_BACKUP_COUNT": 2,
    "RAY_maximum_gcs_dead_worker_cached_count": 1000,
    "RAY_maximum_gcs_destroyed_actor_cached_count": 1000,
}
#: On one machine a raylet that does not answer is slow, not lost. By itself Ray gives the node up, with every actor,
#: when it has not answered five times in a row, and a worker's process that is not up within a minute.
_PATIENCE = {"RAY_health_check_failure_threshold": 100, "RAY_worker_register_timeout_seconds": 300}


def start_ray(name: str, *, detached: bool) -> own_ray.OwnRay:
    """Start Ray on loopback for a system: as `ray start` does, but without what a single machine has no use for.

    Left out, each being seconds of start-up and a process of a hundred megabytes: the dashboard's server (without the
    dashboard Ray still starts it, and waits for it, to report usage statistics), the dashboard's agent, the autoscaler,
    the log monitor. The agent for runtime environments comes up when first asked. See docs/decisions/0004-own-ray.md.
    By the system's ``name`` other processes find this Ray; ``detached``: it outlives this process.

    Raises:
        ConfigError: What is to be ours alone is another user's.
        MirrorError: It did not start.
    """
    own_ray.prepare_to_remember()
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if own_ray.protect_token():
        from mirror_ray.cli.output import say

        say(
            "others could read Ray's token until now; they can't any more. While no Ray runs here, delete"
            " ~/.ray/auth_token: the next start makes a new one",
            "yellow",
        )
    # Ray gives its workers niceness 15, so that they leave its own processes room; whatever else runs on the machine at
    # 0 then starves the copying.
    os.environ.setdefault("RAY_worker_niceness", "0")
    for variable, value in (_BOUNDS | _PATIENCE).items():
        os.environ.setdefault(variable, str(value))
    prepare(loopback=True)
    from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    begun: list[Node] = []

    class SmallNode(Node):
        def __init__(self, *args: Any, **options: Any) -> None:
            begun.append(self)
            super().__init__(*args, **options)

        def start_api_server(self, **_: Any) -> None:
            self._webui_url = ""

    agent_port = free_port()
    # With the agents' ports given, the raylet does not wait for the agents.
    parameters = RayParams(
        node_ip_address=_LOOPBACK,
        gcs_server_port=0,
        num_cpus=max(_LEAST_LOGICAL_CPUS, os.cpu_count() or 1),
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        include_log_monitor=False,  # type: ignore[arg-type]
        no_monitor=True,
        temp_dir=own_ray.temporary_directory(),
        metrics_agent_port=_NOBODY[0],
        metrics_export_port=_NOBODY[1],
        dashboard_agent_listen_port=_NOBODY[2],
        runtime_env_agent_port=agent_port,
    )
    try:
        ensure_token_if_auth_enabled(None, create_token_if_missing=False)
        with _agents_on_demand(agent_port), own_ray.private_umask():
            node = SmallNode(parameters, head=True, shutdown_at_exit=not detached, spawn_reaper=not detached)
        own = _own(name, node, detached=detached)
        own_ray.remember(own)
    except BaseException as error:
        for begun_node in begun:
            _end_node(begun_node)
        if isinstance(error, MirrorError) or not isinstance(error, Exception):
            raise
        raise MirrorError(
            f"Ray did not start on this machine: {error!r}; its logs are in {parameters.temp_dir}"
        ) from error
    return own


def _own(name: str, node: Any, *, detached: bool) -> own_ray.OwnRay:
    pids = [info.process.pid for kind in ("raylet", "gcs_server") for info in node.all_processes[kind]]
    return own_ray.OwnRay(
        name=name,
        address=node.gcs_address,
        processes=own_ray.processes_of(pids),
        session_dir=str(node.get_session_dir_path()),
        detached=detached,
        starter_pid=os.getpid(),
        starter=this_command(),
    )


def _end_node(node: Any) -> None:
    """End the processes of a node that has not come up, or that Ctrl-C has come upon: nobody else knows of them."""
    for started in getattr(node, "all_processes", {}).values():
        for info in started:
            info.process.kill()


@contextmanager
def _agents_on_demand(port: int) -> Iterator[None]:
    """A raylet that is started meanwhile has ``lazy_agent.py`` for its agents.

    Each took one to two CPU seconds to start. That for runtime environments comes up when ``port`` is first asked:
    RayDP asks. The dashboard's never does.
    """
    from ray._private import services
    from ray._private.ray_constants import PROCESS_TYPE_RAYLET

    begin = services.start_ray_process
    waits = {"--dashboard_agent_command=": 0, "--runtime_env_agent_command=": port}

    def start_ray_process(command: list[str], process_type: str, *args: Any, **options: Any) -> Any:
        if process_type == PROCESS_TYPE_RAYLET:
            for key, at in waits.items():
                (place,) = (place for place, word in enumerate(command) if word.startswith(key))
                agent = subprocess.list2cmdline([sys.executable, "-S", "-E", lazy_agent.__file__, str(at)])
                command[place] = f"{key}{agent} {command[place].removeprefix(key)}"
            command.append(f"--dashboard_agent_listen_port={_NOBODY[2]}")
        return begin(command, process_type, *args, **options)

    # An import that fails is how Ray tells a plain installation from ray[default].
    sys.modules[_DEFAULT_EXTRA] = None  # type: ignore[assignment]
    services.start_ray_process = start_ray_process
    try:
        yield
    finally:
        services.start_ray_process = begin
        del sys.modules[_DEFAULT_EXTRA]
