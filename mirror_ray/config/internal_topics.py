"""The topics that a flow keeps its offsets and statistics in: ours and MM2's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.internal_topics import (
    audit_log_topic,
    audit_topic,
    commits_topic,
    dead_letters_topic,
    segments_topic,
    statistics_topic,
)
from mirror_ray.model.policy import load_policy
from mirror_ray.records.commit_record import SNAPSHOT_MS

#: Written every second while records flow, and read whole at each start.
_SEGMENT_BYTES: Final = 16 << 20
_HISTORY_SEGMENT_BYTES: Final = 64 << 20
_SNAPSHOT_LATE_MS: Final = 300_000
#: Of a topic whose records are deleted, so much more than is asked for stays at most.
_SEGMENTS_OF_RETENTION: Final = 8
_LEAST_SEGMENT_MS: Final = 60_000
#: No record is to be too large to be set aside; a request of a broker's default size still holds it.
_DEAD_LETTER_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A topic of one partition: compacted, or with ``retention_ms`` one whose records are deleted after so long."""

    name: str
    side: Literal["source", "target"]
    #: None: by the number of brokers.
    replication_factor: int | None
    #: None: the broker's.
    segment_bytes: int | None = None
    #: None: compacted; -1: nothing is deleted.
    retention_ms: int | None = None
    #: None: the broker's.
    max_message_bytes: int | None = None
    #: What it is for, after "to".
    why: str

    @property
    def configs(self) -> dict[str, str]:
        """What it is created with."""
        sizes = {} if self.segment_bytes is None else {"segment.bytes": str(self.segment_bytes)}
        if self.retention_ms is None:
            return {"cleanup.policy": "compact", **sizes}
        if self.max_message_bytes is not None:
            sizes["max.message.bytes"] = str(self.max_message_bytes)
        if self.retention_ms < 0:
            return {"cleanup.policy": "delete", "retention.ms": "-1", **sizes}
        # Only closed segments are deleted.
        closed_ms = max(_LEAST_SEGMENT_MS, self.retention_ms // _SEGMENTS_OF_RETENTION)
        return {
            "cleanup.policy": "delete",
            "retention.ms": str(self.retention_ms),
            "segment.ms": str(closed_ms),
            **sizes,
        }


def audit_log(source_alias: str, retention_ms: int) -> InternalTopic:
    """The topic of a flow's audit log; the first entry makes it."""
    return InternalTopic(
        name=audit_log_topic(source_alias),
        side="target",
        replication_factor=None,
        retention_ms=retention_ms,
        why="to keep what was changed, and by whom",
    )


def offset_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    """What a flow that is enabled needs, by its settings."""
    if not flow.enabled:
        return ()
    policy, name, syncs = load_policy(flow.policy, flow.name.source), flow.name, flow.offset_syncs
    topics = [
        InternalTopic(
            name=segments_topic(name.source, name.route),
            side="target",
            replication_factor=None,
            segment_bytes=_SEGMENT_BYTES,
            why="to keep which offsets belong together",
        )
    ]
    if flow.route is not None:
        # All others are those of the flow.
        return tuple(topics)
    topics += [
        InternalTopic(
            name=audit_topic(name.source),
            side="target",
            replication_factor=None,
            why="to keep what failovers and failbacks have done",
        ),
    ]
    if flow.statistics.emit_enabled:
        topics.append(
            InternalTopic(
                name=statistics_topic(name.source),
                side="target",
                replication_factor=None,
                retention_ms=round(flow.statistics.retention_s * 1000),
                why="to tell what was copied in each interval",
            )
        )
    if flow.transforms.errors == "dead_letter":
        topics.append(
            InternalTopic(
                name=flow.transforms.dead_letter_topic or dead_letters_topic(name.source),
                side="target",
                replication_factor=None,
                retention_ms=-1,
                max_message_bytes=_DEAD_LETTER_BYTES,
                why="to keep records that a transform failed on",
            )
        )
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
    if flow.groups.history_enabled and flow.groups.emit_checkpoints_enabled:
        # What was committed at a moment is told from the last snapshot before it on.
        retention_ms = int(flow.groups.history_retention_s * 1000) + SNAPSHOT_MS + _SNAPSHOT_LATE_MS
        topics.append(
            InternalTopic(
                name=commits_topic(name.source),
                side="target",
                replication_factor=None,
                segment_bytes=_HISTORY_SEGMENT_BYTES,
                retention_ms=retention_ms,
                why="to keep what groups have committed, and when",
            )
        )
    return tuple(topics)
