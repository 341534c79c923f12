"""Takes a flow over from MM2: finds where each partition goes on, and writes it into the flow's state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from mirror_ray.config.internal_topics import offset_topics
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.records.mm2_records import OffsetSyncRecord
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.state import schema
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FlowRecord, GrantRecord
from mirror_ray.state.schema import Document
from mirror_ray.takeover import mm2_offset_syncs
from mirror_ray.takeover.decisions import (
    PartitionFindings,
    TakeoverDecision,
    all_or_nothing,
    decide,
    needs_contents,
    shows_the_topic,
)
from mirror_ray.takeover.flow_session import FlowSession
from mirror_ray.takeover.log_contents import ComparedContents, LogContents, settled_bounds, source_bounds
from mirror_ray.takeover.mm2_activity import Mm2Topics, read_notes, read_pairs
from mirror_ray.topics import discovery_rules

_BEGINNING: Final = OffsetPair(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverResult:
    """What became of a flow."""

    flow: FlowName
    rows: tuple[TakeoverDecision, ...]
    #: Topics that MM2 noted offsets of and that the flow does not copy.
    others: tuple[str, ...]
    dry: bool

    @property
    def ok(self) -> bool:
        """Whether no topic was refused."""
        return not any(row.outcome == "refused" for row in self.rows)


async def take_over(
    settings: MirrorSettings,
    name: FlowName,
    mm2: Mm2Topics,
    *,
    quiet_s: float = 3.0,
    dry: bool = False,
    force: bool = False,
    audit_log: AuditLog = UNRECORDED,
) -> TakeoverResult:
    """Take over what MM2 has copied of a flow; what the flow's state accounts for already is left as it is.

    Each topic is taken over as a whole or not at all. ``quiet_s``: for so long nothing may happen on the target.
    ``dry``: nothing is written. ``force``: see ``decide``. ``audit_log`` keeps what is changed.

    Raises:
        NotReadyError: MM2 or mirror-ray still runs, or a transaction is open.
        ConfigError: There is no such flow, or no note of it.
        ClusterUnreachableError: A cluster, or a leader, does not answer.
        MirrorError: Something can't be read or written; nothing of the state was changed.
    """
    async with FlowSession(settings, name, "takeover", audit_log) as ground:
        before = await ground.first_look(mm2)
        began_s = time.monotonic()
        job = _Takeover(ground, mm2, _shared_topics(ground))
        rows = await job.decide(force=force)
        await asyncio.sleep(max(0.0, began_s + quiet_s - time.monotonic()))
        await ground.second_look(mm2, before)
        others = sorted({each.topic for each in job.notes} - ground.selected.keys())
        if not dry:
            await job.carry_out(rows)
        return TakeoverResult(flow=name, rows=tuple(rows), others=tuple(others), dry=dry)


def _shared_topics(ground: FlowSession) -> dict[str, str]:
    """Source topics whose remote topics others write, too, with the reason."""
    declared = compile_patterns(ground.flow.topics.shared_remote)
    found = {
        topic: f"{remote} is declared to be shared (shared.remote.topics): whose records are at its end can't be told"
        for topic, remote in ground.selected.items()
        if declared is not None and declared.fits(remote)
    }
    by_remote: dict[str, list[str]] = {}
    for topic, remote in ground.selected.items():
        by_remote.setdefault(remote, []).append(topic)
    for remote, topics in by_remote.items():
        if len(topics) > 1:
            found |= dict.fromkeys(topics, f"{', '.join(topics)} are copied into the same {remote}")
    return found


class _Takeover:
    """One flow's; ``decide`` comes first."""

    def __init__(self, ground: FlowSession, mm2: Mm2Topics, shared: Mapping[str, str]) -> None:
        self._ground, self._mm2, self._shared = ground, mm2, shared
        self.notes: Mapping[TopicPartition, int | None] = {}
        self._pairs: Mapping[TopicPartition, list[OffsetSyncRecord]] = {}

    async def decide(self, *, force: bool = False) -> list[TakeoverDecision]:
        """What becomes of each partition of the selected topics. ``force``: see the pure function of this name."""
        ground = self._ground
        self.notes, self._pairs = await asyncio.gather(
            read_notes(ground.target, self._mm2, ground.flow.name),
            read_pairs(ground.flow, ground.source, ground.target),
        )
        known = {} if self._anew else ground.memory.partitions
        kept = [each for each in self._partitions() if each in known]
        facts = await self._facts([each for each in self._partitions() if each not in known])
        looked = await self._compared(facts)
        rows = [TakeoverDecision(source=each, remote=ground.selected[each.topic], outcome="kept") for each in kept]
        shown = {facts.source.topic for facts in looked if shows_the_topic(facts)}
        rows += [self._decided(facts, known=facts.source.topic in shown, force=force) for facts in looked]
        return sorted(all_or_nothing(rows), key=lambda row: row.source)

    @property
    def _anew(self) -> bool:
        """Whether the flow was handed back, so that its old anchors are void."""
        return self._ground.memory.handed_back_ms is not None

    def _decided(self, facts: PartitionFindings, *, known: bool, force: bool) -> TakeoverDecision:
        remote = self._ground.selected[facts.source.topic]
        reason = self._shared.get(facts.source.topic)
        if reason is not None and facts.target is not None and facts.target[1] > 0:
            return TakeoverDecision(
                source=facts.source, remote=remote, outcome="refused", noted=facts.noted, remarks=(reason,)
            )
        return decide(facts, remote, known=known, force=force)

    def _partitions(self) -> list[TopicPartition]:
        sides = {topic: self._ground.side(self._ground.source, topic) for topic in self._ground.selected}
        return [TopicPartition(topic, n) for topic, side in sides.items() if side for n in range(side.partitions)]

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._ground.selected[partition.topic], partition.partition)

    async def _facts(self, partitions: list[TopicPartition]) -> list[PartitionFindings]:
        there = set(self._ground.remote_partitions())
        remotes = [self._remote(each) for each in partitions if self._remote(each) in there]
        ours, theirs = await asyncio.gather(
            source_bounds(self._ground.source, partitions), settled_bounds(self._ground.target, remotes)
        )
        return [
            PartitionFindings(
                source=each,
                noted=self.notes.get(each),
                source_start=ours[each].start,
                source_end=ours[each].end,
                target=theirs.get(self._remote(each)),
            )
            for each in partitions
        ]

    async def _compared(self, facts: list[PartitionFindings]) -> list[PartitionFindings]:
        ground = self._ground
        asked = {
            each: self._remote(each.source)
            for each in facts
            if needs_contents(each) and each.source.topic not in self._shared
        }
        timed = await self._timed({remote.topic for remote in asked.values()})
        contents = LogContents(ground.source, ground.target, ground.flow.fetch.isolation_level)
        found = await contents.compare(
            [
                ComparedContents(
                    facts=each,
                    source_id=ground.source.metadata.topics[each.source.topic].topic_id,
                    remote=remote,
                    remote_id=ground.target.metadata.topics[remote.topic].topic_id,
                    pairs=[(sync.upstream_offset, sync.downstream_offset) for sync in self._pairs.get(each.source, ())],
                    timed=timed[remote.topic],
                )
                for each, remote in asked.items()
            ]
        )
        return [replace(each, match=found.get(each.source)) for each in facts]

    async def _timed(self, remotes: set[str]) -> dict[str, bool]:
        """Whether remote topics keep the records' timestamps; where configs may not be read, as is the default."""
        admin = ClusterAdmin(self._ground.target.settings, "mirror-ray-takeover")
        try:
            configs = await asyncio.to_thread(admin.try_describe_topic_configs, remotes)
        finally:
            await asyncio.to_thread(admin.close)

        def stamps(topic: str) -> bool:
            found = configs.get(topic)
            kind = found.get("message.timestamp.type") if isinstance(found, dict) else None
            return kind is not None and kind.value == "LogAppendTime"

        return {topic: not stamps(topic) for topic in remotes}

    async def carry_out(self, rows: list[TakeoverDecision]) -> None:
        """Write what was decided: first what is known of older offsets, then the state, in one transaction.

        Raises:
            NotReadyError: The state has changed meanwhile.
            MirrorError: Something can't be written; give the command again.
        """
        records = {row.source: self._record(row) for row in rows if row.outcome == "taken"}
        if not records and not self._anew:
            return
        await self._ground.claim()
        await self._tell(records)
        await asyncio.to_thread(self._ground.store.write, self._documents(records))

    def _record(self, row: TakeoverDecision) -> PartitionRecord:
        source = self._ground.side(self._ground.source, row.source.topic)
        remote = self._ground.side(self._ground.target, row.remote)
        if row.begin is None or row.target_end is None or source is None or remote is None:
            raise AssertionError(row)
        return discovery_rules.first_record(source, remote, OffsetPair(row.begin, row.target_end))

    def _documents(self, records: Mapping[TopicPartition, PartitionRecord]) -> dict[str, Document | None]:
        ground, memory = self._ground, self._ground.memory
        known = memory.flow
        if known is None or self._anew:
            # What the broker remembers of an older producer does not fit the new places: `up` gets another one.
            known = FlowRecord(
                producer_id=-1,
                producer_epoch=-1,
                source_cluster_id=ground.source.metadata.cluster_id,
                target_cluster_id=ground.target.metadata.cluster_id,
                selection=known.selection if known is not None else discovery_rules.selection_of(ground.flow),
            )
        documents = schema.FLOW.documents("", known)
        for topic in memory.starts.keys() & {partition.topic for partition in records}:
            documents |= schema.START.documents(topic, None)
        if self._anew:
            documents |= schema.HANDED_BACK.documents("", None)
            for partition in memory.partitions:
                documents |= schema.PARTITION.documents(partition, None)
            for partition in memory.resolutions:
                documents |= schema.RESOLUTION.documents(partition, None)
        for partition, record in records.items():
            documents |= schema.PARTITION.documents(partition, record)
        return documents

    async def _tell(self, records: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Tell the flow's map of MM2's pairs, for groups that stand before the places where copying goes on."""
        ground = self._ground
        blocks = []
        for source, record in records.items():
            before = ground.memory.partitions.get(source)
            floor = before.pair if before is not None else _BEGINNING
            known = mm2_offset_syncs.chain(self._pairs.get(source, ()), floor, record.pair)
            epoch = ground.memory.grants.get(source, GrantRecord()).epoch
            blocks += list(mm2_offset_syncs.blocks(source, record, known, epoch))
        if not blocks:
            return
        topic = segments_topic(ground.flow.name.source)
        await asyncio.to_thread(self._ensure, topic)
        await ground.target.refresh([topic])
        writer = InternalTopicWriter(ground.target, topic)
        try:
            await writer.append([KeyedRecord(encode_key(block.key), encode_value(block)) for block in blocks])
        except OSError as error:
            raise MirrorError(f"topic {topic} can't be written: {error}; run this again") from error

    def _ensure(self, topic: str) -> None:
        admin = ClusterEditor(self._ground.target.settings, "mirror-ray-takeover", self._ground.audit_log)
        try:
            for each in offset_topics(self._ground.flow):
                if each.name == topic:
                    admin.ensure_internal_topic(topic, 1, each.replication_factor, each.configs)
        finally:
            admin.close()
