"""Runs a system in the foreground: shows progress until Ctrl-C, a deadline, or everything is copied; then drains."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mirror_ray.cli.live_view import LiveView
from mirror_ray.cli.output import say, stopped_text
from mirror_ray.cli.progress import CatchUp, CatchUpVerdict
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import NotRunningError

_POLL_INTERVAL_S = 0.5


def follow(
    system: Mirror, view: LiveView, *, until_caught_up: bool = False, for_s: float | None = None
) -> CatchUpVerdict | None:
    """Show progress until it ends.

    Returns:
        With ``until_caught_up`` the verdict, "moving" when ``for_s`` was over first; else None.

    Raises:
        NotRunningError: Somebody else stopped the system.
        KeyboardInterrupt: Ctrl-C.
    """
    catch_up = CatchUp()
    began_s = time.monotonic()
    verdict = None
    with view:
        while True:
            now_s = time.monotonic()
            status = system.status()
            view.show(now_s, status, system.events(5))
            if until_caught_up:
                verdict = catch_up.update(now_s, status, system.partitions(), system.topics())
                if verdict.state != "moving":
                    return verdict
            if for_s is not None and now_s - began_s >= for_s:
                return verdict
            time.sleep(_POLL_INTERVAL_S)


def drain(system: Mirror) -> None:
    """Drain and stop the system; a second Ctrl-C stops it with what is acknowledged."""
    say("draining: waiting until the target has acknowledged what was sent (Ctrl-C again: at once)")
    drained = True
    with suppress(NotRunningError):
        try:
            drained = system.down()
        except KeyboardInterrupt:
            drained = system.down(0.0)
    say(f"{system.name} {stopped_text(drained=drained)}; the next `up` goes on where it ended")


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C while the context lasts. For the main thread."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old)
