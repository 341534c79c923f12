"""The topics that a flow keeps its offsets in: ours and MM2's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.internal_topics import audit_topic, segments_topic
from mirror_ray.model.policy import load_policy

#: Written every second while records flow, and read whole at each start.
_SEGMENT_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A compacted topic of one partition."""

    name: str
    side: Literal["source", "target"]
    #: None: by the number of brokers.
    replication_factor: int | None
    #: None: the broker's.
    segment_bytes: int | None = None
    #: What it is for, after "to".
    why: str


def offset_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    """What a flow that is enabled needs, by its settings."""
    if not flow.enabled:
        return ()
    policy, name, syncs = load_policy(flow.policy, flow.name.source), flow.name, flow.offset_syncs
    topics = [
        InternalTopic(
            name=segments_topic(name.source),
            side="target",
            replication_factor=None,
            segment_bytes=_SEGMENT_BYTES,
            why="to keep which offsets belong together",
        ),
        InternalTopic(
            name=audit_topic(name.source),
            side="target",
            replication_factor=None,
            why="to keep what failovers and failbacks have done",
        ),
    ]
    if syncs.enabled:
        on_source = syncs.location == "source"
        topics.append(
            InternalTopic(
                name=policy.offset_syncs_topic(name.target if on_source else name.source),
                side=syncs.location,
                replication_factor=syncs.replication_factor,
                why="to tell MM2 which offsets belong together",
            )
        )
    if flow.groups.emit_checkpoints_enabled:
        topics.append(
            InternalTopic(
                name=policy.checkpoints_topic(name.source),
                side="target",
                replication_factor=flow.groups.checkpoints_replication_factor,
                why="to emit checkpoints",
            )
        )
    return tuple(topics)
