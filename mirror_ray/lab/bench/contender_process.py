"""The contenders as processes on this machine: started, found, killed, stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import psutil

from mirror_ray import own_ray
from mirror_ray.jars.maven import kafka_program
from mirror_ray.lab.background import wait_until
from mirror_ray.lab.bench.contenders import Contender
from mirror_ray.lab.devcluster.guard import guarded
from mirror_ray.model.errors import MirrorError

#: The name of the systems that the benchmark starts, and that of the Ray in which some of them are started.
NAME: Final = "bench"
RAY_NAME: Final = "bench-ray"
#: Whose processes: the contender's own, or those of the Ray that it runs in.
Owner = Literal["own", "ray"]
#: Runs a Ray while the context lasts; gives its address.
RunningRay = Callable[[], AbstractContextManager[str]]

_ACTORS: Final = tuple(f"ray::{name}" for name in ("Coordinator", "Replicator", "Checkpoint", "Heartbeat"))
_REPLICATOR: Final = "ray::Replicator"
_STOP_S: Final = 60.0
#: How long MM2 may flush; it will not be started again.
_FLUSH_S: Final = 10.0
#: As Kafka's own start scripts.
_JVM: Final = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class ContenderProcess(ABC):
    """A contender that can be started, killed and stopped."""

    def __init__(self, config: Path, log: Path) -> None:
        self._config, self._log = config, log
        #: What ``start`` has started last.
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def start(self) -> None:
        """Start it and return at once. It can be started again after all of it was killed."""

    @abstractmethod
    def processes(self) -> Mapping[Owner, Sequence[psutil.Process]]:
        """Its running processes."""

    @abstractmethod
    def check(self) -> None:
        """Raise MirrorError if it did not start or has ended by itself."""

    def starting(self) -> bool:
        """Whether the command that starts it still runs."""
        return False

    @abstractmethod
    def prepare_kill(self, *, completely: bool) -> Callable[[], None]:
        """Find its running processes; returns the function that kills them (SIGKILL).

        ``completely``: every process; otherwise those that copy, and the others are to recover.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop it in good order."""

    def _popen(self, command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the program and its arguments are ours
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **how
            )

    def _ended(self, what: str, code: int) -> MirrorError:
        """The error that it has ended, with the last line of its log."""
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return MirrorError(f"{what} ended with {code}: {lines[-1] if lines else f'{self._log} is empty'}")


class MirrorMaker(ContenderProcess):
    """MM2 in dedicated mode, from Kafka's jars."""

    def start(self) -> None:
        """Start MM2."""
        program = kafka_program("org.apache.kafka.connect.mirror.MirrorMaker", *_JVM)
        # MM2's own scripts start it without the user's further options of Java.
        environment = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}
        command = guarded([*program, str(self._config)])
        self._process = self._popen(command, start_new_session=True, env=environment)

    def processes(self) -> Mapping[Owner, Sequence[psutil.Process]]:
        """MM2 is one process."""
        if self._process is None or self._process.poll() is not None:
            return {}
        return {"own": [psutil.Process(self._process.pid)]}

    def check(self) -> None:
        """Raise MirrorError if MM2 has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise self._ended("MirrorMaker 2", self._process.returncode)

    def prepare_kill(self, *, completely: bool) -> Callable[[], None]:  # noqa: ARG002 - there is one process
        """Kill the one process that there is."""
        return self._kill

    def stop(self) -> None:
        """Give MM2 ten seconds to end, then kill it."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_FLUSH_S)
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class MirrorRay(ContenderProcess):
    """mirror-ray by its own command line, detached, in a Ray of its own or in one that runs already."""

    def __init__(self, contender: Contender, config: Path, log: Path, running_ray: RunningRay) -> None:
        super().__init__(config, log)
        self._contender = contender
        self._stack = ExitStack()
        self._address = self._stack.enter_context(running_ray()) if contender.ray_runs else None

    def start(self) -> None:
        """Run `mirror-ray up`."""
        arguments = ["up", str(self._config), "--detach", "--replicators", str(self._contender.replicators)]
        self._process = self._run(*arguments)

    def processes(self) -> Mapping[Owner, Sequence[psutil.Process]]:
        """The system's actors, and the other processes of its Ray."""
        found: dict[Owner, list[psutil.Process]] = {"own": [], "ray": []}
        own = own_ray.find(NAME if self._address is None else RAY_NAME)
        for pid, _ in own.processes if own is not None else ():
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(pid)
                for process in (root, *root.children(recursive=True)):
                    found[_owner(process)].append(process)
        return found

    def check(self) -> None:
        """Raise MirrorError if `mirror-ray up` has failed."""
        if self._process is not None and self._process.poll():
            raise self._ended("mirror-ray up", self._process.returncode)

    def starting(self) -> bool:
        """Whether `mirror-ray up` still runs."""
        return self._process is not None and self._process.poll() is None

    def prepare_kill(self, *, completely: bool) -> Callable[[], None]:
        """With ``completely`` Ray is killed too."""
        found = self.processes()
        victims = [*found["own"], *found["ray"]] if completely else list(filter(_is_replicator, found["own"]))
        return partial(_kill, victims)

    def stop(self) -> None:
        """Run `mirror-ray down`, and stop the Ray of its own."""
        with self._stack:
            if self._process is not None:
                wait_until(lambda: not self.starting(), _STOP_S, "`up` is done")
                self._run("down").wait(2 * _STOP_S)
            left = own_ray.find(NAME)
            if left is not None:
                own_ray.stop(left)

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        address = ["--address", self._address] if self._address is not None else []
        return self._popen([sys.executable, "-m", "mirror_ray", *arguments, "--name", NAME, *address])


def _kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=_STOP_S)


def _is_replicator(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.cmdline()[0].startswith(_REPLICATOR))
    return False


def _owner(process: psutil.Process) -> Owner:
    try:
        title = process.cmdline()
    except psutil.Error:
        return "ray"
    return "own" if title and title[0].startswith(_ACTORS) else "ray"


def process_of(contender: Contender, config: Path, log: Path, running_ray: RunningRay) -> ContenderProcess:
    """The process of a contender that copies; not started yet."""
    if contender.system == "mm2":
        return MirrorMaker(config, log)
    return MirrorRay(contender, config, log, running_ray)
