"""Ray's nodes behind ``NodesPort``: which are going away, where there is room, and asking the autoscaler for more.

Ray has no public way to ask for the first two: its state accessor is what its own tools use.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ray._private.state import state
from ray.exceptions import RaySystemError

from mirror_ray.coordinator.ports import Nodes
from mirror_ray.model.errors import MirrorError

_T = TypeVar("_T")
_Resources = Mapping[str, Mapping[str, float]]
#: Ray counts resources in ten-thousandths.
_GRAIN = 1e-4


class RayNodes:
    """The Ray that this process is connected to."""

    async def probe(self, cpus: float, labels: Mapping[str, str]) -> Nodes:
        """The nodes. The free CPUs that Ray reports may be a second old."""
        return await _ask(lambda: _probe(cpus, labels))

    async def request_room(self, replicators: int, cpus: float, labels: Mapping[str, str]) -> None:
        """Have the autoscaler make room for so many more on nodes of these labels; 0 withdraws the request.

        Ray fits a request into whole nodes, as if nothing ran there: so what is in use is asked for along with it. The
        request is the only one of the cluster and stays until it is withdrawn. Without an autoscaler nobody reads it.
        """
        await _ask(lambda: _request(replicators, cpus, labels))


async def _ask(act: Callable[[], _T]) -> _T:
    try:
        return await asyncio.to_thread(act)
    except (RaySystemError, RuntimeError, OSError) as error:
        raise MirrorError(f"Ray does not say which nodes there are: {error}") from error


def _probe(cpus: float, labels: Mapping[str, str]) -> Nodes:
    leaving = frozenset(state.get_draining_nodes())
    suitable = _labelled(labels) - leaving
    if cpus == 0:
        return Nodes(leaving=leaving, room=sys.maxsize if suitable else 0)
    room = sum(math.floor((free + _GRAIN) / cpus) for node, free in _free_cpus().items() if node in suitable)
    return Nodes(leaving=leaving, room=room)


def _request(replicators: int, cpus: float, labels: Mapping[str, str]) -> None:
    from ray.autoscaler.sdk import request_resources

    bundles: list[dict[str, Any]] = []
    if replicators and cpus:
        free = _free_cpus()
        used = [total - free.get(node, 0.0) for node, total in _cpus(state.total_resources_per_node()).items()]
        bundles = [{"CPU": cpu} for cpu in (*used, *[cpus] * replicators) if cpu > _GRAIN]
    if labels:
        selectors: list[dict[str, str]] = (
            [{}] * (len(bundles) - replicators) + [dict(labels)] * replicators if bundles else []
        )
        request_resources(bundles=bundles, bundle_label_selectors=selectors)
    else:
        request_resources(bundles=bundles)


def _labelled(labels: Mapping[str, str]) -> frozenset[str]:
    """The nodes that live and have these labels."""
    return frozenset(
        node["NodeID"]
        for node in state.node_table()  # type: ignore[no-untyped-call]
        if node["Alive"] and labels.items() <= node.get("Labels", {}).items()
    )


def _free_cpus() -> dict[str, float]:
    return _cpus(state.available_resources_per_node())  # type: ignore[no-untyped-call]


def _cpus(resources: _Resources) -> dict[str, float]:
    return {node: resource.get("CPU", 0.0) for node, resource in resources.items()}
