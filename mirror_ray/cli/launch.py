"""Finds Ray or starts it, and the coordinator in it. The only file of the command line that imports Ray."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mirror_ray.cli import own_ray
from mirror_ray.cli.system import Ask, System
from mirror_ray.coordination.naming import NAMESPACE, coordinator_name
from mirror_ray.model.errors import MirrorError, NotRunningError

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings

_LOOPBACK = "127.0.0.1"
_DEFAULT_EXTRA = "ray.dashboard.optional_deps"
#: Replicators take logical CPUs; on one machine how many run is for the user to say.
_LEAST_LOGICAL_CPUS = 16
#: No data goes through the object store.
_OBJECT_STORE_BYTES = 100 << 20

_PROBE_TIMEOUT_S = 5.0

#: Ray restarts a coordinator that died within seconds; a question that meets the gap is asked again.
_RESTART_PATIENCE_S = 20.0

#: mirror_ray knows nothing of the package ``actors``; how to start a system comes to it by name, here alone.
_START_SYSTEM = "actors.spawn:start_system"


def attach(name: str, address: str | None) -> System:
    """The running system of that name.

    Args:
        name: The system's name.
        address: Ray's address; None: the system's own Ray on this machine, else the Ray that runs here.

    Raises:
        NotRunningError: There is no Ray, or no system of that name in it.
    """
    own = connect(name, address)
    handle = _coordinator(name)
    if handle is None:
        _disconnect()
        raise NotRunningError(f"no running system is named {name!r}: start one with `mirror-ray up CONFIG`")
    return _system(name, handle, owned=own if own and own.detached else None, joined=True)


def connect(name: str, address: str | None) -> own_ray.OwnRay | None:
    """Connect to the Ray in which the system of that name is to be found; return it where it is the system's own.

    Raises:
        NotRunningError: There is no Ray.
    """
    own = own_ray.find(name) if address is None else None
    _connect(address or (own.address if own else "auto"), name)
    return own


def start(settings: MirrorSettings, name: str, address: str | None, *, replicators: int | None, detach: bool) -> System:
    """Start the flows under that name, or update the running system of that name to them.

    Without an address, and where none runs, a Ray of its own is started on loopback; it ends when the returned system
    is closed, or with ``detach`` by `mirror-ray down`.

    Raises:
        MirrorError: Ray can't be reached or does not start, or the settings are refused.
    """
    with _keeping_sigterm():
        return _start(settings, name, address, replicators=replicators, detach=detach)


def _start(
    settings: MirrorSettings, name: str, address: str | None, *, replicators: int | None, detach: bool
) -> System:
    own = own_ray.find(name) if address is None else None
    fresh = _start_ray(name, detached=detach) if own is None and address is None else None
    try:
        ray_of_system = own or fresh
        _connect(address or (ray_of_system.address if ray_of_system else "auto"), name)
        joined = _coordinator(name) is not None
        coordinator = _start_system(settings, name, replicators)
    except BaseException:
        _disconnect()
        if fresh is not None:
            own_ray.stop(fresh)
        raise
    if fresh is not None:
        return _system(name, coordinator, owned=fresh, joined=False, close_ray=not detach)
    return _system(name, coordinator, owned=own if own and own.detached else None, joined=joined)


@contextmanager
def _keeping_sigterm() -> Iterator[None]:
    """Ray puts its own handler for SIGTERM in the place of ours."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def _start_system(settings: MirrorSettings, name: str, replicators: int | None) -> Any:
    from ray.exceptions import RayActorError, RayTaskError

    module, _, function = _START_SYSTEM.partition(":")
    try:
        return getattr(import_module(module), function)(settings, name=name, replicators=replicators)
    except RayTaskError as error:
        raise _cause(error, "start") from error
    except RayActorError as error:
        raise MirrorError(f"the coordinator of {name!r} did not start: {_first_line(error)}") from error


def _start_ray(name: str, *, detached: bool) -> own_ray.OwnRay:
    """Start Ray on loopback: as `ray start` does, but without what a single machine has no use for.

    Left out, each being seconds of start-up and a process of a hundred megabytes: the dashboard's server (without the
    dashboard Ray still starts it, and waits for it, to report usage statistics), the autoscaler, the log monitor; and
    the parts of the node's agent that come with ``ray[default]``.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    _prepare(loopback=True)
    from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    class SmallNode(Node):
        def start_api_server(self, **_: Any) -> None:
            self._webui_url = ""

    ensure_token_if_auth_enabled(None, create_token_if_missing=True)
    parameters = RayParams(
        node_ip_address=_LOOPBACK,
        gcs_server_port=0,
        num_cpus=max(_LEAST_LOGICAL_CPUS, os.cpu_count() or 1),
        object_store_memory=_OBJECT_STORE_BYTES,
        include_dashboard=False,
        include_log_monitor=False,  # type: ignore[arg-type]
        no_monitor=True,
        temp_dir=own_ray.temporary_directory(),
    )
    # An import that fails is how Ray tells a plain installation from ray[default].
    sys.modules[_DEFAULT_EXTRA] = None  # type: ignore[assignment]
    try:
        node = SmallNode(parameters, head=True, shutdown_at_exit=not detached, spawn_reaper=not detached)
    except Exception as error:
        raise MirrorError(
            f"Ray did not start on this machine: {error!r}; its logs are in {parameters.temp_dir}"
        ) from error
    finally:
        del sys.modules[_DEFAULT_EXTRA]
    pids = [each.process.pid for kind in ("raylet", "gcs_server") for each in node.all_processes[kind]]
    own = own_ray.OwnRay(
        name=name,
        address=node.gcs_address,
        processes=own_ray.processes_of(pids),
        session_dir=str(node.get_session_dir_path()),  # type: ignore[no-untyped-call]
        detached=detached,
    )
    own_ray.remember(own)
    return own


def _prepare(*, loopback: bool) -> None:
    """Import Ray, set up as it needs to be.

    It replaces a loopback address by the machine's outer one unless it is told, by the switch that it has for systems
    without clusters, that it runs on one machine only.
    """
    own_ray.prepare_environment(loopback=loopback)
    from ray._private import ray_constants

    ray_constants.ENABLE_RAY_CLUSTER = not loopback


def _connect(address: str, name: str) -> None:
    _prepare(loopback=own_ray.is_own(address))
    import ray

    try:
        found = _ray_of_this_machine() if address == "auto" else address
        _probe(found)
        ray.init(
            address=found,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        where, detail = ("on this machine", "") if address == "auto" else (f"at {address}", f" ({_first_line(error)})")
        others = f"; running here: {', '.join(own_ray.names())}" if own_ray.names() else ""
        raise NotRunningError(
            f"no Ray answers {where}, so no system {name!r} runs there: start one with `mirror-ray up CONFIG`,"
            f" or name its Ray with --address{detail}{others}"
        ) from error


def _ray_of_this_machine() -> str:
    """Address of the Ray that `ray start` made here last.

    Raises:
        ConnectionError: There is none.
    """
    from ray._private import services

    address = services.canonicalize_bootstrap_address("auto")
    if address is None:
        raise ConnectionError("no Ray runs here")
    return str(address)


def _probe(address: str) -> None:
    """Raise ConnectionError where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in host:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_TIMEOUT_S):
            pass


def _disconnect() -> None:
    import ray

    ray.shutdown()


def _coordinator(name: str) -> Any | None:
    import ray

    try:
        return ray.get_actor(coordinator_name(name), namespace=NAMESPACE)
    except ValueError:
        return None


def _system(name: str, handle: Any, *, owned: own_ray.OwnRay | None, joined: bool, close_ray: bool = False) -> System:
    """``owned``: the Ray that ends with the system; ``close_ray``: it ends with this process too."""

    def end() -> None:
        import ray

        ray.kill(handle)
        if owned is not None and not close_ray:
            _disconnect()
            own_ray.stop(owned)

    def close() -> None:
        _disconnect()
        if owned is not None and close_ray:
            own_ray.stop(owned)

    return System(name, _asker(name, handle), end=end, close=close, joined=joined)


def _asker(name: str, handle: Any) -> Ask:
    def ask(method: str, *args: Any, timeout_s: float) -> Any:
        import ray
        from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

        deadline_s = time.monotonic() + _RESTART_PATIENCE_S
        while True:
            try:
                return ray.get(getattr(handle, method).remote(*args), timeout=timeout_s)
            except GetTimeoutError:
                raise MirrorError(
                    f"the coordinator of {name!r} did not answer {method} within {timeout_s:g} s: its log is in Ray's"
                    " session directory; if it hangs, `mirror-ray down --deadline 0` ends the system"
                ) from None
            except RayTaskError as error:
                raise _cause(error, method) from error
            except RayActorError:
                if time.monotonic() > deadline_s or _coordinator(name) is None:
                    raise NotRunningError(
                        f"the coordinator of {name!r} has ended: `mirror-ray up CONFIG` starts it"
                    ) from None
                time.sleep(0.5)

    return ask


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _cause(error: Any, method: str) -> MirrorError:
    """What a method of the coordinator raised, as an error for people."""
    if isinstance(error.cause, MirrorError):
        return error.cause
    return MirrorError(f"the coordinator failed in {method}: {error.cause!r}")
