"""Who has started a system, and whether it ends with that process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A process that has started a system."""

    #: The user and the machine: ``ann@host``.
    by: str
    pid: int
    command: str
    #: It drains the system when it ends; else the system stays until `down`.
    foreground: bool

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid} of {self.by})"


def ends_with(starter: Starter | None, me: Starter) -> str | None:
    """The process with which a system ends that ``me`` has started or joined; None: with none, or with ``me``.

    ``starter``: who has started it; None: not known.
    """
    if starter is None or not starter.foreground or (starter.by, starter.pid) == (me.by, me.pid):
        return None
    return str(starter)
