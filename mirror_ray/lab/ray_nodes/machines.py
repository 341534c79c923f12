"""Machines of the laboratory: namespaces for network, processes, mounts and name; killed, frozen and entered whole."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from mirror_ray.lab.background import wait_until
from mirror_ray.model.errors import MirrorError

#: Process 1 of a machine: it reaps what others leave behind, and does nothing else.
_INIT: Final = (
    'hostname "$0"; mount --bind "$1" /tmp/ray; mount -t tmpfs shm /dev/shm; echo up;'
    " while :; do sleep 999 & wait; done"
)
_ALONE: Final = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
_ENDS_WITHIN_S: Final = 20.0
_COMMAND_S: Final = 300.0


class LabMachine:
    """A machine with one address. Ray's directory (``/tmp/ray``) and shared memory are its own, other files ours."""

    def __init__(self, name: str, address: str, directory: Path) -> None:
        """Switch it on; it is in no network yet. ``directory``: what it keeps in ``/tmp/ray``."""
        self.name, self.address, self.directory = name, address, directory
        directory.mkdir(parents=True, exist_ok=True)
        Path("/tmp/ray").mkdir(exist_ok=True)  # noqa: S108 - where Ray looks, a mount point here
        self._outside = subprocess.Popen(  # noqa: S603 - a shell that waits
            ["unshare", *_ALONE, "bash", "-c", _INIT, name, str(directory)],  # noqa: S607 - as the owner has it
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._outside.stdout is not None  # noqa: S101 - says so to mypy
        if self._outside.stdout.readline() != "up\n":
            raise MirrorError(f"machine {name} did not start")
        (init,) = psutil.Process(self._outside.pid).children()
        #: Of its process 1.
        self.pid = init.pid
        self._processes = _namespace(self.pid)

    @property
    def device(self) -> str:
        """The end of its cable at the switch."""
        return f"v-{self.name}"

    def inside(self, *command: str, processes: bool = True) -> list[str]:
        """The command that runs a command inside; not among its ``processes``: in its network alone."""
        kinds = ("--net", "--mount", "--uts", "--ipc", "--pid") if processes else ("--net",)
        return ["/usr/bin/nsenter", "--target", str(self.pid), *kinds, "--", *command]

    def run(
        self, *command: str, environment: Mapping[str, str] | None = None, timeout_s: float = _COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside, and wait for it. Raises MirrorError where it does not end in time."""
        try:
            return subprocess.run(  # noqa: S603 - the laboratory's own commands
                self.inside(*command),
                env={**os.environ, **(environment or {})},
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MirrorError(
                f"{' '.join(command)[:200]} on {self.name} has not ended within {timeout_s:g} s"
            ) from None

    def processes(self) -> list[psutil.Process]:
        """All processes of it, process 1 among them."""
        found = []
        for process in psutil.process_iter():
            with suppress(OSError):
                if _namespace(process.pid) == self._processes:
                    found.append(process)
        return found

    def kill(self) -> None:
        """SIGKILL for all of its processes at once; its cable goes with it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._outside.wait(_ENDS_WITHIN_S)
        wait_until(lambda: not self.processes(), _ENDS_WITHIN_S, f"{self.name} has ended")

    def freeze(self) -> None:
        """SIGSTOP for all of its processes; those that one of them starts meanwhile, too."""
        stopped: set[int] = set()
        while fresh := {process.pid for process in self.processes()} - stopped:
            stopped |= fresh
            _signal(fresh, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT for all of them."""
        _signal({process.pid for process in self.processes()}, signal.SIGCONT)


def run_checked(command: Sequence[str], text: str | None = None) -> str:
    """Run a command of the system's and return what it printed. Raises MirrorError where it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    if done.returncode != 0:
        raise MirrorError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


def _namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
