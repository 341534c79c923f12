"""A stand-in for the kubelet: pods run as processes of this machine, from the root file systems of images.

    python -m tests.support.kubernetes.kubelet --kubeconfig FILE --node NAME --address IP --rootfs DIR

Each node is one process. SIGTERM ends its pods and then itself; SIGKILL is the loss of the node with all its pods;
SIGSTOP freezes it, and its pods go on.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.kubernetes.kubelet_api import KubeletApi
from tests.support.kubernetes.node_api import MERGE, UNREACHABLE, ApiError, NodeApi
from tests.support.kubernetes.node_context import NodeContext, group_of
from tests.support.kubernetes.pod_images import ImageRoot, Images
from tests.support.kubernetes.pod_network import PodAddresses
from tests.support.kubernetes.pod_process import MemoryGroup
from tests.support.kubernetes.pod_status import time_text
from tests.support.kubernetes.pod_worker import PodWorker

Object = dict[str, Any]

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_STATUS_EACH_S = 30.0
_AGAIN_AFTER_S = 1.0
_SHUTDOWN_GRACE_S = 20.0


def node_object(name: str, zone: str, version: str) -> Object:
    """A node as it is registered."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": node_version(version),
    }


def node_version(version: str) -> Object:
    """What a node says of its software."""
    told = {"kubeletVersion": version, "containerRuntimeVersion": "process://1", "operatingSystem": "linux"}
    empty = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion")
    return {
        "nodeInfo": told | dict.fromkeys(empty, "") | {"architecture": "amd64", "kernelVersion": os.uname().release}
    }


def node_status(
    *, name: str, address: str, port: int, resources: dict[str, str], before: list[Object], ready: bool = True
) -> Object:
    """A node's status; ``before`` are its conditions so far."""
    now = time_text()
    reasons = {
        "Ready": ("KubeletReady", "kubelet is posting ready status")
        if ready
        else ("KubeletNotReady", "node is shutting down"),
        "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    }
    since = {(one["type"], one["status"]): one["lastTransitionTime"] for one in before}
    conditions = []
    for kind, (reason, message) in reasons.items():
        holds = str(kind == "Ready" and ready)
        times = {"lastHeartbeatTime": now, "lastTransitionTime": since.get((kind, holds), now)}
        conditions.append({"type": kind, "status": holds, "reason": reason, "message": message} | times)
    return {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "conditions": conditions,
    }


class Kubelet:
    """A node that registers itself, runs the pods that are bound to it, and says that it is there."""

    def __init__(self, node: NodeContext, options: argparse.Namespace) -> None:
        self.node, self._options = node, options
        self.workers: dict[str, PodWorker] = {}
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Until :meth:`stop`; the pods end with it."""
        cidr = await self._register()
        self.node.addresses = PodAddresses(cidr)
        keeping = [asyncio.create_task(work) for work in (self._keep_lease(), self._keep_status(), self._follow_pods())]
        await asyncio.wait([*keeping, asyncio.create_task(self._stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        broken = [task for task in keeping if task.done()]
        for task in keeping:
            task.cancel()
        await self._end_all()
        for task in broken:
            task.result()

    def stop(self) -> None:
        """End the pods, and itself."""
        self._stopping.set()

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        """A pod that runs here."""
        return next((one for one in self.workers.values() if one.key == (namespace, name)), None)

    async def _end_all(self) -> None:
        with suppress(*UNREACHABLE):
            await self._tell_status(ready=False)
        for worker in self.workers.values():
            worker.end(
                min(_SHUTDOWN_GRACE_S, worker.pod["spec"].get("terminationGracePeriodSeconds", 30)), shutdown=True
            )
        await asyncio.gather(*self._runs.values(), return_exceptions=True)

    async def _register(self) -> str:
        """Make the node, and wait for the addresses of its pods."""
        while True:
            try:
                await self._create()
                await self._tell_status()
                found = await self.node.api.get(f"/api/v1/nodes/{self.node.name}")
                cidr = self._options.pod_cidr or found["spec"].get("podCIDR", "")
                if cidr:
                    return str(cidr)
            except UNREACHABLE as error:
                sys.stderr.write(f"{self.node.name}: {error}\n")
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def _create(self) -> None:
        made = node_object(self.node.name, self._options.zone, self._options.version)
        try:
            await self.node.api.create("/api/v1/nodes", made)
        except ApiError as error:
            if not error.is_conflict:
                raise

    async def _tell_status(self, *, ready: bool = True) -> None:
        path = f"/api/v1/nodes/{self.node.name}"
        before = (await self.node.api.get(path)).get("status", {}).get("conditions", [])
        status = node_status(
            name=self.node.name,
            address=self.node.address,
            port=self._options.port,
            resources=self.node.resources,
            before=before,
            ready=ready,
        )
        await self.node.api.patch(f"{path}/status", {"status": status | node_version(self._options.version)})

    async def _keep_status(self) -> None:
        while True:
            await asyncio.sleep(_STATUS_EACH_S)
            with suppress(*UNREACHABLE):
                await self._tell_status()

    async def _keep_lease(self) -> None:
        lasts_s = self._options.lease_s
        while True:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            spec = {"holderIdentity": self.node.name, "leaseDurationSeconds": lasts_s, "renewTime": now}
            try:
                try:
                    await self.node.api.patch(f"{_LEASES}/{self.node.name}", {"spec": spec}, MERGE)
                except ApiError as error:
                    if not error.is_missing:
                        raise
                    await self.node.api.create(_LEASES, {"metadata": {"name": self.node.name}, "spec": spec})
            except UNREACHABLE as error:
                sys.stderr.write(f"{self.node.name}: the lease is not renewed: {error}\n")
            await asyncio.sleep(lasts_s / 4)

    async def _follow_pods(self) -> None:
        mine = f"spec.nodeName={self.node.name}"
        async for kind, changed in self.node.api.follow("/api/v1/pods", fieldSelector=mine):
            if kind == "LIST":
                there = {pod["metadata"]["uid"] for pod in changed["items"]}
                for pod in changed["items"]:
                    self._take(pod)
                for uid in set(self.workers) - there:
                    self._forget(uid)
            elif kind == "DELETED":
                self._forget(changed["metadata"]["uid"])
            else:
                self._take(changed)

    def _take(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self.workers:
            self.workers[uid].take(pod)
            return
        self.workers[uid] = worker = PodWorker(self.node, pod)
        self._runs[uid] = task = self.node.in_background(worker.run())
        task.add_done_callback(lambda _: (self.workers.pop(uid), self._runs.pop(uid)))

    def _forget(self, uid: str) -> None:
        """A pod is not in the API any more: one that was deleted by force has hardly a moment left."""
        worker = self.workers.get(uid)
        if worker is not None:
            worker.end(max(1.0, float(worker.pod["metadata"].get("deletionGracePeriodSeconds", 1))))


def clean(directory: Path, node: str) -> None:
    """Remove what a node that was killed has left: its files and its memory cgroups. The rest is gone."""
    shutil.rmtree(directory, ignore_errors=True)
    MemoryGroup.remove_all(group_of(node, directory))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path)
    parser.add_argument("--node", default=socket.gethostname())
    parser.add_argument("--address", default="127.0.0.1", help="the node's address, which is this machine's already")
    parser.add_argument("--rootfs", action="append", default=[], metavar="DIR[=IMAGE]", help="without =: any image")
    parser.add_argument("--cpu", default="4")
    parser.add_argument("--memory", default="8Gi")
    parser.add_argument("--zone", default="zone-1")
    parser.add_argument("--pod-cidr", default="", help="default: what the controller manager gives the node")
    parser.add_argument("--cluster-dns", default="")
    parser.add_argument("--cluster-domain", default="cluster.local")
    parser.add_argument("--serving-cert", type=Path, help="of logs, exec and port-forward")
    parser.add_argument("--serving-key", type=Path)
    parser.add_argument("--port", type=int, default=10250)
    parser.add_argument("--lease-s", type=int, default=40)
    parser.add_argument("--version", default="v1.34.4")
    parser.add_argument("--state", type=Path, help="a directory of its own")
    parser.add_argument("--clean", action="store_true", help="remove what a killed one has left, and end")
    options = parser.parse_args()
    options.state = (options.state or Path(tempfile.gettempdir()) / f"mirror-ray-{options.node}") / "kubelet"
    if not options.clean and options.kubeconfig is None:
        parser.error("--kubeconfig is missing: the file by which the API server is reached")
    return options


def _images(roots: list[str]) -> Images:
    named = {}
    for text in roots:
        path, _, name = text.partition("=")
        named[name] = ImageRoot.read(Path(path).resolve())
    return Images(named, named.pop("", None))


async def _main(options: argparse.Namespace) -> None:
    async with NodeApi(options.kubeconfig) as api:
        node = NodeContext(
            api=api,
            name=options.node,
            address=options.address,
            directory=options.state,
            images=_images(options.rootfs),
            resources={"cpu": options.cpu, "memory": options.memory, "pods": "110", "ephemeral-storage": "100Gi"},
            dns_address=options.cluster_dns,
            domain=options.cluster_domain,
        )
        kubelet = Kubelet(node, options)
        if options.serving_cert:
            served = (options.serving_cert, options.serving_key, api.authority)
            await KubeletApi(kubelet).start(options.address, options.port, *served)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, kubelet.stop)
        await kubelet.run()


if __name__ == "__main__":
    given = _options()
    clean(given.state, given.node)
    if not given.clean:
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        given.state.mkdir(parents=True, mode=0o700)
        try:
            asyncio.run(_main(given))
        finally:
            clean(given.state, given.node)
