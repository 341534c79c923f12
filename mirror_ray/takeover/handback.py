"""Hands a flow back to MM2: writes its positions as MM2's source offsets, and gives up the flow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.connect_offsets_topic import write_connect_offsets
from mirror_ray.model.errors import ConfigError, NotReadyError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.policy import load_policy
from mirror_ray.offsets.log_bounds import settled_bounds
from mirror_ray.offsets.translation import ReadableBounds
from mirror_ray.records.source_offset import SourceOffset
from mirror_ray.state import schema
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.takeover.flow_session import FlowSession
from mirror_ray.takeover.log_contents import WHOSE
from mirror_ray.takeover.mm2_activity import Mm2Topics, read_source_offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHandback:
    """One partition, and MM2's source offset of it: of the last record that is on the target."""

    source: TopicPartition
    remote: str
    #: MM2's source offset from before, and the one that it reads now; None: none, so that it begins anew.
    before: int | None
    noted: int | None
    target_end: int
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandbackResult:
    """What MM2 goes on by."""

    flow: FlowName
    partitions: tuple[PartitionHandback, ...]
    dry: bool


async def hand_back(
    settings: MirrorSettings,
    name: FlowName,
    mm2: Mm2Topics,
    *,
    quiet_s: float = 3.0,
    dry: bool = False,
    audit_log: AuditLog,
) -> HandbackResult:
    """Write MM2's source offset of every partition that the flow has copied. From then on `up` refuses the flow.

    May be given again until MM2 has begun to copy. ``quiet_s``: for so long nothing may happen on the target.
    ``dry``: nothing is written. ``audit_log`` keeps what is changed.

    Raises:
        NotReadyError: mirror-ray or MM2 still runs, or what the target holds is not what the state says.
        ConfigError: There is no such flow, or it has copied nothing.
        ClusterUnreachableError: A cluster, or a leader, does not answer.
        MirrorError: Something can't be read or written; give the command again.
    """
    async with FlowSession(settings, name, "handback", audit_log) as session:
        records = {
            partition: record
            for partition, record in session.state.partitions.items()
            if partition.topic in session.selected
        }
        if not records:
            raise ConfigError(f"flow {name} has copied nothing yet: MirrorMaker 2 can begin as it is")
        if (otherwise := named_otherwise(session.flow, records)) is not None:
            raise ConfigError(otherwise)
        before = await session.read_activity(mm2)
        began_s = time.monotonic()
        existing = set(session.remote_partitions())
        remotes = {TopicPartition(record.target_topic, partition.partition) for partition, record in records.items()}
        ends = await settled_bounds(session.target, remotes & existing, whose=WHOSE)
        _refuse_unfinished(session, records, ends)
        partitions = await _partitions(session, mm2, records, ends)
        await asyncio.sleep(max(0.0, began_s + quiet_s - time.monotonic()))
        await session.read_activity(mm2, before)
        if not dry:
            await _carry_out(session, mm2, partitions)
        return HandbackResult(flow=name, partitions=tuple(partitions), dry=dry)


def named_otherwise(flow: FlowSettings, records: Mapping[TopicPartition, PartitionRecord]) -> str | None:
    """Why MM2 could not go on: it would copy into other remote topics; None: it would not."""
    policy = load_policy(flow.policy, flow.name.source)
    for partition, record in sorted(records.items()):
        topic = partition.topic
        named = policy.format_remote_topic(flow.name.source, topic)
        if record.target_topic != named:
            return (
                f"{topic} is copied into {record.target_topic}, and MirrorMaker 2 would go on in {named}, for it "
                f"knows neither topics.map nor topics.rename: first exclude {topic} in both, by topics.exclude"
            )
    return None


def _refuse_unfinished(
    session: FlowSession,
    records: Mapping[TopicPartition, PartitionRecord],
    ends: Mapping[TopicPartition, ReadableBounds],
) -> None:
    """Raise NotReadyError where the state's last offset pair is not at the ends of both logs."""
    for partition, record in records.items():
        remote = TopicPartition(record.target_topic, partition.partition)
        source = session.topic_side(session.source, partition.topic)
        target = session.topic_side(session.target, record.target_topic)
        ids = (source and source.topic_id, target and target.topic_id)
        why = None
        if remote not in ends or ids != (record.source_topic_id, record.target_topic_id):
            why = f"{partition.topic} or {record.target_topic} is not the topic that was copied"
        elif partition in session.state.resolutions or record.recounting:
            why = f"what was decided about {partition} is not carried out yet"
        elif not record.shared and ends[remote].end != record.target_offset:
            why = f"{remote} ends at {ends[remote].end}, and by the flow's state at {record.target_offset}"
            if session.state.handed_back_ms is not None:
                raise NotReadyError(
                    f"{why}: MirrorMaker 2, or somebody else, has gone on since the flow was handed back"
                )
        if why is not None:
            raise NotReadyError(
                f"handback of {session.flow.name}: {why}: `mirror-ray up`, then `mirror-ray down`, settles it"
            )


async def _partitions(
    session: FlowSession,
    mm2: Mm2Topics,
    records: Mapping[TopicPartition, PartitionRecord],
    ends: Mapping[TopicPartition, ReadableBounds],
) -> list[PartitionHandback]:
    exists = mm2.offsets_topic in session.target.metadata.topics
    before = await read_source_offsets(session.target, mm2, session.flow.name) if exists else {}
    return [
        PartitionHandback(
            source=partition,
            remote=record.target_topic,
            target_end=ends[TopicPartition(record.target_topic, partition.partition)].end,
            before=before.get(partition),
            noted=record.source_offset - 1 if record.source_offset else None,
            remark=_remark(record),
        )
        for partition, record in sorted(records.items())
    ]


def _remark(record: PartitionRecord) -> str | None:
    if record.transforms:
        return f"its records were changed by {record.transforms}, and MirrorMaker 2 will copy them as they are"
    ahead = [(first, end) for first, end in record.skip if end > record.source_offset]
    if not ahead:
        return None
    return (
        f"source offsets {ahead[0][0]} to {ahead[0][1] - 1} are left out here, and MirrorMaker 2 will try to copy them"
    )


async def _carry_out(session: FlowSession, mm2: Mm2Topics, partitions: list[PartitionHandback]) -> None:
    """Give up the flow first: should the rest fail, nobody copies it until the command is given again."""
    await session.claim()
    mark = schema.HANDED_BACK.documents("", int(time.time() * 1000))
    await asyncio.to_thread(session.store.write, mark)
    name = session.flow.name
    records = [
        SourceOffset(connector=mm2.connector, cluster=name.source, partition=row.source, offset=row.noted).encode()
        for row in partitions
        if row.noted is not None or row.before is not None
    ]
    await write_connect_offsets(session.target, mm2.offsets_topic, records, session.audit_log)
