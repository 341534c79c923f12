"""A pod of a node, from when it is bound to it until it is deleted."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.kubernetes import pod_network, pod_status
from tests.support.kubernetes.node_api import UNREACHABLE, ApiError
from tests.support.kubernetes.node_context import NodeContext
from tests.support.kubernetes.pod_container import ContainerRunner, Surroundings
from tests.support.kubernetes.pod_process import MemoryGroup, Sandbox, StartError
from tests.support.kubernetes.pod_spec import ContainerSpecs, unsupported
from tests.support.kubernetes.pod_status import ContainerRecord, record_of, time_text
from tests.support.kubernetes.pod_volumes import PodVolumes, VolumeError

Object = dict[str, Any]

_VOLUMES_AGAIN_S = 1.0
_REFUSED_TIMES = 5
_OVER = {"Succeeded", "Failed"}
_TOLD_TOGETHER_S = 0.05
_TOLD_AGAIN_S = 1.0
_SHM_OPTIONS = "mode=1777,size=65536k"


class PodWorker:
    """Brings a pod up, tells of it, and ends it."""

    def __init__(self, node: NodeContext, pod: Object) -> None:
        self.node, self.pod = node, pod
        self.directory = node.directory / "pods" / pod["metadata"]["uid"]
        self.address = ""
        self._sandbox: Sandbox | None = None
        self._started_at = pod.get("status", {}).get("startTime") or time_text()
        self._dirty, self._ending = asyncio.Event(), asyncio.Event()
        self._grace_s: float | None = None
        #: In the API's own words: such a pod is not run again, nor is anything told of it.
        self._was_over = pod.get("status", {}).get("phase") in _OVER
        self._refused = ", ".join(unsupported(pod["spec"]))
        self._is_over = False
        self._is_shutdown = False
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._volumes = PodVolumes(node.api, pod, self.directory / "volumes", node.resources)
        self._specs = ContainerSpecs(node, self._volumes, self.directory, self._hostname)
        self._init = [self._runner(container, is_init=True) for container in pod["spec"].get("initContainers", [])]
        self._main = [self._runner(container, is_init=False) for container in pod["spec"]["containers"]]
        self.take(pod)

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.key[0]}/pods/{self.key[1]}"

    @property
    def _hostname(self) -> str:
        return str(self.pod["spec"].get("hostname") or self.pod["metadata"]["name"])[:63].rstrip("-.")

    def runner(self, name: str) -> ContainerRunner | None:
        """A container by its name."""
        return next((one for one in [*self._init, *self._main] if one.record.name == name), None)

    async def dial(self, port: int) -> asyncio.subprocess.Process:
        """A connection to a port within the pod, as a process's standard input and output."""
        if self._sandbox is None:
            raise ConnectionError(f"pod {self.key[1]} does not run")
        return await self._sandbox.dial(port, self.directory / f"dial-{port}.json")

    def take(self, pod: Object) -> None:
        """The pod has changed in the API."""
        told = self.pod.get("status", {})
        self.pod = pod | {"status": told | pod.get("status", {}) | self._addresses()}
        self._volumes.pod = self.pod
        if "deletionTimestamp" in pod["metadata"]:
            self.end(float(pod["metadata"].get("deletionGracePeriodSeconds", 30)))

    def end(self, grace_s: float, *, shutdown: bool = False) -> None:
        """End it. Another time only a shorter grace counts, from now on."""
        if self._grace_s is None:
            self._grace_s = grace_s
        elif grace_s < self._grace_s:
            self._grace_s = grace_s
            self.node.in_background(self._kill_after(grace_s))
        self._is_shutdown = self._is_shutdown or shutdown
        self._ending.set()

    async def run(self) -> None:
        """All of its life."""
        telling = asyncio.create_task(self._keep_telling())
        living = asyncio.create_task(self._live())
        ending = asyncio.create_task(self._ending.wait())
        await asyncio.wait([living, ending], return_when=asyncio.FIRST_COMPLETED)
        if living.done() and not living.cancelled() and living.exception() is not None:
            self.node.event(self.pod, "FailedSync", repr(living.exception()), "Warning")
        if not self._ending.is_set():
            await self._release()
            await ending
        await self._stop_containers(living)
        await self._release()
        self._is_over = True
        telling.cancel()
        if not self._was_over:
            await self._tell_until_told()
        shutil.rmtree(self.directory, ignore_errors=True)
        MemoryGroup.remove_all(self.node.group, self.pod["metadata"]["uid"])
        if "deletionTimestamp" in self.pod["metadata"]:
            await self._finalise()

    async def _live(self) -> None:
        if self._was_over:
            return
        self._changed()
        if self._refused:
            self.node.event(self.pod, "NotSupported", f"this stand-in has no {self._refused}", "Warning")
            return
        if pod_status.phase(self._policy, *self._records()) in _OVER:
            return
        await self._prepare_volumes()
        while self._sandbox is None:
            await self._try_sandbox()
        refreshing = asyncio.create_task(self._keep_volumes())
        try:
            for runner in self._init:
                await runner.run()
                if runner.record.exit_code != 0:
                    return
            async with asyncio.TaskGroup() as group:
                for runner in self._main:
                    # One that ended before the node was lost, and is not to run again, does not.
                    if "terminated" not in runner.record.state or runner.starts_again:
                        group.create_task(runner.run())
        finally:
            refreshing.cancel()

    @property
    def _policy(self) -> str:
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    def _records(self) -> tuple[list[ContainerRecord], list[ContainerRecord]]:
        return [one.record for one in self._init], [one.record for one in self._main]

    def _runner(self, container: Object, *, is_init: bool) -> ContainerRunner:
        policy = "OnFailure" if is_init and self._policy == "Always" else self._policy
        record = record_of(container, self.pod, is_init=is_init, policy=policy)
        around = Surroundings(
            node=self.node,
            pod=lambda: self.pod,
            directory=self.directory,
            address=lambda: self.address,
            spec=self._spec,
            changed=self._changed,
        )
        return ContainerRunner(container, policy, around, record)

    async def _prepare_volumes(self) -> None:
        tries = 0
        while True:
            try:
                await self._volumes.prepare()
                return
            except VolumeError as error:
                self.node.event(self.pod, "FailedMount", str(error), "Warning")
            except UNREACHABLE as error:
                tries += 1
                # The API server learns a little later than we do that a pod is ours, and what we may read for it.
                if tries >= _REFUSED_TIMES:
                    self.node.event(self.pod, "FailedMount", repr(error), "Warning")
            await asyncio.sleep(_VOLUMES_AGAIN_S)

    async def _keep_volumes(self) -> None:
        while True:
            await asyncio.sleep(self.node.refreshed_each_s)
            # What was deleted meanwhile stays as it was in the pod.
            with suppress(VolumeError, *UNREACHABLE):
                await self._volumes.prepare()

    async def _try_sandbox(self) -> None:
        try:
            await self._make_sandbox()
        except (StartError, pod_network.NetworkError) as error:
            self.node.event(self.pod, "FailedCreatePodSandBox", str(error), "Warning")
            await self._release()
            await asyncio.sleep(_VOLUMES_AGAIN_S)

    async def _make_sandbox(self) -> None:
        shm = self.directory / "shm"
        shm.mkdir(exist_ok=True)
        memory = [{"path": str(shm), "options": _SHM_OPTIONS}, *self._volumes.in_memory()]
        self._sandbox = await Sandbox.start(self.directory, self._hostname, memory)
        self.address = self.node.addresses.take()
        await pod_network.connect(self._sandbox.pid, self.pod["metadata"]["uid"], self.address, self.node.address)
        spec, namespace = self.pod["spec"], self.key[0]
        texts = {
            "hosts": pod_network.hosts(spec, self._hostname, self.address, self.node.domain, namespace),
            "hostname": self._hostname + "\n",
            "resolv.conf": pod_network.resolver(spec, namespace, self.node.dns_address, self.node.domain),
        }
        for name, text in texts.items():
            (self.directory / name).write_text(text)
        self.pod["status"] = self.pod.get("status", {}) | self._addresses()
        self._changed()

    def _addresses(self) -> Object:
        """What is known here before the API has it; or the API has those of an earlier sandbox."""
        if not self.address:
            return {}
        of_node = {"hostIP": self.node.address, "hostIPs": [{"ip": self.node.address}]}
        return {"podIP": self.address, "podIPs": [{"ip": self.address}]} | of_node

    async def _spec(self, container: Object, directory: Path) -> Object:
        assert self._sandbox is not None
        return {"sandbox_pid": self._sandbox.pid} | await self._specs.make(self.pod, container, directory)

    async def _stop_containers(self, living: asyncio.Task[None]) -> None:
        grace_s = self._grace_s or 0.0
        await asyncio.gather(*(one.stop(grace_s) for one in [*self._main, *self._init]))
        if not any(one.record.is_running for one in [*self._init, *self._main]):
            living.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await living

    async def _kill_after(self, grace_s: float) -> None:
        await asyncio.sleep(grace_s)
        for runner in [*self._main, *self._init]:
            if runner.process is not None:
                runner.process.signal(signal.SIGKILL)

    async def _release(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.stop()
            self._sandbox = None
            if self.address:
                self.node.addresses.give_back(self.address)

    def _changed(self) -> None:
        self._dirty.set()

    async def _keep_telling(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(_TOLD_TOGETHER_S)
            self._dirty.clear()
            await self._tell_until_told()

    async def _tell_until_told(self) -> None:
        while True:
            try:
                await self._tell()
                return
            except ApiError as error:
                if not error.is_missing and not error.is_conflict:
                    sys.stderr.write(f"{self.node.name}: {error}\n")
                if not error.may_pass:
                    return
            except UNREACHABLE as error:
                sys.stderr.write(f"{self.node.name}: {error!r}\n")
            await asyncio.sleep(_TOLD_AGAIN_S)

    async def _tell(self) -> None:
        init, main = self._records()
        status = pod_status.status(
            pod=self.pod,
            address=self.address,
            has_network=self._sandbox is not None,
            node_address=self.node.address,
            started_at=self._started_at,
            init=init,
            containers=main,
            is_ending=self._is_over,
        )
        if self._is_shutdown and self._is_over:
            message = "Pod was terminated in response to imminent node shutdown."
            status |= {"phase": "Failed", "reason": "Terminated", "message": message}
        if self._refused:
            told = {"reason": "NotSupported", "message": f"this stand-in for a kubelet has no {self._refused}"}
            status |= {"phase": "Failed"} | told
        body = {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": status}
        changed = await self.node.api.patch(f"{self._path}/status", body)
        self.pod["status"] = changed["status"]

    async def _finalise(self) -> None:
        """The pod has ended: the API server may forget it."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.pod["metadata"]["uid"]}}
        while True:
            try:
                await self.node.api.delete(self._path, options)
                return
            except ApiError as error:
                if not error.may_pass:
                    return
            except UNREACHABLE:
                pass
            await asyncio.sleep(_TOLD_AGAIN_S)
