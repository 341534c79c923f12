"""Reverses a flow: neither direction copies meanwhile, and a run that broke off is taken up by the next one.

First the flow's own state says that it is left, at cuts that are settled; then topics to be made anew are deleted, the
flow back gets the offset map, and last its state, by which it may run. Each of these may be done again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.patterns import Pattern, compile_patterns
from mirror_ray.model.segment import SegmentBlock
from mirror_ray.offsets.log_bounds import settled_bounds
from mirror_ray.offsets.segments_topic import publish_blocks
from mirror_ray.offsets.translator import OffsetMapTailer
from mirror_ray.reversal.cut import DivergedPolicies, DivergedPolicy, ReversalPlan, TopicCut
from mirror_ray.reversal.diverged_export import DivergedExport
from mirror_ray.reversal.flow_states import BothStates, read_records
from mirror_ray.reversal.offset_maps import blocks_back
from mirror_ray.reversal.topic_cuts import TopicCuts
from mirror_ray.state.partition_record import PartitionRecord

_DELETED_WITHIN_S: Final = 60.0
_POLL_S: Final = 0.2
_POLICIES: Final[Mapping[str, DivergedPolicy]] = {"append": "append", "recreate": "recreate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """What is asked for."""

    #: The flow that is left.
    flow: FlowName
    #: Its topics on its source, by their names on its target.
    names: Mapping[str, str]
    policies: DivergedPolicies = field(default_factory=DivergedPolicies)
    #: Where records that have diverged are copied to before anything is changed; None: nowhere.
    export: DivergedExport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReversedTopic:
    """A topic, and what becomes of it."""

    cut: TopicCut
    plan: ReversalPlan


def refusal(flow: FlowSettings) -> str | None:
    """Why a flow can't be reversed; None: it can."""
    if flow.transforms.steps:
        return f"transforms of {flow.name} change its records, which nobody can undo"
    if flow.provenance.enabled:
        return f"with provenance.headers.enabled both directions copy at once: set {flow.name.back}.enabled = true"
    if flow.produce.delivery_guarantee != "exactly_once":
        return f"{flow.name} copies at least once, so that nobody knows which records both sides have"
    return None


async def find(settings: MirrorSettings, asked: Reversal, audit_log: AuditLog) -> list[ReversedTopic]:
    """What would become of each topic; nothing is changed. Raises as ``TopicCuts.find``."""
    async with _states(settings, asked.flow, audit_log) as states:
        return _decided(await TopicCuts(states, asked.names).find(), asked.policies)


async def records_of(settings: MirrorSettings, name: FlowName) -> Mapping[TopicPartition, PartitionRecord]:
    """The records of a flow's partitions, as its state has them now.

    Raises:
        MirrorError: Its target can't be read.
    """
    target = ClusterConnections(settings.clusters[name.target], f"{name}|mirror-ray|reversal")
    try:
        return (await read_records(target, name)).partitions
    finally:
        await target.close()


async def is_done(settings: MirrorSettings, flow: FlowName, audit_log: AuditLog) -> bool:
    """Whether the flow has been reversed, so that the flow back may run in its place."""
    async with _states(settings, flow, audit_log) as states:
        return states.is_done


async def reverse(settings: MirrorSettings, asked: Reversal, audit_log: AuditLog) -> list[ReversedTopic]:
    """Reverse the flow, if nothing has to be chosen first. Neither it nor the flow back may run.

    Returns:
        What became of each topic; if one is ``undecided`` nothing has been changed.

    Raises:
        NotReadyError: Something is under way in a topic of the source, or the state has changed.
        ClusterUnreachableError: A leader does not answer.
        MirrorError: Something can't be read or written; the same call goes on.
    """
    async with _states(settings, asked.flow, audit_log) as states:
        await states.flow.claim()
        await states.flow.take_back()
        found = _decided(await TopicCuts(states, asked.names).find(), asked.policies)
        if any(topic.plan == "undecided" for topic in found) or states.is_done:
            return found
        turn = states.turn if states.is_left else states.turn + 1
        await _Reversing(states, asked, found, turn).carry_out()
        return found


async def stay(settings: MirrorSettings, flow: FlowName, audit_log: AuditLog) -> None:
    """Have a flow go on that was left, where the flow back has not been taken up yet.

    Raises:
        MirrorError: Its state can't be written.
    """
    async with _states(settings, flow, audit_log) as states:
        if states.is_left and not states.is_done:
            await states.flow.claim()
            await states.flow.write(states.stays(time.time_ns() // 1_000_000))


def _states(settings: MirrorSettings, flow: FlowName, audit_log: AuditLog) -> BothStates:
    return BothStates(settings, settings.flow(flow), settings.flow(flow.back), audit_log)


def _decided(cuts: Sequence[TopicCut], policies: DivergedPolicies) -> list[ReversedTopic]:
    return [ReversedTopic(cut=cut, plan=cut.plan(policies.of(cut.topic))) for cut in cuts]


class _Reversing:
    def __init__(self, states: BothStates, asked: Reversal, found: list[ReversedTopic], turn: int) -> None:
        self._states, self._asked, self._turn = states, asked, turn
        self._kept = [topic.cut for topic in found if topic.plan != "recreate"]
        self._anew = [topic.cut for topic in found if topic.plan == "recreate"]
        self._diverged = [topic.cut for topic in found if topic.cut.diverged]

    async def carry_out(self) -> None:
        states, time_ms = self._states, time.time_ns() // 1_000_000
        if self._asked.export is not None:
            await self._asked.export.copy(states.source, states.target, self._diverged, self._turn)
        await states.flow.write(states.left(self._settled(), self._turn, time_ms))
        for cut in self._anew:
            await self._delete(cut.topic)
        records = await self._records_back()
        await states.back.claim()
        await self._publish_map(records)
        anew = {cut.remote for cut in self._anew}
        await states.back.write(states.taken_up(records, anew, self._turn, time_ms))

    def _settled(self) -> dict[TopicPartition, PartitionRecord]:
        """The flow's records at the cuts, for good."""
        return {
            cut.source: replace(cut.record.at(cut.pair), settled=True)
            for topic in self._kept
            for cut in topic.partitions
            if cut.pair is not None
        }

    async def _records_back(self) -> dict[TopicPartition, PartitionRecord]:
        """Raises MirrorError where somebody has written on the source since the cuts were found."""
        cuts = [cut for topic in self._kept for cut in topic.partitions]
        ends = await settled_bounds(self._states.source, [cut.source for cut in cuts])
        for cut in cuts:
            if ends[cut.source].end != cut.source_end:
                alias = self._states.source.settings.alias
                raise MirrorError(
                    f"somebody writes to {cut.source} on {alias}: stop the producers, then run this again"
                )
        return {
            TopicPartition(topic.remote, number): record
            for topic in self._kept
            for number, record in topic.records_back().items()
        }

    async def _delete(self, topic: str) -> None:
        source = self._states.source
        if topic not in source.metadata.topics:
            return
        editor = ClusterEditor(source.settings, "mirror-ray-reversal", self._states.audit_log)
        try:
            await asyncio.to_thread(editor.delete_topic, topic)
        finally:
            await asyncio.to_thread(editor.close)
        deadline_s = time.monotonic() + _DELETED_WITHIN_S
        while topic in (await source.refresh(None)).topics:
            if time.monotonic() > deadline_s:
                raise MirrorError(
                    f"{topic} is still listed on {source.settings.alias} after its deletion: run this again"
                )
            await asyncio.sleep(_POLL_S)

    async def _publish_map(self, records: Mapping[TopicPartition, PartitionRecord]) -> None:
        """Give the flow back what the flow's map has, and it lacks."""
        states, name = self._states, self._asked.flow
        own = self._follow(name, forward=True)
        back = self._follow(name.back, forward=False)
        try:
            await asyncio.gather(own.ready.wait(), back.ready.wait())
            blocks = [
                block
                for cut in self._kept
                for partition in cut.partitions
                if (known := own.store.find(partition.source)) is not None
                and (there := TopicPartition(cut.remote, partition.source.partition)) in records
                for block in blocks_back(there, records[there], states.back.epoch(there), known, back.store.find(there))
            ]
        finally:
            await asyncio.gather(own.close(), back.close())
        await self._append(blocks)

    async def _append(self, blocks: Sequence[SegmentBlock]) -> None:
        states = self._states
        await publish_blocks(states.back.flow, states.source, blocks, states.audit_log, "reversal")

    def _follow(self, name: FlowName, *, forward: bool) -> OffsetMapTailer:
        states = self._states
        sides = (states.source, states.target) if forward else (states.target, states.source)
        problems: list[str] = []
        return OffsetMapTailer(name.source, *sides, read_committed=True, on_problem=problems.append)


def parse_policies(texts: Sequence[str]) -> DivergedPolicies:
    """Read ``recreate``, ``append``, or ``PATTERN=recreate``; the first that fits a topic counts.

    Raises:
        ConfigError: One of them is neither.
    """
    chosen: list[tuple[Pattern, DivergedPolicy]] = []
    for text in texts:
        pattern, _, named = text.rpartition("=")
        policy, compiled = _POLICIES.get(named), compile_patterns([pattern or ".*"])
        if policy is None or compiled is None:
            raise ConfigError(f"--diverged {text}: say append or recreate, or PATTERN=append for some topics")
        chosen.append((compiled, policy))
    return DivergedPolicies(tuple(chosen))
