"""A pod's sandbox and its containers as processes of this machine, each in namespaces of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_INIT = str(Path(__file__).with_name("pod_init.py"))
_CGROUPS = Path("/sys/fs/cgroup")
_OUR_GROUP = "mirror-ray-pods"
#: What a container's runtime leaves to a container that drops nothing, by the kernel's numbers.
_DEFAULT_CAPABILITIES = {
    "CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
    "NET_BIND_SERVICE": 10, "NET_RAW": 13, "SYS_CHROOT": 18, "MKNOD": 27, "AUDIT_WRITE": 29, "SETFCAP": 31,
}  # fmt: skip
_OTHER_CAPABILITIES = {
    "NET_ADMIN": 12,
    "IPC_LOCK": 14,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "SYS_NICE": 23,
    "SYS_RESOURCE": 24,
}
_CAPABILITIES = 64


class StartError(Exception):
    """A container's command could not be started."""


def dropped_capabilities(security: dict[str, Any]) -> list[int]:
    """The kernel's numbers of the capabilities that a container's security context takes away."""
    if security.get("privileged"):
        return []
    known = _DEFAULT_CAPABILITIES | _OTHER_CAPABILITIES
    asked = security.get("capabilities", {})
    dropped, added = ({name.removeprefix("CAP_") for name in asked.get(key, [])} for key in ("drop", "add"))
    kept = set() if "ALL" in dropped else set(_DEFAULT_CAPABILITIES) - dropped
    numbers = {known[name] for name in kept | (added & set(known))} if "ALL" not in added else set(range(_CAPABILITIES))
    return [number for number in range(_CAPABILITIES) if number not in numbers]


class MemoryGroup:
    """A cgroup that bounds a container's memory, where this machine lets us make one."""

    def __init__(self, *names: str) -> None:
        self._path = _CGROUPS.joinpath("memory", _OUR_GROUP, *names)
        self.available = self._make()

    def _make(self) -> bool:
        if not (_CGROUPS / "memory/memory.limit_in_bytes").exists():
            return False
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError:
            return False
        return True

    def limit(self, limit_bytes: int | None) -> None:
        """Bound what the group's processes may have."""
        if self.available:
            (self._path / "memory.limit_in_bytes").write_text(str(-1 if limit_bytes is None else limit_bytes))

    def as_spec(self) -> list[dict[str, str]]:
        """What ``pod_init`` joins."""
        return [{"controller": "memory", "path": str(self._path)}] if self.available else []

    def killed(self) -> int:
        """How many processes of the group the kernel has killed for want of memory."""
        try:
            lines = (self._path / "memory.oom_control").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)

    @staticmethod
    def remove_all(*names: str) -> None:
        """Remove the groups below a name whose processes have ended."""
        top = _CGROUPS.joinpath("memory", _OUR_GROUP, *names)
        for directory, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                Path(directory).rmdir()


async def _launch(mode: str, spec: dict[str, Any], file: Path) -> tuple[asyncio.subprocess.Process, int]:
    """Start ``pod_init``, and wait until its process runs.

    Raises:
        StartError: It did not.
    """
    _write_private(file, json.dumps(spec))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", _INIT, mode, str(file),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = await process.stdout.readline()
    except asyncio.CancelledError:
        process.kill()
        raise
    told: dict[str, Any] = json.loads(line) if line else {"error": (await process.stderr.read()).decode()}
    if "error" in told:
        await process.wait()
        raise StartError(told["error"])
    return process, told["pid"]


async def _piped(mode: str, file: Path, *, stdin: int, stderr: int) -> asyncio.subprocess.Process:
    pipe, program = asyncio.subprocess.PIPE, (sys.executable, "-I", "-S", _INIT)
    return await asyncio.create_subprocess_exec(*program, mode, str(file), stdin=stdin, stdout=pipe, stderr=stderr)


def _write_private(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:  # noqa: PTH123 - not readable, ever
        stream.write(text)


class Sandbox:
    """What a pod's containers share: network, host name, IPC, and volumes in memory."""

    def __init__(self, process: asyncio.subprocess.Process, pid: int) -> None:
        self._process, self.pid = process, pid

    @classmethod
    async def start(cls, directory: Path, hostname: str, memory: list[dict[str, str]]) -> Sandbox:
        """Start the process that holds it; ``memory`` are tmpfs by ``path`` with mount ``options``."""
        spec = {"hostname": hostname, "memory": memory}
        return cls(*await _launch("sandbox", spec, directory / "sandbox.json"))

    async def dial(self, port: int, file: Path) -> asyncio.subprocess.Process:
        """Connect to a port within; the connection is the process's standard input and output."""
        _write_private(file, json.dumps({"pid": self.pid, "port": port}))
        return await _piped("dial", file, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)

    async def stop(self) -> None:
        """End it: what no container holds any more goes with it."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


class ContainerProcess:
    """A container's processes, from their start to their end."""

    def __init__(self, process: asyncio.subprocess.Process, pid: int, spec: dict[str, Any], group: MemoryGroup) -> None:
        self._process, self.pid, self._spec, self._group = process, pid, spec, group
        self._killed_before = group.killed()

    @classmethod
    async def start(cls, spec: dict[str, Any], file: Path, group: MemoryGroup) -> ContainerProcess:
        """Start a container by what ``pod_init`` takes.

        Raises:
            StartError: Its command could not be started.
        """
        whole = spec | {"cgroups": group.as_spec(), "tells": True}
        return cls(*await _launch("container", whole, file), whole, group)

    async def wait(self) -> int:
        """Its exit code; 128 and the signal's number if one ended it."""
        return await self._process.wait()

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed one of its processes for want of memory."""
        return self._group.killed() > self._killed_before

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the first process."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def execute(
        self, command: list[str], file: Path, *, stdin: int = asyncio.subprocess.DEVNULL, stderr: int
    ) -> asyncio.subprocess.Process:
        """Start a command in the container, as its user and with its environment; its output is a pipe."""
        taken = (
            "uid",
            "gid",
            "groups",
            "dropped_capabilities",
            "no_new_privileges",
            "environment",
            "directory",
            "cgroups",
        )
        spec = {"pid": self.pid, "command": command} | {key: self._spec[key] for key in taken}
        _write_private(file, json.dumps(spec))
        return await _piped("command", file, stdin=stdin, stderr=stderr)

    async def run(self, command: list[str], file: Path, timeout_s: float) -> tuple[int | None, str]:
        """Run a command in the container; its exit code (None: it took too long) and what it printed."""
        process = await self.execute(command, file, stderr=asyncio.subprocess.STDOUT)
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), timeout_s)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            return None, ""
        return process.returncode, printed.decode(errors="replace")
