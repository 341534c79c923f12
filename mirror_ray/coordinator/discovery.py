"""One flow's discovery: finds topics and partitions on both clusters, and brings each to its first offset pair."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator.begun_flows import stay_between
from mirror_ray.coordinator.faults import FaultResolver
from mirror_ray.coordinator.flow_context import FlowContext
from mirror_ray.coordinator.flow_topics import TargetTopicLimits, TopicView, changes, refusals
from mirror_ray.coordinator.ports import ClusterTopics
from mirror_ray.coordinator.remote_topic_writers import TopicNameConflicts
from mirror_ray.coordinator.start_positions import StartPositions
from mirror_ray.coordinator.transform_changes import TransformChanges
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.start import EARLIEST
from mirror_ray.state.records import FlowRecord
from mirror_ray.topics import discovery_rules

_log = logging.getLogger(__name__)


class FlowDiscovery:
    """Looks at both clusters, again and again, and settles every topic that the flow selects.

    Guarantees: an offset pair is persisted before its partition can be granted for the first time; an error stays here
    (``problem``), and the next round tries again.
    """

    def __init__(self, settings: FlowSettings, flow: FlowContext) -> None:
        """Prepare; nothing is sent before ``discover``."""
        #: What the last round went by.
        self.settings = settings
        self.name, self.port, self.state = flow.name, flow.port, flow.state
        #: Every topic by its source name, as the last round left it.
        self.topics: dict[str, TopicView] = {}
        #: Grows whenever other partitions may be wanted.
        self.version = 0
        #: Both clusters have answered once, and every topic has a view.
        self.discovered = False
        #: The flow's state has been read.
        self.opened = False
        #: Why discovery fails at the moment.
        self.problem: str | None = None
        #: Why the flow must not run between these clusters.
        self.refused: str | None = None
        #: No broker answers, as opposed to an answer that we don't like.
        self.reachable = True
        self.faults = FaultResolver(settings, flow)
        self.transforms = TransformChanges(settings, flow)
        self._flow = flow
        self._starts = StartPositions(settings, flow, self.transforms)
        self._limits = TargetTopicLimits(flow)
        self._names = TopicNameConflicts(settings, flow.state, flow.writers)
        #: Partitions that are still to be copied, each up to its end, before the flow is ended; None: it goes on.
        self._stopping: Collection[TopicPartition] | None = None
        self._requested = asyncio.Event()
        #: Both clusters as they were when everything was settled, without anything left to try again.
        self._settled_clusters: tuple[ClusterTopics, ClusterTopics] | None = None
        #: Topics that an event has told of.
        self._at_other_offsets: set[str] = set()
        #: What the next round goes by.
        self._pending = settings

    async def run(self) -> None:
        """Discover until another coordinator takes the flow over; back off while a cluster can't be reached."""
        try:
            await self._discover_again_and_again()
        finally:
            await self._starts.close()

    async def _discover_again_and_again(self) -> None:
        retry_s, forced = 0.0, True
        timing = self._flow.timing
        while not self.state.fenced:
            self._requested.clear()
            if await self.discover(forced=forced):
                retry_s = 0.0
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._requested.wait(), self.settings.topics.refresh_interval_s)
                forced = self._requested.is_set()
            else:
                next_s = max(1.25 * retry_s, timing.settle_first_s)
                if self.problem is not None:
                    next_s = max(2 * retry_s, timing.retry_first_s)
                retry_s, forced = min(next_s, timing.retry_most_s), True
                await asyncio.sleep(retry_s)

    def request(self) -> None:
        """Begin a round at once."""
        self._requested.set()

    def configure(self, settings: FlowSettings) -> None:
        """Select, name and resolve faults by these settings from the next round on, which is at once.

        ``settings`` differ from those of before in nothing that copying a partition depends on
        (``config.difference.data_path``): what stays selected is not touched.
        """
        self._pending = settings
        self.request()

    def _apply_pending_settings(self) -> None:
        """Between two rounds, so that no round goes partly by the former settings."""
        if self.settings is not self._pending:
            self.settings = self._pending
            self._settled_clusters = None
            self.port.configure(self.settings)
            self._names.configure(self.settings)
            self.faults.configure(self.settings)
            self._starts.configure(self.settings)

    def is_changing(self, partition: TopicPartition) -> bool:
        """Whether the partition is taken back, to be assigned in another way than before."""
        parts = (self.faults, self._starts, self._limits, self.transforms)
        return any(part.holds_back(partition) for part in parts)

    def recheck(self) -> None:
        """Begin a round where something that waited for partitions to be taken back can be done now."""
        if self.discovered and (self._may_lift_ends() or self.faults.ready or self._starts.ready):
            self.request()
        if self._limits.ready:
            self._mark_changed()

    def _mark_changed(self) -> None:
        self.version += 1
        self._flow.changed()

    def _may_lift_ends(self) -> bool:
        """Whether an earlier coordinator had set ends for partitions that were to wait for others, which nobody has."""
        if self.settings.backfill is not None or self._stopping is not None:
            return False
        records = self.state.records.partitions.items()
        ended = [partition for partition, record in records if record.end_offset is not None]
        return bool(ended) and all(map(self._flow.is_unassigned, ended))

    async def discover(self, *, forced: bool = True) -> bool:
        """Look at both clusters once and settle every topic.

        ``forced``: there is a reason other than that time has passed; without one, clusters that have not changed
        since all was settled cost no more than asking for their metadata.

        Returns:
            False when something is not settled yet, or all of it failed, with ``problem`` set.
        """
        live_state = self._flow.live_state
        if live_state is not None and live_state.records.flow is None:
            # What it goes by is not known yet.
            return False
        try:
            self._apply_pending_settings()
            self.transforms.check()
            if not self.opened:
                await stay_between(self.name, self._flow.begun, self.port)
                await self.state.open()
                self.opened = True
            source, target = await self.port.observe()
            if not forced and self._is_unchanged(source, target):
                return True
            self._settled_clusters = None
            self.refused = self._refusal(source.cluster_id, target.cluster_id)
            undecided = False
            if self.refused is None:
                await self._ensure_producer(source, target)
                undecided = await self._settle(source, target)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other flows go on
            self.fail(error)
            return False
        if self.state.fenced:
            return False
        if self.problem is not None:
            self._flow.emit("info", str(self.name), "both clusters answer again")
        self.problem, self.reachable = None, True
        self.discovered = True
        self._mark_changed()
        return not undecided

    def _refusal(self, source_id: str, target_id: str) -> str | None:
        states = (state for state in (self.state, self._flow.live_state) if state is not None)
        reasons = (state.refusal(self.name.live, source_id, target_id) for state in states)
        provenance = discovery_rules.provenance_refusal
        return next(filter(None, reasons), None) or provenance(self.settings, source_id, target_id)

    def _is_unchanged(self, source: ClusterTopics, target: ClusterTopics) -> bool:
        """Whether nothing has changed since everything was settled, and nothing has to be tried again."""
        to_try = self.problem is not None or self.state.records.resolutions or self.faults.refused_records()
        return not to_try and self._settled_clusters == (source, target)

    def fail(self, error: Exception) -> None:
        """Set ``problem``; an event is written when it is another one."""
        text = str(error) or type(error).__name__
        if not isinstance(error, MirrorError):
            _log.exception("flow %s: discovery failed", self.name)
            text = f"{type(error).__name__}: {text}"
        if text != self.problem:
            self._flow.emit("error", str(self.name), text)
        self.problem = text
        self.reachable = not isinstance(error, MirrorError) or error.exit_code != 3

    async def _ensure_producer(self, source: ClusterTopics, target: ClusterTopics) -> None:
        """Agree on the flow's producer and, whenever other topics are selected, on where they begin."""
        known, selection = self.state.records.flow, discovery_rules.selection_of(self.settings)
        with_producer = self.settings.produce.delivery_guarantee == "exactly_once"
        fits = known is not None and (known.producer_id >= 0) is with_producer
        if known is not None and known.selection == selection and fits:
            return
        record = known or FlowRecord(
            producer_id=-1,
            producer_epoch=-1,
            source_cluster_id=source.cluster_id,
            target_cluster_id=target.cluster_id,
            selection=selection,
        )
        if not fits:
            producer_id, epoch = await self.port.new_producer() if with_producer else (-1, -1)
            record = replace(record, producer_id=producer_id, producer_epoch=epoch)
        rules, starts = discovery_rules.rules_of(self.settings), discovery_rules.starts_of(self.settings)
        copied = self.state.by_topic()
        marks = {topic: rules.of(topic) for topic in self.port.select(source).keys() - copied.keys()}
        await self.state.begin_flow(
            replace(record, selection=selection, starts=starts),
            {topic: start for topic, start in marks.items() if start != EARLIEST},
        )
        if changed := discovery_rules.starts_changed(self.name, known, starts, len(copied)):
            self._flow.emit("info", str(self.name), changed)

    async def _settle(self, source: ClusterTopics, target: ClusterTopics) -> bool:
        """Give each selected topic a view: refused, or with offset pairs. Returns whether some are undecided."""
        named = dict(self.port.select(source))
        unfit = self._names.unfit(named, target.cluster_id)
        selected = {topic: remote for topic, remote in named.items() if topic not in unfit}
        self._tell_of_other_offsets(selected)
        undecided = await self._starts.share(selected, target)
        if self._may_lift_ends():
            await self.state.set_ends({})
        self.faults.find_topic_faults(source, target, selected)
        await self.faults.decide()
        # What was decided is taken back at once, and carried out as soon as nobody has it.
        self._mark_changed()
        refused = unfit | refusals(self.state.by_topic(), self.faults.topic_fault, selected)
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
                shared=self._starts.is_shared(topic),
            )
            for topic, remote in named.items()
        }
        if self.state.records.resolutions:
            undecided |= await self.faults.carry_out(source, target, selected)
            # Where a decision could not be followed the topic is as it was, and nobody may get it until the next round.
            self.faults.find_topic_faults(source, target, selected)
            refused |= refusals(self.state.by_topic(), self.faults.topic_fault, selected)
        undecided |= await self.transforms.change(selected)
        remotes = {topic: remote for topic, remote in selected.items() if topic not in refused}
        refused |= await self._starts.begin(remotes, source, target)
        limits = await self._limits.refresh(selected, target, self.faults.refused_records())
        self._publish(
            {
                topic: replace(view, refused=refused.get(topic), limits=limits.get(view.remote_topic))
                for topic, view in views.items()
            }
        )
        undecided = undecided or any(
            view.refused is None and (view.limits is None or not self._has_records(view))
            for view in self.topics.values()
        )
        if not undecided and not any(view.refused for view in self.topics.values()):
            self._settled_clusters = source, target
        return undecided

    def _tell_of_other_offsets(self, selected: Collection[str]) -> None:
        others = self._starts.at_other_offsets(selected)
        if set(others) - self._at_other_offsets:
            self._flow.emit(
                "warning",
                str(self.name),
                f"offsets = preserve is for topics without progress: {', '.join(others[:5])}, {len(others)} in all, go "
                "on at offsets of their own. docs/topics.md says how to begin one anew",
            )
        self._at_other_offsets = set(others)

    def _has_records(self, view: TopicView) -> bool:
        topic = view.source.topic
        return all(self.state.record(TopicPartition(topic, number)) for number in range(view.source.partitions))

    async def _create(
        self, missing: Mapping[str, str], source: ClusterTopics, target: ClusterTopics
    ) -> tuple[Mapping[str, str], ClusterTopics]:
        failed, after = await self.port.ensure_remote(missing, source, target)
        for topic, remote in missing.items():
            if topic not in failed and remote in after.topics:
                done = "extended" if remote in target.topics else "created"
                count = after.topics[remote].partitions
                self._flow.emit("info", topic, f"{self.name}: {done} {remote}, {count} partitions")
        return failed, after

    def _publish(self, views: dict[str, TopicView]) -> None:
        for level, topic, text in changes(self.name, self.topics, views):
            self._flow.emit(level, topic, text)
        self.topics = views
