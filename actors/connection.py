"""Connects this process to the Ray in which a system runs.

Ray is imported inside functions: it reads its environment when it is imported, and ``prepare`` sets that first.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from mirror_ray import own_ray, runtime
from mirror_ray.model.errors import NotRunningError
from mirror_ray.own_ray import OwnRay
from mirror_ray.state.actor_names import NAMESPACE, coordinator_name

_PROBE_TIMEOUT_S = 5.0
#: Ray imports them at its start, for runtime environments, accelerators and labels.
_LATE_MODULES = ("jsonschema", "requests", "yaml")


def connect(name: str, address: str | None) -> OwnRay | None:
    """Connect to the Ray in which the system of that name is to be found; returned where it is the system's own.

    Raises:
        NotRunningError: There is no Ray, or this process is connected to another one.
    """
    address = address or os.environ.get("RAY_ADDRESS")
    own = own_ray.find(name) if address is None else None
    if is_connected():
        _refuse_other(name, own)
        return own
    _initialise(name, own.address if own else address or "auto")
    return own


def disconnect() -> None:
    """Disconnect; without effect where this process is not connected."""
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


class _LateModule(ModuleType):
    """A module that is imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        sys.modules.pop(self.__name__, None)
        module = import_module(self.__name__)
        self.__dict__.update(module.__dict__)
        return getattr(module, name)


def lighten_ray() -> None:
    """Leave out of Ray's import what no command of ours uses, for a process that is ours alone: a third of its time."""
    for name in _LATE_MODULES:
        if name not in sys.modules and find_spec(name) is not None:
            sys.modules[name] = _LateModule(name)


def skip_foreign_serializers() -> None:
    """For a process that is ours alone, before Ray pickles anything in it: there are no tables nor web models in it.

    Ray imports pyarrow, numpy and pydantic otherwise, where they are installed, to pickle their objects in other ways:
    a third of a second.
    """
    from ray.util import serialization_addons

    serialization_addons.apply = lambda _context: None


def probe(address: str) -> None:
    """Raise OSError where nobody listens at a Ray's address: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "://" not in host:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_TIMEOUT_S):
            pass


def first_line(error: BaseException) -> str:
    """An error in one line; Ray's have many."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def is_connected() -> bool:
    """Whether this process is connected to a Ray; does not import it."""
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
    if runtime.process_is_ours:
        lighten_ray()
    prepare(loopback=own_ray.is_own(address))
    import ray
    from ray.exceptions import RayError

    try:
        found = _ray_of_this_machine() if address == "auto" else address
        probe(found)
        if runtime.process_is_ours:
            skip_foreign_serializers()
        ray.init(address=found, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        where, detail = ("on this machine", "") if address == "auto" else (f"at {address}", f" ({first_line(error)})")
        raise NotRunningError(
            f"no Ray answers {where}, so no system {name!r} runs there: start one with `mirror-ray up CONFIG`,"
            f" or name its Ray with --address or RAY_ADDRESS{detail}{other_systems()}"
        ) from error


def other_systems() -> str:
    """Systems with a Ray of their own on this machine, as the end of a sentence."""
    names = own_ray.names()
    return f"; running here: {', '.join(names)}" if names else ""


def _ray_of_this_machine() -> str:
    """Address of the Ray that `ray start` made here last; raises ConnectionError where there is none."""
    from ray._private import services

    address = services.canonicalize_bootstrap_address("auto")
    if address is None:
        raise ConnectionError("no Ray runs here")
    return str(address)
