"""What the pods of a node have of their node."""

from __future__ import annotations

import asyncio
import sys
import time
import zlib
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.kubernetes.node_api import UNREACHABLE, NodeApi
from tests.support.kubernetes.pod_images import Images
from tests.support.kubernetes.pod_network import PodAddresses

Object = dict[str, Any]

_TOLD_ONCE_IN_S = 60.0


def group_of(node: str, directory: Path) -> str:
    """The name of a node's cgroups."""
    return f"{node}-{zlib.crc32(str(directory).encode()):08x}"


@dataclass(kw_only=True)
class NodeContext:
    """A node: its name, addresses, resources, images, and the API by which it tells what happens."""

    api: NodeApi
    name: str
    address: str
    directory: Path
    images: Images
    resources: dict[str, str]
    dns_address: str
    domain: str
    #: How often volumes are brought up to date.
    refreshed_each_s: float = 5.0
    addresses: PodAddresses = field(init=False)
    _told_at_s: dict[tuple[str, str, str], float] = field(default_factory=dict)
    _background: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def group(self) -> str:
        """The name of its cgroups: nodes of another cluster on this machine may have its name."""
        return group_of(self.name, self.directory)

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something meanwhile; the task is held until it has ended."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def event(self, pod: Object, reason: str, message: str, kind: str = "Normal") -> None:
        """Tell what happened to a pod, to whom `kubectl describe` shows it."""
        told, now_s = (pod["metadata"]["uid"], reason, message), time.monotonic()
        if now_s - self._told_at_s.get(told, -_TOLD_ONCE_IN_S) < _TOLD_ONCE_IN_S:
            return
        self._told_at_s[told] = now_s
        sys.stderr.write(f"{self.name} {pod['metadata']['namespace']}/{pod['metadata']['name']} {reason}: {message}\n")
        self.in_background(self._tell(pod, reason, message, kind))

    async def _tell(self, pod: Object, reason: str, message: str, kind: str) -> None:
        metadata, now = pod["metadata"], datetime.now(UTC)
        moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "metadata": {"namespace": metadata["namespace"], "name": f"{metadata['name']}.{now.timestamp():.6f}"},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "reason": reason,
            "message": message[:1024],
            "type": kind,
            "source": {"component": "kubelet", "host": self.name},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        # Events are told once or not at all.
        try:
            await self.api.create(f"/api/v1/namespaces/{metadata['namespace']}/events", event)
        except UNREACHABLE as error:
            sys.stderr.write(f"{self.name}: an event is lost: {error}\n")
