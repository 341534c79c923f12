"""The topics that a flow keeps offsets, statistics, dead letters and changes in: ours and MM2's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.internal_topics import (
    audit_log_topic,
    audit_topic,
    commits_topic,
    dead_letters_topic,
    schemas_topic,
    segments_topic,
    statistics_topic,
)
from mirror_ray.model.policy import load_policy
from mirror_ray.records.commit_record import SNAPSHOT_MS

#: Written every second while records flow, and read whole at each start.
_SEGMENT_BYTES: Final = 16 << 20
_HISTORY_SEGMENT_BYTES: Final = 64 << 20
_SNAPSHOT_LATE_MS: Final = 300_000
#: A retention is cut into this many segments: at most one of them stays too long.
_SEGMENTS_OF_RETENTION: Final = 8
_LEAST_SEGMENT_MS: Final = 60_000
#: Large enough for every record; a request of a broker's default size still holds it.
_DEAD_LETTER_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A topic of one partition: compacted, or with ``retention_ms`` one whose records are deleted after so long."""

    name: str
    side: Literal["source", "target"] = "target"
    #: None: by the number of brokers.
    replication_factor: int | None = None
    #: None: the broker's.
    segment_bytes: int | None = None
    #: None: it is compacted; -1: nothing is deleted.
    retention_ms: int | None = None
    #: None: the broker's.
    max_message_bytes: int | None = None
    #: What it is for, after "to".
    why: str

    @property
    def configs(self) -> dict[str, str]:
        """The configs that it is created with."""
        sizes = {"segment.bytes": self.segment_bytes, "max.message.bytes": self.max_message_bytes}
        configs = {key: str(size) for key, size in sizes.items() if size is not None}
        if self.retention_ms is None:
            return {"cleanup.policy": "compact", **configs}
        if self.retention_ms >= 0:
            # Only closed segments are deleted.
            closed_ms = max(_LEAST_SEGMENT_MS, self.retention_ms // _SEGMENTS_OF_RETENTION)
            configs = {"segment.ms": str(closed_ms), **configs}
        return {"cleanup.policy": "delete", "retention.ms": str(self.retention_ms), **configs}


def audit_log(source_alias: str, retention_ms: int) -> InternalTopic:
    """The topic of a flow's audit log; the first entry makes it."""
    name = audit_log_topic(source_alias)
    return InternalTopic(name=name, retention_ms=retention_ms, why="to keep what was changed, and by whom")


def schema_ids(flow: FlowSettings) -> InternalTopic | None:
    """The topic of what a flow's schema ids become, which the schema sync creates; None: it syncs no schemas."""
    if not (flow.enabled and flow.syncs_schemas and flow.name.is_live):
        return None
    return InternalTopic(
        name=schemas_topic(flow.name.source),
        replication_factor=flow.topics.replication_factor,
        why="to keep what schema ids become",
    )


def offset_topics(flow: FlowSettings) -> tuple[InternalTopic, ...]:
    """The topics of a flow's offsets, statistics and dead letters, by its settings; none of a flow that is disabled."""
    if not flow.enabled:
        return ()
    name = flow.name
    segments = InternalTopic(
        name=segments_topic(name.source, name.route),
        segment_bytes=_SEGMENT_BYTES,
        why="to keep which offsets belong together",
    )
    # The other topics of a route are those of its flow.
    return (segments,) if flow.route is not None else (segments, *_topics_of_flow(flow))


def _topics_of_flow(flow: FlowSettings) -> Iterator[InternalTopic]:
    policy, name, syncs = load_policy(flow.policy, flow.name.source), flow.name, flow.offset_syncs
    yield InternalTopic(name=audit_topic(name.source), why="to keep what failovers and failbacks have done")
    if flow.statistics.emit_enabled:
        yield InternalTopic(
            name=statistics_topic(name.source),
            retention_ms=round(flow.statistics.retention_s * 1000),
            why="to tell what was copied in each interval",
        )
    if flow.transforms.errors == "dead_letter":
        yield InternalTopic(
            name=flow.transforms.dead_letter_topic or dead_letters_topic(name.source),
            retention_ms=-1,
            max_message_bytes=_DEAD_LETTER_BYTES,
            why="to keep records that a transform failed on",
        )
    if syncs.enabled:
        yield InternalTopic(
            name=policy.offset_syncs_topic(name.target if syncs.location == "source" else name.source),
            side=syncs.location,
            replication_factor=syncs.replication_factor,
            why="to tell MM2 which offsets belong together",
        )
    if flow.groups.emit_checkpoints_enabled:
        yield InternalTopic(
            name=policy.checkpoints_topic(name.source),
            replication_factor=flow.groups.checkpoints_replication_factor,
            why="to emit checkpoints",
        )
    if flow.groups.history_enabled and flow.groups.emit_checkpoints_enabled:
        # What was committed at a moment is read from the last snapshot before it on.
        retention_ms = int(flow.groups.history_retention_s * 1000) + SNAPSHOT_MS + _SNAPSHOT_LATE_MS
        yield InternalTopic(
            name=commits_topic(name.source),
            segment_bytes=_HISTORY_SEGMENT_BYTES,
            retention_ms=retention_ms,
            why="to keep what groups have committed, and when",
        )
