"""What a coordinator needs: Ray's actors, Kafka's clusters."""

from __future__ import annotations

from functools import partial

from actors.helpers import RayCheckpoint, RayGateway, RayHeartbeat, RaySchemaSync
from actors.nodes import RayNodes
from actors.replicators import RayReplicators
from actors.settings_store import RaySettingsStore
from mirror_ray.coordinator.dependencies import Dependencies
from mirror_ray.coordinator.flow_clusters import KafkaFlowClusters
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.topics.port import KafkaTopicPort


def ray_dependencies(name: str, audit_logs: AuditLogs, node: str) -> Dependencies:
    """Of the system ``name``, whose coordinator runs on ``node``."""
    return Dependencies(
        spawner=RayReplicators(name),
        flow_port=partial(KafkaFlowClusters, audit_logs=audit_logs),
        topic_port=lambda settings, flow: KafkaTopicPort(settings, flow, audit_logs.of(settings, flow.name)),
        heartbeat=partial(RayHeartbeat, name),
        checkpoint=partial(RayCheckpoint, name),
        schemas=partial(RaySchemaSync, name),
        gateway=partial(RayGateway, name),
        settings_store=RaySettingsStore(name),
        audit_logs=audit_logs,
        node=node,
        nodes=RayNodes(),
    )
