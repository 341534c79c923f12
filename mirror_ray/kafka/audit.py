"""Writes changes that were made to clusters into a flow's audit topic.

A record for each, in JSON; the key ``{"change": TIME_MS, "n": N}`` is unique, so that compaction keeps all of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.internal_writer import InternalRecord, InternalWriter
from mirror_ray.model.change import Change
from mirror_ray.model.internal_topics import audit_topic

_CLIENT_ID = "mirror-ray-audit"


async def append_changes(target: ClusterSettings, source_alias: str, changes: Sequence[Change]) -> None:
    """Append to the audit topic of a flow on its target; makes the topic where it is missing.

    Raises:
        OSError, MirrorError: Some of them may not be there.
    """
    topic = audit_topic(source_alias)
    await asyncio.to_thread(create_audit_topic, target, topic)
    cluster = Cluster(target, _CLIENT_ID)
    try:
        await cluster.refresh([topic])
        await InternalWriter(cluster, topic).append([_record(number, each) for number, each in enumerate(changes)])
    finally:
        await cluster.close()


def create_audit_topic(target: ClusterSettings, topic: str) -> None:
    """Make an audit topic where it is missing.

    Raises:
        MirrorError: It is missing and can't be created.
    """
    with closing(ClusterAdmin(target, _CLIENT_ID)) as admin:
        admin.ensure_compacted_topic(topic, 1, None)


def _record(number: int, change: Change) -> InternalRecord:
    key = {"change": change.time_ms, "n": number}
    return InternalRecord(_json(key), _json(asdict(change)))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
