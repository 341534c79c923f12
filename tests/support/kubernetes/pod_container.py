"""A container of a pod from its first start to its last end: probes, hooks, restarts."""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kubernetes import pod_probes
from tests.support.kubernetes.node_api import UNREACHABLE
from tests.support.kubernetes.node_context import NodeContext
from tests.support.kubernetes.pod_environment import MissingValueError, quantity
from tests.support.kubernetes.pod_images import ImageError
from tests.support.kubernetes.pod_process import ContainerProcess, MemoryGroup, StartError
from tests.support.kubernetes.pod_status import ContainerRecord, next_back_off_s, starts_again, time_text
from tests.support.kubernetes.pod_volumes import VolumeError

Object = dict[str, Any]

_TRIED_AGAIN_S = 2.0
_HOOK_S = 60.0
_MESSAGE_BYTES = 4096


@dataclass(kw_only=True)
class Surroundings:
    """What a container has of its pod."""

    node: NodeContext
    pod: Callable[[], Object]
    directory: Path
    address: Callable[[], str]
    #: What ``pod_init`` is to start.
    spec: Callable[[Object, Path], Awaitable[Object]]
    #: Something in a record has changed.
    changed: Callable[[], None]


class ContainerRunner:
    """Runs one container, again and again if its pod's policy says so."""

    def __init__(self, container: Object, policy: str, around: Surroundings, record: ContainerRecord) -> None:
        self._container, self._policy, self._around, self.record = container, policy, around, record
        self._process: ContainerProcess | None = None
        self._stopped, self._startup_held = asyncio.Event(), asyncio.Event()
        self._back_off_s = 0.0
        self.directory: Path = around.directory / "containers" / container["name"]
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def process(self) -> ContainerProcess | None:
        """What runs now."""
        return self._process

    @property
    def starts_again(self) -> bool:
        """Whether it is started again after its last end."""
        return starts_again(self._policy, self.record.exit_code or 0)

    def log(self, *, previous: bool = False) -> Path:
        """The file of what it prints, or printed in the run before."""
        return self.directory / f"{self.record.restarts - int(previous)}.log"

    async def run(self) -> None:
        """Start it, and again, until its policy lets it be, or it is told to stop."""
        if "waiting" in self.record.state:
            self.record.state = {"waiting": {"reason": "ContainerCreating"}}
        while not self._stopped.is_set():
            process = await self._start()
            if process is None:
                continue
            began = time.monotonic()
            await self._attend(process)
            if self._stopped.is_set() or not self.starts_again:
                return
            await self._back_off(time.monotonic() - began)

    async def _start(self) -> ContainerProcess | None:
        """Start it once; none: something is missing, or it ended before it began."""
        spec_file = self.directory / "spec.json"
        group = MemoryGroup(self._around.node.group, self._around.pod()["metadata"]["uid"], self._container["name"])
        limit = self._container.get("resources", {}).get("limits", {}).get("memory")
        try:
            spec = await self._around.spec(self._container, self.directory)
            group.limit(int(quantity(limit)) if limit else None)
            process = await ContainerProcess.start(spec | {"log": str(self.log())}, spec_file, group)
        except ImageError as error:
            is_known = "runAsNonRoot" in str(error) or "no user" in str(error)
            pulled = "ImagePullBackOff" if self._waits_for() in {"ErrImagePull", "ImagePullBackOff"} else "ErrImagePull"
            await self._wait_for("CreateContainerConfigError" if is_known else pulled, str(error))
            return None
        except (MissingValueError, VolumeError) as error:
            await self._wait_for("CreateContainerConfigError", str(error))
            return None
        except UNREACHABLE as error:
            await self._wait_for("CreateContainerError", repr(error))
            return None
        except StartError as error:
            self._end(128, "StartError", time_text(), str(error))
            if not starts_again(self._policy, 128):
                self._stopped.set()
            else:
                await self._back_off(0.0)
            return None
        self._process = process
        return process

    def _waits_for(self) -> str | None:
        reason: str | None = self.record.state.get("waiting", {}).get("reason")
        return reason

    async def _wait_for(self, reason: str, message: str) -> None:
        if self._waits_for() != reason:
            self._event("Failed", message, "Warning")
        self.record.state = {"waiting": {"reason": reason, "message": message}}
        self._around.changed()
        await self._sleep(_TRIED_AGAIN_S)

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    async def _back_off(self, ran_s: float) -> None:
        waited_s, self._back_off_s = next_back_off_s(self._back_off_s, ran_s)
        if waited_s:
            self._event("BackOff", f"Back-off restarting failed container {self.record.name}", "Warning")
            message = f"back-off {waited_s:g}s restarting failed container={self.record.name}"
            self.record.last_state = self.record.state
            self.record.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
            self._around.changed()
            await self._sleep(waited_s)
        if not self._stopped.is_set():
            self.record.restarts += 1

    async def _attend(self, process: ContainerProcess) -> None:
        """Watch over a run until it ends."""
        if "terminated" in self.record.state:
            self.record.last_state = self.record.state
        began = time_text()
        self.record.state = {"running": {"startedAt": began}}
        self.record.container_id = f"process://{secrets.token_hex(32)}"
        self.record.started = "startupProbe" not in self._container
        self.record.ready = self.record.started and "readinessProbe" not in self._container
        self._event("Started", f"Started container {self.record.name}")
        self._around.changed()
        watching = asyncio.create_task(self._watch(process))
        code = await process.wait()
        watching.cancel()
        self._process = None
        self._end(code, "OOMKilled" if process.ran_out_of_memory and code == 137 else "", began)

    def _end(self, code: int, reason: str, began: str, message: str = "") -> None:
        self.record.ready = self.record.started = False
        if "terminated" in self.record.state:
            self.record.last_state = self.record.state
        told = {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "startedAt": began,
            "finishedAt": time_text(),
            "containerID": self.record.container_id,
            "message": message or self._last_words(code),
        }
        self.record.state = {"terminated": {key: value for key, value in told.items() if value != ""}}
        self._around.changed()

    def _last_words(self, code: int) -> str:
        file = self.directory / "termination-log"
        said = file.read_bytes()[-_MESSAGE_BYTES:] if file.exists() else b""
        wants_log = self._container.get("terminationMessagePolicy") == "FallbackToLogsOnError" and code != 0
        if not said and wants_log and self.log().exists():
            said = self.log().read_bytes()[-2048:]
        return said.decode(errors="replace")

    async def _watch(self, process: ContainerProcess) -> None:
        """The hook after the start, then probes."""
        hook = self._container.get("lifecycle", {}).get("postStart")
        if hook:
            await self._hook(hook, process, "PostStartHook")
        if "startupProbe" in self._container:
            await self._until_started(process)
        async with asyncio.TaskGroup() as group:
            for kind in ("livenessProbe", "readinessProbe"):
                if kind in self._container:
                    group.create_task(self._probe(kind, process))

    async def _until_started(self, process: ContainerProcess) -> None:
        self._startup_held.clear()
        asking = asyncio.create_task(self._probe("startupProbe", process))
        try:
            await self._startup_held.wait()
        finally:
            asking.cancel()
        self.record.ready = "readinessProbe" not in self._container
        self._around.changed()

    async def _probe(self, kind: str, process: ContainerProcess) -> None:
        probe = self._container[kind]

        async def asked() -> tuple[bool, str]:
            return await pod_probes.ask(probe, self._container, self._around.address(), self._execute(process))

        async def changed(holds: bool) -> None:
            if kind == "readinessProbe":
                self.record.ready = holds
            elif kind == "startupProbe" and holds:
                self.record.started = True
                self._startup_held.set()
            elif not holds:
                what = kind.removesuffix("Probe")
                self._event("Killing", f"Container {self.record.name} failed {what} probe, will be restarted")
                of_pod = self._around.pod()["spec"].get("terminationGracePeriodSeconds", 30)
                # The probes end with the container; its end must not wait for them.
                self._around.node.in_background(
                    self._end_process(process, probe.get("terminationGracePeriodSeconds", of_pod))
                )
            self._around.changed()

        await pod_probes.keep_asking(
            probe,
            asked=asked,
            changed=changed,
            failed=lambda message: self._event(
                "Unhealthy", f"{kind.removesuffix('Probe').capitalize()} probe failed: {message}", "Warning"
            ),
            initially={"livenessProbe": True, "readinessProbe": False}.get(kind),
        )

    def _execute(self, process: ContainerProcess) -> pod_probes.Execute:
        file = self.directory / f"exec-{secrets.token_hex(4)}.json"

        async def execute(command: list[str], timeout_s: float) -> tuple[int | None, str]:
            try:
                return await process.run(command, file, timeout_s)
            finally:
                file.unlink(missing_ok=True)

        return execute

    async def _hook(self, hook: Object, process: ContainerProcess, name: str, timeout_s: float = _HOOK_S) -> None:
        if "sleep" in hook:
            await asyncio.sleep(min(hook["sleep"]["seconds"], timeout_s))
            return
        asked = hook | {"timeoutSeconds": timeout_s}
        well, message = await pod_probes.ask(asked, self._container, self._around.address(), self._execute(process))
        if not well:
            self._event(f"Failed{name}", message, "Warning")
            if name == "PostStartHook":
                process.signal(signal.SIGKILL)

    async def stop(self, grace_s: float) -> None:
        """End it, and start it no more: the hook, SIGTERM, and SIGKILL when the time is over."""
        self._stopped.set()
        if self._process is not None:
            self._event("Killing", f"Stopping container {self.record.name}")
            await self._end_process(self._process, grace_s)

    async def _end_process(self, process: ContainerProcess, grace_s: float) -> None:
        began = time.monotonic()
        hook = self._container.get("lifecycle", {}).get("preStop")
        if hook:
            await self._hook(hook, process, "PreStopHook", grace_s)
        process.signal(signal.SIGTERM)
        left_s = max(grace_s - (time.monotonic() - began), 2.0 if hook else 0.0)
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(process.wait())), left_s)
        except TimeoutError:
            process.signal(signal.SIGKILL)
            await process.wait()

    def _event(self, reason: str, message: str, kind: str = "Normal") -> None:
        self._around.node.event(self._around.pod(), reason, message, kind)
