"""One flow: finds topics and partitions, anchors them, keeps the flow's state. Never waits for another flow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from actors.ledger import FlowLedger
from actors.ports import Cluster, FlowPort, TargetLimits, Timing
from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordination import discovery
from mirror_ray.coordination.assignment import Weight
from mirror_ray.coordination.discovery import TopicSide
from mirror_ray.coordination.state import FlowRecord, PartitionRecord, Pause
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition

_log = logging.getLogger(__name__)


class Emit(Protocol):
    """Writes an event."""

    def __call__(self, level: str, subject: str, text: str) -> None:
        """``level`` is info, warning or error; ``subject`` the flow, topic, partition or replicator."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic of the flow as the last discovery left it. ``refused`` says why it is not copied."""

    source: TopicSide
    remote_topic: str
    leaders: Mapping[int, int]
    refused: str | None = None
    limits: TargetLimits | None = None


class FlowController:
    """Desired state of one flow.

    Guarantees: an anchor is persisted before its partition is granted for the first time; a partition whose remote
    log is not accounted for is never granted; an error here stays here (``problem``) and is tried again.
    """

    def __init__(
        self,
        settings: FlowSettings,
        port: FlowPort,
        *,
        timing: Timing,
        emit: Emit,
        claims: dict[tuple[str, str], FlowName],
        changed: Callable[[], None],
    ) -> None:
        """``claims``: who writes which (target cluster id, remote topic), shared by all flows."""
        self.settings = settings
        self.name = settings.name
        self.topics: dict[str, TopicView] = {}
        self.discovered = False
        #: Every partition that should be copying has been seen to, all at once, since the flow began.
        self.settled = False
        #: The flow is being ended: it wants nothing any more.
        self.retiring = False
        #: Why the flow as a whole does not run or can't be looked after at the moment.
        self.problem: str | None = None
        #: No broker answers, as opposed to an answer that we don't like.
        self.reachable = True
        #: Grows whenever ``wanted`` may have changed.
        self.version = 0
        self.ledger = FlowLedger(port)
        self._port = port
        self._timing = timing
        self._emit = emit
        self._claims = claims
        self._changed = changed
        self._opened = False
        self._refused: str | None = None

    def wanted(self) -> dict[FlowPartition, Weight]:
        """Every partition that should be copying now, with its source leader."""
        if not self.discovered or self.retiring or self._refused is not None:
            return {}
        return {
            FlowPartition(self.name, topic, number): Weight(view.leaders.get(number, -1))
            for topic, view in self.topics.items()
            if view.refused is None and view.limits is not None
            for number in range(view.source.partitions)
            if self._may_copy(TopicPartition(topic, number))
        }

    def _may_copy(self, partition: TopicPartition) -> bool:
        return self.ledger.record(partition) is not None and not self.ledger.holds_back(partition)

    def problems(self) -> tuple[str, ...]:
        """What does not run, one sentence each."""
        own = [each for each in (self._refused, self.problem) if each]
        return tuple(own + [f"{topic}: {view.refused}" for topic, view in self.topics.items() if view.refused])

    async def run(self) -> None:
        """Discover for ever; backs off while a cluster can't be reached."""
        retry_s = self._timing.retry_first_s
        while True:
            if await self.discover():
                retry_s = self._timing.retry_first_s
                await asyncio.sleep(self.settings.topics.refresh_interval_s)
            else:
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, self._timing.retry_most_s)

    async def discover(self) -> bool:
        """Look at both clusters once and settle every topic; False when that failed, with ``problem`` set."""
        try:
            if not self._opened:
                await self.ledger.open()
                self._opened = True
            source, target = await self._port.observe()
            self._refused = discovery.cluster_refusal(self.name, self.ledger.flow, source.cluster_id, target.cluster_id)
            undecided = False
            if self._refused is None:
                await self._ensure_producer(source, target)
                undecided = await self._settle(source, target)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other flows go on
            self._fail(error)
            return False
        if self.problem is not None:
            self._emit("info", str(self.name), "both clusters answer again")
        self.problem, self.reachable = None, True
        self.discovered = True
        self._bump()
        return not undecided

    def _fail(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if not isinstance(error, MirrorError):
            _log.exception("flow %s: discovery failed", self.name)
            text = f"{type(error).__name__}: {text}"
        if text != self.problem:
            self._emit("error", str(self.name), text)
        self.problem = text
        self.reachable = not isinstance(error, MirrorError) or error.exit_code != 3

    async def _ensure_producer(self, source: Cluster, target: Cluster) -> None:
        """Agree on the flow's producer and, whenever other topics are selected, on those that begin at their end."""
        known, selection = self.ledger.flow, discovery.selection_of(self.settings)
        if known is not None and known.selection == selection:
            return
        if known is None:
            producer_id, epoch = await self._port.new_producer()
            record = FlowRecord(
                producer_id=producer_id,
                producer_epoch=epoch,
                source_cluster_id=source.cluster_id,
                target_cluster_id=target.cluster_id,
                selection=selection,
            )
        else:
            record = replace(known, selection=selection)
        latest: set[str] = set()
        if self.settings.fetch.auto_offset_reset == "latest":
            latest = self._port.select(source).keys() - self.ledger.by_topic().keys()
        await self.ledger.begin(record, latest)

    async def _settle(self, source: Cluster, target: Cluster) -> bool:
        """Give each selected topic a view: refused, or with anchors for its partitions. True: some are undecided."""
        selected = dict(self._port.select(source))
        records = self.ledger.by_topic()
        refused: dict[str, str] = {}
        for topic, remote in selected.items():
            reason = self._claim(target.cluster_id, remote) or discovery.identity_refusal(
                source.topics[topic], target.topics.get(remote), records.get(topic, {})
            )
            if reason is not None:
                refused[topic] = reason
        missing = {
            topic: remote
            for topic, remote in selected.items()
            if topic not in refused
            and (remote not in target.topics or target.topics[remote].partitions < source.topics[topic].partitions)
        }
        if missing:
            failed, target = await self._create(missing, source, target)
            refused |= failed
        views = {
            topic: TopicView(
                source=source.topics[topic],
                remote_topic=remote,
                leaders=source.leaders.get(topic, {}),
                refused=refused.get(topic),
            )
            for topic, remote in selected.items()
        }
        refused |= await self._anchor(views, target, records)
        limits = await self._limits(views, target)
        self._publish(
            {
                topic: replace(view, refused=refused.get(topic), limits=limits.get(view.remote_topic))
                for topic, view in views.items()
            }
        )
        return any(
            view.refused is None and (view.limits is None or not self._complete(view)) for view in self.topics.values()
        )

    def _complete(self, view: TopicView) -> bool:
        topic = view.source.topic
        return all(self.ledger.record(TopicPartition(topic, number)) for number in range(view.source.partitions))

    def _claim(self, cluster_id: str, remote: str) -> str | None:
        owner = self._claims.setdefault((cluster_id, remote), self.name)
        return None if owner == self.name else discovery.claim_refusal(remote, owner)

    async def _create(
        self, missing: Mapping[str, str], source: Cluster, target: Cluster
    ) -> tuple[Mapping[str, str], Cluster]:
        failed, after = await self._port.ensure_remote(missing, source, target)
        for topic, remote in missing.items():
            if topic not in failed and remote in after.topics:
                act = "extended" if remote in target.topics else "created"
                self._emit("info", topic, f"{self.name}: {act} {remote}, {after.topics[remote].partitions} partitions")
        return failed, after

    async def _anchor(
        self, views: Mapping[str, TopicView], target: Cluster, records: Mapping[str, Mapping[int, PartitionRecord]]
    ) -> dict[str, str]:
        """Anchor partitions without a record; returns why a topic is refused, where its remote topic is not ours."""
        fresh: dict[str, list[int]] = {}
        for topic, view in views.items():
            remote = target.topics.get(view.remote_topic)
            if view.refused is None and remote is not None:
                numbers = discovery.unaccounted(view.source, remote, records.get(topic, {}))
                if numbers:
                    fresh[topic] = numbers
        if not fresh:
            return {}
        bounds = await self._port.target_bounds(
            [TopicPartition(views[topic].remote_topic, number) for topic in fresh for number in fresh[topic]]
        )
        starts = await self._starts(fresh)
        refused: dict[str, str] = {}
        found: dict[TopicPartition, PartitionRecord] = {}
        for topic, numbers in fresh.items():
            view = views[topic]
            named = {number: TopicPartition(view.remote_topic, number) for number in numbers}
            seen = {number: bounds[remote] for number, remote in named.items() if remote in bounds}
            reason = discovery.occupied_refusal(view.remote_topic, seen)
            if reason is not None:
                refused[topic] = reason
            elif len(seen) == len(numbers) and all(TopicPartition(topic, number) in starts for number in numbers):
                for number in numbers:
                    found[TopicPartition(topic, number)] = discovery.first_record(
                        view.source,
                        target.topics[view.remote_topic],
                        source_offset=starts[TopicPartition(topic, number)],
                        target_offset=seen[number].end,
                    )
        await self.ledger.remember(found)
        return refused

    async def _starts(self, fresh: Mapping[str, Sequence[int]]) -> dict[TopicPartition, int]:
        """Where partitions that are new to us begin."""
        starts: dict[TopicPartition, int] = {}
        for latest in (False, True):
            asked = [
                TopicPartition(topic, number)
                for topic in fresh
                if (topic in self.ledger.latest) is latest
                for number in fresh[topic]
            ]
            if asked:
                starts |= await self._port.source_offsets(asked, latest=latest)
        return starts

    async def _limits(self, views: Mapping[str, TopicView], target: Cluster) -> dict[str, TargetLimits]:
        """Known limits stay; those of topics that are new to us are asked for."""
        known = {view.remote_topic: view.limits for view in self.topics.values() if view.limits is not None}
        asked = [
            view.remote_topic
            for view in views.values()
            if view.remote_topic not in known and view.remote_topic in target.topics
        ]
        return known | dict(await self._port.limits(asked)) if asked else known

    def _publish(self, views: dict[str, TopicView]) -> None:
        for topic in self.topics.keys() - views.keys():
            self._emit("warning", topic, f"{self.name}: no longer copied: gone from the source, or not selected")
        for topic, view in views.items():
            before = self.topics.get(topic)
            if view.refused and (before is None or before.refused != view.refused):
                self._emit("error", topic, f"{self.name}: refused: {view.refused}")
            elif before is not None and before.refused and not view.refused:
                self._emit("info", topic, f"{self.name}: no longer refused")
        self.topics = views

    async def grant(self, partitions: Collection[FlowPartition]) -> list[Assignment]:
        """Assignments to hand out, persisted with new epochs; partitions that may not be copied are left out.

        Raises:
            MirrorError: The state could not be written; nothing may be handed out.
        """
        limits: dict[FlowPartition, TargetLimits] = {}
        for partition in partitions:
            view = self.topics.get(partition.topic)
            if view is not None and view.refused is None and view.limits is not None:
                limits[partition] = view.limits
        return await self.ledger.assign(limits, self.settings.produce.compression_type)

    async def keep_flushing(self) -> None:
        """Persist the anchors that moved, about every second, for ever."""
        while True:
            await asyncio.sleep(self._timing.flush_s)
            try:
                await self.ledger.flush()
            except Exception as error:  # noqa: BLE001 - the anchors are kept, and persisted by a later flush
                self._fail(error)

    async def set_pause(self, pause: Pause, *, on: bool) -> None:
        """Persist and apply a pause, or lift it.

        Raises:
            MirrorError: The state could not be written.
        """
        await self.ledger.set_pause(pause, on=on)
        self._bump()

    def retire(self) -> None:
        """Want nothing any more; anchors are still taken."""
        self.retiring = True
        self._bump()

    def _bump(self) -> None:
        self.version += 1
        self._changed()
