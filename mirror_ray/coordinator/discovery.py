"""One flow's discovery: finds topics and partitions on both clusters, and brings each to its first offset pair."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator.begun_flows import ClusterIds, stay_between
from mirror_ray.coordinator.faults import FaultResolver
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.flow_topics import TargetTopicLimits, TopicView, changes, refusals
from mirror_ray.coordinator.ports import ClusterTopics, Emit, FlowClusters
from mirror_ray.coordinator.remote_topic_writers import RemoteTopicWriters, TopicNameConflicts
from mirror_ray.coordinator.start_positions import StartPositions
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.coordinator.transform_changes import TransformChanges
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowPartition, TopicPartition
from mirror_ray.model.start import EARLIEST
from mirror_ray.state.records import FlowRecord
from mirror_ray.topics import discovery_rules

_log = logging.getLogger(__name__)


class FlowDiscovery:
    """Looks at both clusters, again and again, and settles every topic that the flow selects.

    Guarantees: an offset pair is persisted before its partition can be granted for the first time; an error stays here
    (``problem``), and the next round tries again.
    """

    def __init__(
        self,
        settings: FlowSettings,
        port: FlowClusters,
        state: FlowState,
        *,
        timing: CoordinatorTiming,
        emit: Emit,
        writers: RemoteTopicWriters,
        is_unassigned: Callable[[FlowPartition], bool],
        wall_ms: Callable[[], int],
        live_state: FlowState | None,
        begun: ClusterIds | None,
        changed: Callable[[], None],
        lift_ends: Callable[[], Awaitable[None]],
    ) -> None:
        """Prepare; nothing is sent before ``discover``.

        Args:
            settings: The flow's.
            port: Both clusters and the state topic.
            state: The flow's.
            timing: How often, and how long.
            emit: Writes an event.
            writers: Who writes which remote topic; shared by all flows.
            is_unassigned: Whether no replicator has a partition or may still have it.
            wall_ms: Milliseconds since the epoch.
            live_state: Of a route, the state of its flow.
            begun: The clusters that the flow ran between before in this system; it goes on between no others.
            changed: Called whenever something is found or decided.
            lift_ends: Lets partitions go on that an earlier coordinator had ended.
        """
        self.settings = settings
        self.topics: dict[str, TopicView] = {}
        #: Both clusters have answered once, and every topic has a view.
        self.discovered = False
        #: The flow's state has been read.
        self.opened = False
        #: Why the flow as a whole can't be looked after at the moment.
        self.problem: str | None = None
        #: Why the flow must not run between these clusters.
        self.refused: str | None = None
        #: No broker answers, as opposed to an answer that we don't like.
        self.reachable = True
        self.faults = FaultResolver(settings, port, state, emit=emit, is_unassigned=is_unassigned, wall_ms=wall_ms)
        self.transforms = TransformChanges(
            settings, port, state, emit=emit, is_unassigned=is_unassigned, live_state=live_state
        )
        self._name = settings.name
        self._port = port
        self._state = state
        self._live_state = live_state
        self._starts = StartPositions(
            settings,
            port,
            state,
            writers,
            is_unassigned=is_unassigned,
            complete_record=self.transforms.complete_record,
            route_starts=self.transforms.route_starts if live_state is not None else None,
        )
        self._limits = TargetTopicLimits(settings.name, port, is_unassigned=is_unassigned)
        self._names = TopicNameConflicts(settings, state, writers)
        self._timing = timing
        self._emit = emit
        self._begun = begun
        self._changed = changed
        self._lift_ends = lift_ends
        self._requested = asyncio.Event()
        #: Both clusters as they were when everything was settled, without anything left to try again.
        self._settled_clusters: tuple[ClusterTopics, ClusterTopics] | None = None
        #: What the next round goes by.
        self._pending = settings

    async def run(self) -> None:
        """Discover until another coordinator takes the flow over; back off while a cluster can't be reached."""
        retry_s, forced = 0.0, True
        timing = self._timing
        while not self._state.fenced:
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
            self._port.configure(self.settings)
            self._names.configure(self.settings)
            self.faults.configure(self.settings)

    def is_changing(self, partition: TopicPartition) -> bool:
        """Whether the partition is taken back, to be assigned in another way than before."""
        parts = (self.faults, self._starts, self._limits, self.transforms)
        return any(part.holds_back(partition) for part in parts)

    def recheck(self) -> None:
        """Begin a round where something that waited for partitions to be taken back can be done now."""
        if self.discovered and (self.faults.ready or self._starts.ready):
            self.request()
        if self._limits.ready:
            self._changed()

    async def discover(self, *, forced: bool = True) -> bool:
        """Look at both clusters once and settle every topic.

        ``forced``: there is a reason other than that time has passed; without one, clusters that have not changed
        since all was settled cost no more than the look at them.

        Returns:
            False when something is not settled yet, or all of it failed, with ``problem`` set.
        """
        if self._live_state is not None and self._live_state.records.flow is None:
            # What it goes by is not known yet.
            return False
        try:
            self._apply_pending_settings()
            self.transforms.check()
            if not self.opened:
                await stay_between(self._name, self._begun, self._port)
                await self._state.open()
                self.opened = True
            source, target = await self._port.observe()
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
        if self._state.fenced:
            return False
        if self.problem is not None:
            self._emit("info", str(self._name), "both clusters answer again")
        self.problem, self.reachable = None, True
        self.discovered = True
        self._changed()
        return not undecided

    def _refusal(self, source_id: str, target_id: str) -> str | None:
        states = (state for state in (self._state, self._live_state) if state is not None)
        reasons = (state.refusal(self._name.live, source_id, target_id) for state in states)
        provenance = discovery_rules.provenance_refusal
        return next(filter(None, reasons), None) or provenance(self.settings, source_id, target_id)

    def _is_unchanged(self, source: ClusterTopics, target: ClusterTopics) -> bool:
        """Whether nothing has changed since everything was settled, and nothing has to be tried again."""
        to_try = self.problem is not None or self._state.records.resolutions or self.faults.refused_records()
        return not to_try and self._settled_clusters == (source, target)

    def fail(self, error: Exception) -> None:
        """Set ``problem``; an event is written when it is another one."""
        text = str(error) or type(error).__name__
        if not isinstance(error, MirrorError):
            _log.exception("flow %s: discovery failed", self._name)
            text = f"{type(error).__name__}: {text}"
        if text != self.problem:
            self._emit("error", str(self._name), text)
        self.problem = text
        self.reachable = not isinstance(error, MirrorError) or error.exit_code != 3

    async def _ensure_producer(self, source: ClusterTopics, target: ClusterTopics) -> None:
        """Agree on the flow's producer and, whenever other topics are selected, on where they begin."""
        known, selection = self._state.records.flow, discovery_rules.selection_of(self.settings)
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
            producer_id, epoch = await self._port.new_producer() if with_producer else (-1, -1)
            record = replace(record, producer_id=producer_id, producer_epoch=epoch)
        rules, starts = discovery_rules.rules_of(self.settings), discovery_rules.starts_of(self.settings)
        copied = self._state.by_topic()
        marks = {topic: rules.of(topic) for topic in self._port.select(source).keys() - copied.keys()}
        await self._state.begin_flow(
            replace(record, selection=selection, starts=starts),
            {topic: start for topic, start in marks.items() if start != EARLIEST},
        )
        if changed := discovery_rules.starts_changed(self._name, known, starts, len(copied)):
            self._emit("info", str(self._name), changed)

    async def _settle(self, source: ClusterTopics, target: ClusterTopics) -> bool:
        """Give each selected topic a view: refused, or with offset pairs. Returns whether some are undecided."""
        named = dict(self._port.select(source))
        unfit = self._names.unfit(named, target.cluster_id)
        selected = {topic: remote for topic, remote in named.items() if topic not in unfit}
        undecided = await self._starts.share(selected, target)
        await self._lift_ends()
        self.faults.find_topic_faults(source, target, selected)
        await self.faults.decide()
        # What was decided is taken back at once, and carried out as soon as nobody has it.
        self._changed()
        refused = unfit | refusals(self._state.by_topic(), self.faults.topic_fault, selected)
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
        if self._state.records.resolutions:
            undecided |= await self.faults.carry_out(source, target, selected)
            # Where a decision could not be followed the topic is as it was, and nobody may get it until the next round.
            self.faults.find_topic_faults(source, target, selected)
            refused |= refusals(self._state.by_topic(), self.faults.topic_fault, selected)
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

    def _has_records(self, view: TopicView) -> bool:
        topic = view.source.topic
        return all(self._state.record(TopicPartition(topic, number)) for number in range(view.source.partitions))

    async def _create(
        self, missing: Mapping[str, str], source: ClusterTopics, target: ClusterTopics
    ) -> tuple[Mapping[str, str], ClusterTopics]:
        failed, after = await self._port.ensure_remote(missing, source, target)
        for topic, remote in missing.items():
            if topic not in failed and remote in after.topics:
                done = "extended" if remote in target.topics else "created"
                self._emit(
                    "info", topic, f"{self._name}: {done} {remote}, {after.topics[remote].partitions} partitions"
                )
        return failed, after

    def _publish(self, views: dict[str, TopicView]) -> None:
        for level, topic, text in changes(self._name, self.topics, views):
            self._emit(level, topic, text)
        self.topics = views
