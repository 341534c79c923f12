"""Starts systems, and a Ray for them where none is named. The only file of the command line that imports Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirror_ray import own_ray
from mirror_ray.attach import (
    attach,
    cause,
    connect,
    disconnect,
    find_coordinator,
    first_line,
    prepare,
    probe,
    spare_arrow,
)
from mirror_ray.cli.options import name_option
from mirror_ray.cli.output import say
from mirror_ray.devcluster.ports import free_port
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.model.starter import Starter, ends_with
from mirror_ray.whoami import whoami

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.coordination.change import Changed

_LOOPBACK = "127.0.0.1"
_DEFAULT_EXTRA = "ray.dashboard.optional_deps"
#: What stands where Ray's agents would.
_STANDBY = Path(own_ray.__file__).with_name("standby.py")
#: Ports of what is never there; nobody else listens on them either.
_NOBODY = (1, 2, 3)
#: Replicators take logical CPUs; on one machine how many run is for the user to say.
_LEAST_LOGICAL_CPUS = 16
#: No data goes through the object store.
_OBJECT_STORE_BYTES = 100 << 20
_PROBE_EVERY_S = 2.0
_GONE_AFTER_PROBES = 5

#: mirror_ray knows nothing of the package ``actors``; how to start a system comes to it by name, here alone.
_START_SYSTEM = "actors.spawn:start_system"


class Agreed(NamedTuple):
    """How a system that runs is to be changed."""

    changes: Changed
    #: See ``Changed.onto``; None: whatever runs by then.
    onto: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A system that was started, or joined; the latter also where somebody else has started it meanwhile."""

    system: Mirror
    #: What was changed of it; None: it did not run before.
    changes: Changed | None
    #: The process of somebody else with which it ends, in words; None: there is none.
    ends_with: str | None


@contextmanager
def start(
    settings: MirrorSettings,
    name: str,
    address: str | None,
    *,
    replicators: int | None,
    detach: bool,
    agree: Callable[[Mirror], Agreed] | None = None,
) -> Iterator[Started]:
    """Start the flows under that name, or update the running system of that name to them.

    Without an address, and where none runs, a Ray of its own is started on loopback; it ends when the context is left,
    or with ``detach`` by `mirror-ray down`.

    Args:
        settings: Of the flows.
        name: The system's.
        address: Ray's; None: that of the system's own Ray, else ``RAY_ADDRESS``.
        replicators: How many; None: as the settings say, or as many as run.
        detach: Whether it stays when the context is left.
        agree: Asked about a system that runs before it is changed, and says how; raises what keeps it from being
            changed. None: no system that runs is changed.

    Raises:
        MirrorError: Ray can't be reached or does not start, or the settings are refused.
    """
    fresh: own_ray.OwnRay | None = None
    stays = False
    try:
        with keeping_sigterm():
            if address is None and own_ray.find(name) is None:
                fresh = start_ray(name, detached=detach)
            connect(name, address)
            _keep_stdout_for_data()
            spare_arrow()
            agreed = _agree(agree, name, address)
            me = Starter(by=whoami(), pid=os.getpid(), command=_command(), foreground=not detach)
            onto = "" if agreed is None else agreed.onto
            _start_system(settings, name, replicators=replicators, onto=onto, starter=me)
            mirror = attach(name, address)
            own = own_ray.find(name) if address is None and fresh is None else None
            of_ray = own.ends_with if own is not None else None
        stays = detach
        changes = agreed.changes if agreed is not None else None
        yield Started(system=mirror, changes=changes, ends_with=of_ray or ends_with(mirror.starter(), me))
    finally:
        if "ray" in sys.modules:
            disconnect()
        if fresh is not None and not stays:
            own_ray.stop(fresh)


def _agree(agree: Callable[[Mirror], Agreed] | None, name: str, address: str | None) -> Agreed | None:
    """What is agreed to; None: nothing runs."""
    if find_coordinator(name) is None:
        return None
    system = attach(name, address)
    try:
        system.settings()
    except NotRunningError:
        # It has been started, and has not been told of any flow.
        return None
    if agree is None:
        raise MirrorError(f"{name} runs already: `mirror-ray down{name_option(name)}` ends it, or give another --name")
    return agree(system)


@contextmanager
def some_ray(name: str, address: str | None) -> Iterator[None]:
    """Connected to the Ray at ``address``, or else to one of its own on loopback, which ends with the context.

    Raises:
        MirrorError: Ray can't be reached or does not start.
    """
    fresh: own_ray.OwnRay | None = None
    try:
        with keeping_sigterm():
            if address is None:
                fresh = start_ray(name, detached=False)
            connect(name, address)
            _keep_stdout_for_data()
        yield
    finally:
        if "ray" in sys.modules:
            disconnect()
        if fresh is not None:
            own_ray.stop(fresh)


@contextmanager
def ending_with_ray() -> Iterator[None]:
    """While the context lasts, this process ends when the Ray that it is connected to is gone.

    A call into Spark would wait for it in vain, until after a minute Ray itself ends the process, and with an exit code
    that for some commands is an answer.
    """
    import ray

    left = threading.Event()
    address = ray.get_runtime_context().gcs_address
    threading.Thread(target=_end_with_ray, args=(address, left), daemon=True, name="ending_with_ray").start()
    try:
        yield
    finally:
        left.set()


def _end_with_ray(address: str, left: threading.Event) -> None:
    silent = 0
    while silent < _GONE_AFTER_PROBES:
        if left.wait(_PROBE_EVERY_S):
            return
        try:
            probe(address)
            silent = 0
        except OSError:
            silent += 1
    say(f"error: Ray at {address}, in which Spark ran, is gone: once it is back, give the command again", "red")
    os._exit(MirrorError.exit_code)


@contextmanager
def keeping_sigterm() -> Iterator[None]:
    """Ray puts its own handler for SIGTERM in the place of ours."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def _keep_stdout_for_data() -> None:
    """Ray prints a page there for every actor that dies; events say it in a line."""
    from ray._private import worker

    worker._worker_logs_enabled = False  # noqa: SLF001


def _command() -> str:
    """This process, for others."""
    return " ".join(["mirror-ray", *(each for each in sys.argv[1:2] if each.isalpha())])


def _start_system(settings: MirrorSettings, name: str, **options: Any) -> None:
    from ray.exceptions import RayActorError, RayTaskError

    module, _, function = _START_SYSTEM.partition(":")
    try:
        getattr(import_module(module), function)(settings, name=name, **options)
    except RayTaskError as error:
        raise cause(error, "start") from error
    except RayActorError as error:
        raise MirrorError(f"the coordinator of {name!r} did not start: {first_line(error)}") from error


def start_ray(name: str, *, detached: bool) -> own_ray.OwnRay:
    """Start Ray on loopback for a system: as `ray start` does, but without what a single machine has no use for.

    Left out, each being seconds of start-up and a process of a hundred megabytes: the dashboard's server (without the
    dashboard Ray still starts it, and waits for it, to report usage statistics), the dashboard's agent, the autoscaler,
    the log monitor. The agent for runtime environments comes up when first asked. See docs/decisions/0004-own-ray.md.

    Args:
        name: The system's; by it other processes find this Ray.
        detached: Whether it outlives this process.

    Raises:
        MirrorError: It did not start.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    # Ray gives its workers niceness 15, so that they leave its own processes room; whatever else runs on the machine at
    # 0 then starves the copying.
    os.environ.setdefault("RAY_worker_niceness", "0")
    prepare(loopback=True)
    from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    class SmallNode(Node):
        def start_api_server(self, **_: Any) -> None:
            self._webui_url = ""

    ensure_token_if_auth_enabled(None, create_token_if_missing=True)
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
        with _agents_on_demand(agent_port):
            node = SmallNode(parameters, head=True, shutdown_at_exit=not detached, spawn_reaper=not detached)
    except Exception as error:
        raise MirrorError(
            f"Ray did not start on this machine: {error!r}; its logs are in {parameters.temp_dir}"
        ) from error
    pids = [each.process.pid for kind in ("raylet", "gcs_server") for each in node.all_processes[kind]]
    own = own_ray.OwnRay(
        name=name,
        address=node.gcs_address,
        processes=own_ray.processes_of(pids),
        session_dir=str(node.get_session_dir_path()),  # type: ignore[no-untyped-call]
        detached=detached,
        starter_pid=os.getpid(),
        starter=_command(),
    )
    own_ray.remember(own)
    return own


@contextmanager
def _agents_on_demand(port: int) -> Iterator[None]:
    """A raylet that is started meanwhile has ``standby.py`` for its agents; each took one to two CPU seconds to start.

    That for runtime environments comes up when ``port`` is first asked: RayDP asks. The dashboard's never does.
    """
    from ray._private import services
    from ray._private.ray_constants import PROCESS_TYPE_RAYLET

    begin = services.start_ray_process
    waits = {"--dashboard_agent_command=": 0, "--runtime_env_agent_command=": port}

    def start_ray_process(command: list[str], process_type: str, *args: Any, **options: Any) -> Any:
        if process_type == PROCESS_TYPE_RAYLET:
            for key, at in waits.items():
                (place,) = (place for place, each in enumerate(command) if each.startswith(key))
                standby = subprocess.list2cmdline([sys.executable, "-S", "-E", str(_STANDBY), str(at)])
                command[place] = f"{key}{standby} {command[place].removeprefix(key)}"
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
