"""The clusters and the state of a flow that neither MM2 nor mirror-ray copies meanwhile."""

from __future__ import annotations

import asyncio
from typing import Self

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import LEADER_NOT_AVAILABLE
from mirror_ray.kafka.state_topic import StateStore, read_state, transactional_id
from mirror_ray.model.errors import ConfigError, NotReadyError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.state.schema import FlowStateRecords, decode, state_topic
from mirror_ray.takeover.mm2_activity import Mm2Topics, read_activity
from mirror_ray.takeover.mm2_liveness import Mm2Activity, why_running
from mirror_ray.topics.discovery_rules import TopicSide, cluster_refusal


class FlowSession:
    """An async context manager: the flow, its clusters, its state, and its state topic.

    ``selected``: the topics that it copies, with their remote topics' names. Nothing is written before ``claim``.
    """

    def __init__(self, settings: MirrorSettings, name: FlowName, purpose: str, audit_log: AuditLog) -> None:
        """Prepare.

        Raises:
            ConfigError: There is no such flow, it is not enabled, or security settings can't be used.
        """
        self.flow: FlowSettings = settings.flow(name)
        if not self.flow.enabled:
            raise ConfigError(f"flow {name} is not enabled: set {name}.enabled = true")
        client_id = f"{name}|mirror-ray|{purpose}"
        self.source, self.target = (
            ClusterConnections(settings.clusters[alias], client_id) for alias in (name.source, name.target)
        )
        self._purpose = purpose
        self.audit_log = audit_log
        self.store = StateStore(self.target.settings, state_topic(name.source), transactional_id(name), audit_log)
        self.selected: dict[str, str] = {}
        self.state = FlowStateRecords()

    async def __aenter__(self) -> Self:
        try:
            await asyncio.gather(self.source.refresh(None), self.target.refresh(None))
            rules = replication_rules(self.flow)
            self.selected = {
                topic: rules.remote_topic(topic)
                for topic in sorted(self.source.metadata.topics)
                if rules.should_replicate_topic(topic)
            }
            if self.store.topic in self.target.metadata.topics:
                self.state = decode(await asyncio.to_thread(read_state, self.target.settings, self.store.topic))
            self._check(self.state)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        await asyncio.gather(self.source.close(), self.target.close())
        await asyncio.to_thread(self.store.close)

    def topic_side(self, cluster: ClusterConnections, topic: str) -> TopicSide | None:
        """A topic as a cluster has it; None: it is not there."""
        found = cluster.metadata.topics.get(topic)
        if found is None or found.error_code not in (0, LEADER_NOT_AVAILABLE) or not found.partitions:
            return None
        return TopicSide(topic=topic, topic_id=found.topic_id, partitions=len(found.partitions))

    def remote_partitions(self) -> list[TopicPartition]:
        """All partitions of remote topics that there are."""
        sides = filter(None, (self.topic_side(self.target, remote) for remote in self.selected.values()))
        return [TopicPartition(side.topic, number) for side in sides for number in range(side.partitions)]

    async def read_activity(self, mm2: Mm2Topics, before: Mm2Activity | None = None) -> Mm2Activity:
        """What MM2 leaves now. Raises as ``mm2_activity.read_activity``, and NotReadyError where MM2 runs.

        It runs where its workers live, or where what it leaves has changed since ``before``.
        """
        activity = await read_activity(self.flow, self.target, mm2, self.remote_partitions())
        why = why_running(self.flow.name, mm2.group, before or activity, activity)
        if why is not None:
            raise NotReadyError(f"{self._purpose} of {self.flow.name}: {why}")
        return activity

    async def claim(self) -> None:
        """Open the state for writing; a coordinator that has it is fenced, and stops.

        Raises:
            NotReadyError: The state has changed meanwhile.
            MirrorError: It can't be opened.
        """
        before = self.state
        state = decode(await asyncio.to_thread(self.store.open))
        self._check(state)
        if state != before:
            raise NotReadyError(f"{self.flow.name}: its state has changed meanwhile: run this again")

    def _check(self, state: FlowStateRecords) -> None:
        name = self.flow.name
        source_id, target_id = (cluster.metadata.cluster_id for cluster in (self.source, self.target))
        other = cluster_refusal(name, state.flow, source_id, target_id)
        if other is not None:
            raise ConfigError(other)
        held = [partition for partition, grant in state.grants.items() if grant.lease_ms]
        if held:
            raise NotReadyError(
                f"{self._purpose} of {name}: mirror-ray copies {len(held)} of its partitions, or was killed while it "
                f"did: `mirror-ray down` first. Where it is gone, `mirror-ray up` once, then `mirror-ray down`"
            )
