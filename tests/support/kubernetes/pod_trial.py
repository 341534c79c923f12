"""One pod on the stand-in for the kubelet without any API server: JSON says what to run, and what became of it.

It runs in a network namespace that is its own: ``unshare --net --mount python -m tests.support.kubernetes.pod_trial``.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from tests.support.kubernetes import spdy_client
from tests.support.kubernetes.kubelet_api import KubeletApi
from tests.support.kubernetes.node_api import ApiError, NodeApi
from tests.support.kubernetes.node_context import NodeContext
from tests.support.kubernetes.pod_images import ImageRoot, Images
from tests.support.kubernetes.pod_network import PodAddresses
from tests.support.kubernetes.pod_worker import PodWorker

Object = dict[str, Any]

_NODE_ADDRESS = "10.250.0.11"
_LIMIT_S = 180.0
_COMMAND_S = 60.0


class TrialApi:
    """Has some objects, and keeps what it is told."""

    def __init__(self, objects: dict[str, Object]) -> None:
        self.objects = objects | {"/api/v1/services": {"items": []}}
        self.statuses: list[Object] = []
        self.events: list[str] = []
        self.deleted: list[str] = []
        self._told = asyncio.Event()

    async def get(self, path: str) -> Object:
        """One of the objects."""
        if path not in self.objects:
            raise ApiError(404, f"{path} not found")
        return self.objects[path]

    async def create(self, path: str, body: Object) -> Object:
        """An event."""
        self.events.append(body["reason"])
        return body

    async def patch(self, path: str, body: Object) -> Object:
        """A status; what is to be in the place of something else is told by an item of its own."""
        status = json.loads(json.dumps(body["status"]))
        for key in ("podIPs", "hostIPs"):
            status[key] = [item for item in status.get(key, []) if "$patch" not in item]
        self.statuses.append(status)
        self._told.set()
        return {"status": status}

    async def delete(self, path: str, body: Object) -> Object:
        """The last that is heard of a pod."""
        self.deleted.append(path)
        return body

    async def reached(self, awaited: str) -> None:
        """Wait for a phase, or a condition that holds; for nothing, where none is named."""
        while awaited and not any(_has_reached(status, awaited) for status in self.statuses):
            self._told.clear()
            await self._told.wait()


def _has_reached(status: Object, awaited: str) -> bool:
    holding = {one["type"] for one in status["conditions"] if one["status"] == "True"}
    return awaited in holding | {status["phase"]}


class _OnePod:
    def __init__(self, worker: PodWorker) -> None:
        self._worker = worker

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        return self._worker if self._worker.key == (namespace, name) else None


async def _served(worker: PodWorker, asked: list[Any]) -> list[Any]:
    """What the kubelet's own server answers: to paths, and to commands with their input."""
    server = await asyncio.start_server(KubeletApi(_OnePod(worker)).serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    answers: list[Any] = []
    for one in asked:
        if isinstance(one, str):
            answers.append(await spdy_client.get(port, one))
        else:
            came = await spdy_client.execute(port, one["container"], one["command"], one.get("input", "").encode())
            answers.append({name: data.decode() for name, data in came.items()})
    server.close()
    return answers


async def _try(given: Object) -> Object:
    api, directory = TrialApi(given.get("objects", {})), Path(given["directory"])
    node = NodeContext(
        api=cast(NodeApi, api),
        name="trial",
        address=_NODE_ADDRESS,
        directory=directory,
        images=Images({}, ImageRoot(Path("/"), {"Env": ["FROM_IMAGE=yes"]})),
        resources={"cpu": "2", "memory": "1Gi"},
        dns_address="10.96.0.10",
        domain="cluster.local",
        refreshed_each_s=0.5,
    )
    node.addresses = PodAddresses("10.244.0.0/24")
    worker = PodWorker(node, given["pod"])
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(api.reached(given["until"]), _LIMIT_S)
    main = worker.runner(given["pod"]["spec"]["containers"][0]["name"])
    assert main is not None
    served = await _served(worker, given.get("served", []))
    executed = []
    for command in given.get("execute", []):
        if isinstance(command, dict):
            api.objects |= command
            await asyncio.sleep(given["refreshed_s"])
        elif main.process is not None:
            executed.append(await main.process.run(command, directory / "exec.json", _COMMAND_S))
    log = main.log().read_text() if main.log().exists() else ""
    metadata = given["pod"]["metadata"] | {"deletionTimestamp": "now", "deletionGracePeriodSeconds": given["grace_s"]}
    worker.take(given["pod"] | {"metadata": metadata})
    await asyncio.wait_for(running, _LIMIT_S)
    told = {"statuses": api.statuses, "events": api.events, "deleted": api.deleted}
    return told | {"executed": executed, "log": log, "left": _left(directory / "pods"), "served": served}


def _left(directory: Path) -> list[str]:
    return [str(path) for path in directory.rglob("*")]


if __name__ == "__main__":
    for command in ("link set lo up", f"address add {_NODE_ADDRESS}/32 dev lo"):
        subprocess.run(["ip", *command.split()], check=True)  # noqa: S607 - Debian's
    sys.stdout.write(json.dumps(asyncio.run(_try(json.load(sys.stdin)))))
