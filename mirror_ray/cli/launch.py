"""Starts systems, in a Ray that runs or in one of their own."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from mirror_ray import own_ray
from mirror_ray.attach import (
    attach,
    cause,
    connect,
    disconnect,
    find_coordinator,
    first_line,
    probe,
    spare_arrow,
)
from mirror_ray.cli.options import name_option
from mirror_ray.cli.output import say
from mirror_ray.cli.small_ray import start_ray, this_command
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.model.starter import Starter, ends_with
from mirror_ray.whoami import whoami

if TYPE_CHECKING:
    from mirror_ray.config.difference import SettingsDifference
    from mirror_ray.config.settings import MirrorSettings

_PROBE_EVERY_S = 2.0
_GONE_AFTER_PROBES = 5

#: mirror_ray knows nothing of the package ``actors``; how to start a system comes to it by name, here alone.
_START_SYSTEM = "actors.spawn:start_system"


class AgreedChanges(NamedTuple):
    """How a system that runs is to be changed."""

    changes: SettingsDifference
    #: See ``SettingsDifference.onto``; None: whatever runs by then.
    onto: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedSystem:
    """A system that was started, or joined; the latter also where somebody else has started it meanwhile."""

    system: Mirror
    #: What was changed of it; None: it did not run before.
    changes: SettingsDifference | None
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
    agree: Callable[[Mirror], AgreedChanges] | None = None,
) -> Iterator[StartedSystem]:
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
            me = Starter(by=whoami(), pid=os.getpid(), command=this_command(), foreground=not detach)
            onto = "" if agreed is None else agreed.onto
            _start_system(settings, name, replicators=replicators, onto=onto, starter=me)
            mirror = attach(name, address)
            own = own_ray.find(name) if address is None and fresh is None else None
            of_ray = own.ends_with if own is not None else None
        stays = detach
        changes = agreed.changes if agreed is not None else None
        yield StartedSystem(system=mirror, changes=changes, ends_with=of_ray or ends_with(mirror.starter(), me))
    finally:
        _leave(None if stays else fresh)


def _agree(agree: Callable[[Mirror], AgreedChanges] | None, name: str, address: str | None) -> AgreedChanges | None:
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
        _leave(fresh)


def _leave(fresh: own_ray.OwnRay | None) -> None:
    """Let go of Ray, and end ``fresh``, also where Ctrl-C comes meanwhile."""
    try:
        if "ray" in sys.modules:
            disconnect()
    finally:
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


def _start_system(settings: MirrorSettings, name: str, **options: Any) -> None:
    from ray.exceptions import RayActorError, RayTaskError

    module, _, function = _START_SYSTEM.partition(":")
    try:
        getattr(import_module(module), function)(settings, name=name, **options)
    except RayTaskError as error:
        raise cause(error, "start") from error
    except RayActorError as error:
        raise MirrorError(f"the coordinator of {name!r} did not start: {first_line(error)}") from error
