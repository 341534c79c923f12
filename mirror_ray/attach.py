"""Finds a running system by name, for the Python shell and the command line alike.

::

    >>> import mirror_ray
    >>> mirror = mirror_ray.attach()
    >>> mirror
    >>> mirror.scale(3)

Ray is imported when it is first needed, for it reads its environment when it is imported.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from typing import Any

from mirror_ray import own_ray
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError, NoAnswerError, NotRunningError
from mirror_ray.own_ray import OwnRay
from mirror_ray.state.actor_names import DEFAULT_NAME, NAMESPACE, coordinator_name, is_actor_of

__all__ = [
    "Mirror",
    "attach",
    "cause",
    "connect",
    "disconnect",
    "find_coordinator",
    "first_line",
    "prepare",
    "spare_arrow",
]

_PROBE_TIMEOUT_S = 5.0
#: How often a coordinator that restarts is asked again.
_AGAIN_S = 0.5


def attach(name: str = DEFAULT_NAME, address: str | None = None) -> Mirror:
    """Find the running system ``name``.

    Args:
        name: As given to ``up --name``.
        address: Of its Ray; None: ``RAY_ADDRESS``, else the system's own Ray on this machine, else the Ray that
            runs here. Where Ray is initialised in this process already, the system is looked for there alone.

    Raises:
        NotRunningError: There is no Ray there, or no such system in it.
    """
    fresh = not _is_connected()
    own = connect(name, address)
    coordinator = find_coordinator(name)
    if coordinator is None:
        if fresh:
            disconnect()
        raise NotRunningError(f"no running system is named {name!r}: start one with `mirror-ray up CONFIG`{_others()}")
    return Mirror(name, _RayLink(name, coordinator, own=own, connected=fresh))


def connect(name: str, address: str | None) -> OwnRay | None:
    """Connect to the Ray in which the system of that name is to be found; returned where it is the system's own.

    Raises:
        NotRunningError: There is no Ray, or this process is connected to another one.
    """
    address = address or os.environ.get("RAY_ADDRESS")
    own = own_ray.find(name) if address is None else None
    if _is_connected():
        _refuse_other(name, own)
        return own
    _initialise(name, own.address if own else address or "auto")
    return own


def disconnect() -> None:
    """Let go of Ray; without effect where it is let go of already."""
    import ray

    ray.shutdown()


def find_coordinator(name: str) -> Any | None:
    """The actor handle of the system's coordinator in the Ray that this process is connected to."""
    import ray

    try:
        return ray.get_actor(coordinator_name(name), namespace=NAMESPACE)
    except ValueError:
        return None


def prepare(*, loopback: bool) -> None:
    """Import Ray, set up as it needs to be; also where it has been imported before.

    It replaces a loopback address by the machine's outer one unless it is told, by the switch that it has for systems
    without clusters, that it runs on one machine only.
    """
    late = "ray" in sys.modules
    own_ray.prepare_environment(loopback=loopback)
    from ray._private import ray_constants
    from ray._raylet import Config  # type: ignore[attr-defined]

    ray_constants.ENABLE_RAY_CLUSTER = not loopback
    if late:
        # Makes Ray read its environment again.
        Config.initialize("")


def spare_arrow() -> None:
    """For a process that is ours alone, before Ray pickles anything in it: it has no Arrow tables.

    Where pyarrow is installed Ray imports it otherwise, and numpy with it, to pickle tables well: a sixth of a second.
    """
    from ray._private import arrow_serialization

    arrow_serialization._register_custom_datasets_serializers = lambda _context: None  # noqa: SLF001


def probe(address: str) -> None:
    """Raise OSError where nobody listens at a Ray's address: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in host:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_TIMEOUT_S):
            pass


def first_line(error: BaseException) -> str:
    """An error in one line; Ray's have many."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def cause(error: Any, method: str) -> MirrorError:
    """What a method of the coordinator raised, as an error for people. ``error``: Ray's RayTaskError."""
    if isinstance(error.cause, MirrorError):
        return error.cause
    return MirrorError(f"the coordinator failed in {method}: {error.cause!r}")


def _is_connected() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _refuse_other(name: str, own: OwnRay | None) -> None:
    import ray

    here = ray.get_runtime_context().gcs_address
    if own is not None and own.address != here:
        raise NotRunningError(
            f"{name!r} runs in its own Ray at {own.address}, and this process is connected to the Ray at {here}:"
            " leave that one with ray.shutdown() and attach again"
        )


def _initialise(name: str, address: str) -> None:
    prepare(loopback=own_ray.is_own(address))
    import ray
    from ray.exceptions import RayError

    try:
        found = _ray_of_this_machine() if address == "auto" else address
        probe(found)
        ray.init(address=found, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        where, detail = ("on this machine", "") if address == "auto" else (f"at {address}", f" ({first_line(error)})")
        raise NotRunningError(
            f"no Ray answers {where}, so no system {name!r} runs there: start one with `mirror-ray up CONFIG`,"
            f" or name its Ray with --address or RAY_ADDRESS{detail}{_others()}"
        ) from error


def _others() -> str:
    names = own_ray.names()
    return f"; running here: {', '.join(names)}" if names else ""


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


class _RayLink:
    """The way to a coordinator through Ray. See ``mirror_ray.mirror.CoordinatorLink``."""

    def __init__(self, name: str, coordinator: Any, *, own: OwnRay | None, connected: bool) -> None:
        """``own``: the system's own Ray, if it has one; ``connected``: Ray was initialised for this link."""
        self._name = name
        self._coordinator = coordinator
        self._own = own
        self._connected = connected

    def ask(self, method: str, *args: object, timeout_s: float) -> Any:
        """See ``Link``."""
        import ray
        from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

        until_s = time.monotonic() + timeout_s
        while True:
            try:
                answer = getattr(self._coordinator, method).remote(*args)
                return ray.get(answer, timeout=max(0.0, until_s - time.monotonic()))
            except GetTimeoutError:
                raise NoAnswerError(
                    f"the coordinator of {self._name!r} did not answer {method} within {timeout_s:g} s: its log is in"
                    " Ray's session directory; if it hangs, `mirror-ray down --deadline 0` ends the system"
                ) from None
            except RayTaskError as error:
                raise cause(error, method) from error
            except RayActorError:
                found = find_coordinator(self._name)
                if found is None or time.monotonic() > until_s:
                    raise NotRunningError(
                        f"the system {self._name!r} has ended: `mirror-ray up CONFIG` starts it"
                    ) from None
                self._coordinator = found
                time.sleep(_AGAIN_S)

    def end(self) -> None:
        """See ``Link``. The coordinator first: it would replace the others."""
        import ray

        ray.kill(self._coordinator)
        for actor in ray.util.list_named_actors(all_namespaces=True):
            if actor["namespace"] == NAMESPACE and is_actor_of(self._name, str(actor["name"])):
                try:
                    ray.kill(ray.get_actor(str(actor["name"]), namespace=NAMESPACE))
                except ValueError:  # it has ended by itself
                    continue
        if self._own is not None and self._own.detached:
            disconnect()
            own_ray.stop(self._own)

    def close(self) -> None:
        """See ``Link``. A Ray that was initialised by somebody else stays."""
        if self._connected:
            disconnect()
