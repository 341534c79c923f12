"""Takes a flow over from MM2: gathers what both clusters hold, decides, and writes the flow's state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.offsets.log_bounds import all_bounds, settled_bounds
from mirror_ray.offsets.segments_topic import publish_blocks
from mirror_ray.records.mm2_records import OffsetSyncRecord
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
from mirror_ray.takeover.log_contents import WHOSE, ComparedContents, LogContents
from mirror_ray.takeover.mm2_activity import Mm2Topics, read_offset_syncs, read_source_offsets
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
    audit_log: AuditLog,
) -> TakeoverResult:
    """Take over what MM2 has copied of a flow; what the flow's state accounts for already is left as it is.

    Each topic is taken over as a whole or not at all. ``quiet_s``: for so long nothing may happen on the target.
    ``dry``: nothing is written. ``force``: see ``decide``. ``audit_log`` keeps what is changed.

    Raises:
        NotReadyError: MM2 or mirror-ray still runs, or a transaction is open.
        ConfigError: There is no such flow, or no source offset of it.
        ClusterUnreachableError: A cluster, or a leader, does not answer.
        MirrorError: Something can't be read or written; nothing of the state was changed.
    """
    async with FlowSession(settings, name, "takeover", audit_log) as session:
        before = await session.read_activity(mm2)
        began_s = time.monotonic()
        job = _Takeover(session, mm2, _shared_topics(session))
        rows = job.decide(await job.gather(), force=force)
        await asyncio.sleep(max(0.0, began_s + quiet_s - time.monotonic()))
        await session.read_activity(mm2, before)
        others = sorted({partition.topic for partition in job.source_offsets} - session.selected.keys())
        if not dry:
            await job.carry_out(rows)
        return TakeoverResult(flow=name, rows=tuple(rows), others=tuple(others), dry=dry)


def _shared_topics(session: FlowSession) -> dict[str, str]:
    """Source topics whose remote topics others write, too, with the reason."""
    declared = compile_patterns(session.flow.topics.shared_remote)
    found = {
        topic: f"{remote} is declared to be shared (shared.remote.topics): whose records are at its end can't be told"
        for topic, remote in session.selected.items()
        if declared is not None and declared.fits(remote)
    }
    by_remote: dict[str, list[str]] = {}
    for topic, remote in session.selected.items():
        by_remote.setdefault(remote, []).append(topic)
    for remote, topics in by_remote.items():
        if len(topics) > 1:
            found |= dict.fromkeys(topics, f"{', '.join(topics)} are copied into the same {remote}")
    return found


class _Takeover:
    """The takeover of one flow: ``gather``, ``decide``, ``carry_out``."""

    def __init__(self, session: FlowSession, mm2: Mm2Topics, shared: Mapping[str, str]) -> None:
        self._session, self._mm2, self._shared = session, mm2, shared
        #: MM2's, by source partition; None: one that was deleted.
        self.source_offsets: Mapping[TopicPartition, int | None] = {}
        self._offset_syncs: Mapping[TopicPartition, list[OffsetSyncRecord]] = {}
        # A flow that was handed back begins anew: its old offset pairs are void.
        self._anew = session.state.handed_back_ms is not None

    async def gather(self) -> list[PartitionFindings]:
        """Find what both clusters hold of each partition that the flow's state does not account for."""
        session = self._session
        self.source_offsets, self._offset_syncs = await asyncio.gather(
            read_source_offsets(session.target, self._mm2, session.flow.name),
            read_offset_syncs(session.flow, session.source, session.target),
        )
        partitions = [partition for partition in self._partitions() if not self._is_kept(partition)]
        existing = set(session.remote_partitions())
        remotes = {partition: self._remote(partition) for partition in partitions}
        source_logs, target_logs = await asyncio.gather(
            all_bounds(session.source, partitions),
            settled_bounds(session.target, [remote for remote in remotes.values() if remote in existing], whose=WHOSE),
        )
        findings = [
            PartitionFindings(
                source=partition,
                noted=self.source_offsets.get(partition),
                source_start=source_logs[partition].start,
                source_end=source_logs[partition].end,
                target=target_logs.get(remote),
            )
            for partition, remote in remotes.items()
        ]
        return await self._compare(findings)

    def decide(self, findings: Sequence[PartitionFindings], *, force: bool) -> list[TakeoverDecision]:
        """What becomes of each partition of the selected topics. ``force``: see ``decisions.decide``."""
        rows = [
            TakeoverDecision(source=partition, remote=self._session.selected[partition.topic], outcome="kept")
            for partition in self._partitions()
            if self._is_kept(partition)
        ]
        shown = {found.source.topic for found in findings if shows_the_topic(found)}
        rows += [self._decided(found, known=found.source.topic in shown, force=force) for found in findings]
        return sorted(all_or_nothing(rows), key=lambda row: row.source)

    def _decided(self, findings: PartitionFindings, *, known: bool, force: bool) -> TakeoverDecision:
        remote = self._session.selected[findings.source.topic]
        reason = self._shared.get(findings.source.topic)
        if reason is not None and findings.target is not None and findings.target[1] > 0:
            return TakeoverDecision(
                source=findings.source, remote=remote, outcome="refused", noted=findings.noted, remarks=(reason,)
            )
        return decide(findings, remote, known=known, force=force)

    def _is_kept(self, partition: TopicPartition) -> bool:
        """Whether the flow's state accounts for a partition."""
        return not self._anew and partition in self._session.state.partitions

    def _partitions(self) -> list[TopicPartition]:
        sides = {topic: self._session.topic_side(self._session.source, topic) for topic in self._session.selected}
        return [
            TopicPartition(topic, number) for topic, side in sides.items() if side for number in range(side.partitions)
        ]

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._session.selected[partition.topic], partition.partition)

    async def _compare(self, findings: Sequence[PartitionFindings]) -> list[PartitionFindings]:
        """Add what the contents of both sides tell, where they are to be compared."""
        session = self._session
        asked = {
            found: self._remote(found.source)
            for found in findings
            if needs_contents(found) and found.source.topic not in self._shared
        }
        timed = await self._timed({remote.topic for remote in asked.values()})
        contents = LogContents(session.source, session.target, session.flow.fetch.isolation_level)
        matches = await contents.compare(
            [
                ComparedContents(
                    findings=found,
                    source_id=session.source.metadata.topics[found.source.topic].topic_id,
                    remote=remote,
                    remote_id=session.target.metadata.topics[remote.topic].topic_id,
                    pairs=[
                        (sync.upstream_offset, sync.downstream_offset)
                        for sync in self._offset_syncs.get(found.source, ())
                    ],
                    timed=timed[remote.topic],
                )
                for found, remote in asked.items()
            ]
        )
        return [replace(found, match=matches.get(found.source)) for found in findings]

    async def _timed(self, remotes: set[str]) -> dict[str, bool]:
        """Whether remote topics keep the records' timestamps; where configs may not be read, as is the default."""
        admin = ClusterAdmin(self._session.target.settings, "mirror-ray-takeover")
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
        """Write what was decided: first the map of older offsets, then the state, in one transaction.

        Raises:
            NotReadyError: The state has changed meanwhile.
            MirrorError: Something can't be written; give the command again.
        """
        records = {row.source: self._record(row) for row in rows if row.outcome == "taken"}
        if not records and not self._anew:
            return
        await self._session.claim()
        await self._publish_map(records)
        await asyncio.to_thread(self._session.store.write, self._documents(records))

    def _record(self, row: TakeoverDecision) -> PartitionRecord:
        source = self._session.topic_side(self._session.source, row.source.topic)
        remote = self._session.topic_side(self._session.target, row.remote)
        if row.begin is None or row.target_end is None or source is None or remote is None:
            raise AssertionError(row)
        return discovery_rules.first_record(source, remote, OffsetPair(row.begin, row.target_end))

    def _documents(self, records: Mapping[TopicPartition, PartitionRecord]) -> dict[str, Document | None]:
        session, state = self._session, self._session.state
        known = state.flow
        if known is None or self._anew:
            # What the broker remembers of an older producer does not fit the new positions: `up` gets another one.
            known = FlowRecord(
                producer_id=-1,
                producer_epoch=-1,
                source_cluster_id=session.source.metadata.cluster_id,
                target_cluster_id=session.target.metadata.cluster_id,
                selection=known.selection if known is not None else discovery_rules.selection_of(session.flow),
            )
        documents = schema.FLOW.documents("", known)
        for topic in state.starts.keys() & {partition.topic for partition in records}:
            documents |= schema.START.documents(topic, None)
        if self._anew:
            documents |= schema.HANDED_BACK.documents("", None)
            for partition in state.partitions:
                documents |= schema.PARTITION.documents(partition, None)
            for partition in state.resolutions:
                documents |= schema.RESOLUTION.documents(partition, None)
        for partition, record in records.items():
            documents |= schema.PARTITION.documents(partition, record)
        return documents

    async def _publish_map(self, records: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Publish MM2's offset pairs in the flow's map, for groups that are before the positions of the takeover."""
        session = self._session
        blocks = []
        for source, record in records.items():
            before = session.state.partitions.get(source)
            floor = before.pair if before is not None else _BEGINNING
            known = mm2_offset_syncs.ascending_pairs(self._offset_syncs.get(source, ()), floor, record.pair)
            epoch = session.state.grants.get(source, GrantRecord()).epoch
            blocks += list(mm2_offset_syncs.blocks(source, record, known, epoch))
        await publish_blocks(session.flow, session.target, blocks, session.audit_log, "takeover")
