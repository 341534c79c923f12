"""The clusters that each flow has begun with, as long as the system runs: a running flow is not turned to others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from mirror_ray.config.difference import data_path
from mirror_ray.config.settings import ClusterSettings, MirrorSettings
from mirror_ray.coordinator.ports import FlowClusters
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError
from mirror_ray.model.names import FlowName
from mirror_ray.state.records import FlowRecord
from mirror_ray.state.schema import state_topic


class ClusterIds(NamedTuple):
    """The ids of a flow's clusters, as their storage was formatted with."""

    source: str
    target: str


def turned_refusal(flow: FlowName, begun: ClusterIds, found: ClusterIds) -> str | None:
    """Why a flow that has begun between ``begun`` must not go on between ``found``; None where it may.

    An id that is empty is not known, and no reason.
    """
    other = [
        f"{side} cluster {alias} now has the cluster id {new}, and the flow has begun with {old}"
        for side, alias, old, new in (
            ("source", flow.source, begun.source, found.source),
            ("target", flow.target, begun.target, found.target),
        )
        if old and new and old != new
    ]
    if not other:
        return None
    return f"{flow}: {'; '.join(other)}. {_advice(flow, begun, found)}"


def _advice(flow: FlowName, begun: ClusterIds, found: ClusterIds) -> str:
    if found.target in ("", begun.target):
        # The state topic there is the former source's, and a second system would take it from the first.
        return (
            f"Give the new cluster an alias of its own: {state_topic(flow.source)} on {flow.target} keeps how far the "
            f"copy of {begun.source} has come"
        )
    return (
        "A flow that runs is not turned to another cluster: `mirror-ray up CONFIG --name OTHER` starts a system beside "
        "this one; or stop this one first: `mirror-ray down`, then `mirror-ray up CONFIG`"
    )


class BegunFlows:
    """Remembers the clusters of flows that have begun, until ``down``; also of those that were ended since."""

    def __init__(self, ask: Callable[[ClusterSettings], Awaitable[str]]) -> None:
        """``ask``: the id of the cluster that answers by these settings."""
        self._ask = ask
        self.known: dict[FlowName, ClusterIds] = {}

    def learn(self, records: Mapping[FlowName, FlowRecord | None]) -> bool:
        """Remember the clusters in flows' records; whether any of them was not known."""
        found = {
            flow.live: ClusterIds(record.source_cluster_id, record.target_cluster_id)
            for flow, record in records.items()
            if record is not None
        }
        is_new = not found.keys() <= self.known.keys()
        self.known = found | self.known
        return is_new

    async def check(self, before: MirrorSettings | None, after: MirrorSettings) -> None:
        """Refuse to turn a flow that has begun to another cluster. Asks only the clusters of flows that begin anew.

        A cluster with unchanged settings that does not answer is no reason: the flow itself checks before it goes on.

        Raises:
            ConfigError: With a sentence for each flow that would be.
            ClusterUnreachableError: A cluster that has other settings now does not answer.
        """
        flows = [
            flow.name
            for flow in after.flows
            if flow.enabled
            and flow.name in self.known
            and (before is None or data_path(before, flow.name) != data_path(after, flow.name))
        ]
        aliases = sorted({alias for name in flows for alias in (name.source, name.target)})
        found = await asyncio.gather(*(self._id_of(alias, before, after) for alias in aliases))
        ids: Mapping[str, str] = dict(zip(aliases, found, strict=True))
        now = {name: ClusterIds(ids[name.source], ids[name.target]) for name in flows}
        reasons = [turned_refusal(name, self.known[name], now[name]) for name in flows]
        problems = [reason for reason in reasons if reason is not None]
        if problems:
            raise ConfigError(*problems, "nothing has been changed")

    async def _id_of(self, alias: str, before: MirrorSettings | None, after: MirrorSettings) -> str:
        try:
            return await self._ask(after.clusters[alias])
        except ClusterUnreachableError as error:
            if before is not None and before.clusters.get(alias) == after.clusters[alias]:
                return ""
            raise ClusterUnreachableError(f"{error}; nothing has been changed") from error


async def stay_between(flow: FlowName, begun: ClusterIds | None, port: FlowClusters) -> None:
    """Raise ConfigError where the flow has ``begun`` with other clusters, before its state is opened there anew."""
    if begun is None:
        return
    source, target = await port.observe()
    refusal = turned_refusal(flow.live, begun, ClusterIds(source.cluster_id, target.cluster_id))
    if refusal is not None:
        raise ConfigError(refusal)
