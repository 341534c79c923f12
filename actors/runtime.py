"""Ray as the runtime of systems: ``mirror_ray.runtime`` loads this module by its name."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from actors.connection import (
    connect,
    disconnect,
    find_coordinator,
    first_line,
    is_connected,
    other_systems,
    probe,
    skip_foreign_serializers,
)
from actors.coordinator_link import RayCoordinatorLink, raised_by
from mirror_ray import own_ray
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.model.starter import Starter, ends_with
from mirror_ray.runtime import AgreedChanges, StartedSystem
from mirror_ray.whoami import this_command, whoami

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings

_PROBE_EVERY_S = 2.0
_GONE_AFTER_PROBES = 5


def attach(name: str, address: str | None) -> Mirror:
    """See ``mirror_ray.runtime.attach``."""
    fresh = not is_connected()
    own = connect(name, address)
    coordinator = find_coordinator(name)
    if coordinator is None:
        if fresh:
            disconnect()
        raise NotRunningError(
            f"no running system is named {name!r}: start one with `mirror-ray up CONFIG`{other_systems()}"
        )
    return Mirror(name, RayCoordinatorLink(name, coordinator, own=own, connected=fresh))


@contextmanager
def start(
    settings: MirrorSettings,
    name: str,
    address: str | None,
    *,
    replicators: int | None,
    detach: bool,
    agree: Callable[[Mirror], AgreedChanges] | None = None,
    check: Callable[[], None] | None = None,
) -> Iterator[StartedSystem]:
    """See ``mirror_ray.runtime.start``."""
    fresh: own_ray.OwnRay | None = None
    stays = False
    try:
        with keeping_sigterm():
            if address is None and own_ray.find(name) is None:
                from actors.loopback_ray import start_ray

                fresh = start_ray(name, detached=detach)
            connect(name, address)
            _keep_stdout_for_data()
            skip_foreign_serializers()
            if check is not None:
                check()
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
        from mirror_ray.cli.options import name_option

        raise MirrorError(f"{name} runs already: `mirror-ray down{name_option(name)}` ends it, or give another --name")
    return agree(system)


@contextmanager
def loopback_ray(name: str) -> Iterator[str]:
    """See ``mirror_ray.runtime.loopback_ray``."""
    from actors.loopback_ray import start_ray

    fresh: own_ray.OwnRay | None = None
    try:
        with keeping_sigterm():
            fresh = start_ray(name, detached=False)
        yield fresh.address
    finally:
        _leave(fresh)


@contextmanager
def some_ray(name: str, address: str | None) -> Iterator[None]:
    """See ``mirror_ray.runtime.some_ray``."""
    with loopback_ray(name) if address is None else nullcontext():
        try:
            with keeping_sigterm():
                connect(name, address)
                _keep_stdout_for_data()
            yield
        finally:
            _leave(None)


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
    """See ``mirror_ray.runtime.ending_with_ray``."""
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
    from mirror_ray.cli.output import say

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

    from actors.system import start_system

    try:
        start_system(settings, name=name, **options)
    except RayTaskError as error:
        raise raised_by(error, "start") from error
    except RayActorError as error:
        raise MirrorError(f"the coordinator of {name!r} did not start: {first_line(error)}") from error
