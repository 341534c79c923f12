"""Hands a flow back to MM2: writes how far it has come where MM2 looks for it, and lets go of the flow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.connect_offsets_topic import write_connect_offsets
from mirror_ray.model.errors import ConfigError, NotReadyError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.policy import load_policy
from mirror_ray.records.source_offset import SourceOffset
from mirror_ray.state import schema
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.takeover.flow_session import FlowSession
from mirror_ray.takeover.log_contents import LogRange, settled_bounds
from mirror_ray.takeover.mm2_activity import Mm2Topics, read_notes


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffsetNote:
    """One partition's note for MM2: the source offset of the last record that is on the target."""

    source: TopicPartition
    remote: str
    target_end: int
    #: What MM2 had noted before, and what it reads now; None: nothing, so that it begins anew.
    before: int | None
    noted: int | None
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandbackResult:
    """What MM2 goes on by."""

    flow: FlowName
    notes: tuple[SourceOffsetNote, ...]
    dry: bool


async def hand_back(
    settings: MirrorSettings,
    name: FlowName,
    mm2: Mm2Topics,
    *,
    quiet_s: float = 3.0,
    dry: bool = False,
    audit_log: AuditLog = UNRECORDED,
) -> HandbackResult:
    """Write MM2's notes for every partition that the flow has copied. From then on `up` refuses the flow.

    May be given again until MM2 has begun to copy. ``quiet_s``: for so long nothing may happen on the target.
    ``dry``: nothing is written. ``audit_log`` keeps what is changed.

    Raises:
        NotReadyError: mirror-ray or MM2 still runs, or what the target holds is not what the state says.
        ConfigError: There is no such flow, or it has copied nothing.
        ClusterUnreachableError: A cluster, or a leader, does not answer.
        MirrorError: Something can't be read or written; give the command again.
    """
    async with FlowSession(settings, name, "handback", audit_log) as ground:
        records = {each: record for each, record in ground.memory.partitions.items() if each.topic in ground.selected}
        if not records:
            raise ConfigError(f"flow {name} has copied nothing yet: MirrorMaker 2 can begin as it is")
        if (otherwise := named_otherwise(ground.flow, records)) is not None:
            raise ConfigError(otherwise)
        before = await ground.first_look(mm2)
        began_s = time.monotonic()
        there = set(ground.remote_partitions())
        remotes = {TopicPartition(record.target_topic, each.partition) for each, record in records.items()}
        ends = await settled_bounds(ground.target, remotes & there)
        _refuse_unfinished(ground, records, ends)
        notes = await _notes(ground, mm2, records, ends)
        await asyncio.sleep(max(0.0, began_s + quiet_s - time.monotonic()))
        await ground.second_look(mm2, before)
        if not dry:
            await _carry_out(ground, mm2, notes)
        return HandbackResult(flow=name, notes=tuple(notes), dry=dry)


def named_otherwise(flow: FlowSettings, records: Mapping[TopicPartition, PartitionRecord]) -> str | None:
    """Why MM2 could not go on: it would copy into other remote topics; None: it would not."""
    policy = load_policy(flow.policy, flow.name.source)
    for each, record in sorted(records.items()):
        named = policy.format_remote_topic(flow.name.source, each.topic)
        if record.target_topic != named:
            return (
                f"{each.topic} is copied into {record.target_topic}, and MirrorMaker 2 would go on in {named}, for it "
                f"knows neither topics.map nor topics.rename: first exclude {each.topic} in both, by topics.exclude"
            )
    return None


def _refuse_unfinished(
    ground: FlowSession, records: Mapping[TopicPartition, PartitionRecord], ends: Mapping[TopicPartition, LogRange]
) -> None:
    """Raise NotReadyError where the state's last pair is not where both sides are."""
    for each, record in records.items():
        remote = TopicPartition(record.target_topic, each.partition)
        source, target = ground.side(ground.source, each.topic), ground.side(ground.target, record.target_topic)
        ids = (source and source.topic_id, target and target.topic_id)
        why = None
        if remote not in ends or ids != (record.source_topic_id, record.target_topic_id):
            why = f"{each.topic} or {record.target_topic} is not the topic that was copied"
        elif each in ground.memory.resolutions or record.recounting:
            why = f"what was decided about {each} is not carried out yet"
        elif not record.shared and ends[remote].end != record.target_offset:
            why = f"{remote} ends at {ends[remote].end}, and by the flow's state at {record.target_offset}"
            if ground.memory.handed_back_ms is not None:
                raise NotReadyError(
                    f"{why}: MirrorMaker 2, or somebody else, has gone on since the flow was handed back"
                )
        if why is not None:
            raise NotReadyError(
                f"handback of {ground.flow.name}: {why}: `mirror-ray up`, then `mirror-ray down`, settles it"
            )


async def _notes(
    ground: FlowSession,
    mm2: Mm2Topics,
    records: Mapping[TopicPartition, PartitionRecord],
    ends: Mapping[TopicPartition, LogRange],
) -> list[SourceOffsetNote]:
    there = mm2.offsets_topic in ground.target.metadata.topics
    had = await read_notes(ground.target, mm2, ground.flow.name) if there else {}
    return [
        SourceOffsetNote(
            source=each,
            remote=record.target_topic,
            target_end=ends[TopicPartition(record.target_topic, each.partition)].end,
            before=had.get(each),
            noted=record.source_offset - 1 if record.source_offset else None,
            remark=_remark(record),
        )
        for each, record in sorted(records.items())
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


async def _carry_out(ground: FlowSession, mm2: Mm2Topics, notes: list[SourceOffsetNote]) -> None:
    """Let go of the flow first: should the rest fail, nobody copies it until the command is given again."""
    await ground.claim()
    mark = schema.HANDED_BACK.documents("", int(time.time() * 1000))
    await asyncio.to_thread(ground.store.write, mark)
    name = ground.flow.name
    records = [
        SourceOffset(connector=mm2.connector, cluster=name.source, partition=each.source, offset=each.noted).encode()
        for each in notes
        if each.noted is not None or each.before is not None
    ]
    await write_connect_offsets(ground.target, mm2.offsets_topic, records, ground.audit_log)
