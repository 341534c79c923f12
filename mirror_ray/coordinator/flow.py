"""One flow: finds topics and partitions, anchors them, keeps the flow's state. Never waits for another flow."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator.assignment_rules import PartitionWeight
from mirror_ray.coordinator.begun_flows import ClusterIds, stay_between
from mirror_ray.coordinator.faults import FaultResolver
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.flow_topics import LimitBook, TopicView, changes, refusals
from mirror_ray.coordinator.ports import ClusterTopics, CoordinatorTiming, Emit, FlowClusters, TargetLimits
from mirror_ray.coordinator.remote_topic_writers import RemoteTopicWriters, TopicNameConflicts
from mirror_ray.coordinator.start_positions import StartPositions
from mirror_ray.coordinator.transform_changes import TransformChanges
from mirror_ray.model.assignment import Assignment, PartitionReport
from mirror_ray.model.errors import ConfigError, MirrorError, StateFencedError
from mirror_ray.model.fault import TROUBLE_KINDS, FaultKind, FaultPolicy
from mirror_ray.model.names import FlowPartition, TopicPartition
from mirror_ray.model.start import EARLIEST
from mirror_ray.state.records import FlowRecord, Pause
from mirror_ray.state.schema import PAUSE
from mirror_ray.topics import discovery_rules

_log = logging.getLogger(__name__)


class FlowController:
    """Desired state of one flow.

    Guarantees: an anchor is persisted before its partition is granted for the first time; a partition whose remote
    log is not accounted for is never granted; an error here stays here (``problem``) and is tried again.
    """

    def __init__(
        self,
        settings: FlowSettings,
        port: FlowClusters,
        *,
        timing: CoordinatorTiming,
        lease_ms: int,
        emit: Emit,
        claims: RemoteTopicWriters,
        changed: Callable[[], None],
        free: Callable[[FlowPartition], bool],
        wall_ms: Callable[[], int],
        leader: FlowState | None = None,
        begun: ClusterIds | None = None,
    ) -> None:
        """``claims`` is shared by all flows; ``free``: whether no replicator has a partition or may still have it.

        ``leader``: of a route, the memory of its flow, by whose pauses it stops, too. ``begun``: the clusters that the
        flow ran between before in this system; it goes on between no others.
        """
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
        #: Why nothing is copied for the time being, though nobody has paused it: a window is closed.
        self.closed: str | None = None
        #: Grows whenever ``wanted`` may have changed.
        self.version = 0
        self.state = FlowState(port, lease_ms)
        self.repairs = FaultResolver(settings, port, self.state, emit=emit, free=free, wall_ms=wall_ms)
        self.transformations = TransformChanges(settings, port, self.state, emit=emit, free=free, leader=leader)
        begins = self.transformations.begins if leader is not None else None
        self._anchoring = StartPositions(
            settings, port, self.state, claims, free=free, first=self.transformations.first, begins=begins
        )
        self._leader, self._free = leader, free
        #: Partitions that are still to be copied, each up to its end, before the flow is ended; None: it goes on.
        self._stopping: Collection[TopicPartition] | None = None
        #: Partitions that were released with nothing on its way.
        self._settled: set[TopicPartition] = set()
        self._limits = LimitBook(self.name, port, free=free)
        self._names = TopicNameConflicts(settings, self.state, claims)
        #: Kafka as the flow sees it; what is open once ``discovered``.
        self.port = port
        self._begun = begun
        self._timing = timing
        self._emit = emit
        self._changed = changed
        self._look = asyncio.Event()
        #: Both clusters as they were when everything was settled, without anything left to try again.
        self._done: tuple[ClusterTopics, ClusterTopics] | None = None
        self._opened = False
        #: What the next look at the clusters goes by.
        self._coming = settings
        self._refused: str | None = None

    def wanted(self) -> dict[FlowPartition, PartitionWeight]:
        """Every partition that should be copying now, with its source leader."""
        if not self.discovered or self.retiring or self._refused is not None:
            return {}
        return {
            FlowPartition(self.name, topic, number): PartitionWeight(view.leaders.get(number, -1))
            for topic, view in self.topics.items()
            if view.refused is None and view.limits is not None
            for number in range(view.source.partitions)
            if self._may_copy(TopicPartition(topic, number))
        }

    @property
    def leased(self) -> list[TopicPartition]:
        """Partitions that somebody may hold; none while the flow must not act."""
        acts = self.discovered and not self.retiring and self._refused is None and not self.state.fenced
        return self.state.leased() if acts else []

    def _may_copy(self, partition: TopicPartition) -> bool:
        if self._stopping is not None and partition not in self._stopping:
            return False
        return self.state.record(partition) is not None and not (
            self.is_paused(partition) or self._is_changing(partition) or self.state.finished(partition)
        )

    def is_paused(self, partition: TopicPartition) -> bool:
        """Whether an operator's pause holds the partition, or a window that is closed."""
        states = (each for each in (self.state, self._leader) if each is not None)
        return self.closed is not None or any(each.is_paused(partition) for each in states)

    @property
    def paused(self) -> bool:
        """Whether the whole flow is paused, or that which it is a route of, or its windows are closed."""
        return self.closed is not None or any(each.paused for each in (self.state, self._leader) if each is not None)

    @property
    def stopping(self) -> Collection[TopicPartition]:
        """What ``stop_at`` was told to copy on."""
        return self._stopping or ()

    async def stop_at(self, ends: Mapping[TopicPartition, int]) -> None:
        """Want nothing any more but these partitions, up to these source offsets; nobody may have them.

        Raises:
            MirrorError: The state could not be written.
        """
        self._stopping = ()
        self._bump()
        if ends:
            await self.state.set_ends(ends)
            self._stopping = frozenset(ends)
            self._bump()

    async def accounted(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those of partitions which nobody has of which nothing lies behind the last pair; all that have no pair.

        Raises:
            MirrorError: The target can't be asked.
        """
        records = {each: record for each in partitions if (record := self.state.record(each)) is not None}
        alone = {
            each: TopicPartition(record.target_topic, each.partition)
            for each, record in records.items()
            if not record.shared
        }
        ends = await self.port.target_bounds(list(alone.values()))
        at_end = {
            each
            for each, remote in alone.items()
            if (anchor := self.state.latest_pair(each)) is not None
            and remote in ends
            and ends[remote].end == anchor.target_offset
        }
        return at_end | (records.keys() - alone.keys()) & self._settled | (set(partitions) - records.keys())

    async def _go_on(self) -> None:
        """Lift the ends that an earlier coordinator had set for partitions that were to wait for others."""
        if self._may_go_on():
            await self.state.set_ends({})

    def _may_go_on(self) -> bool:
        ended = self.state.with_ends() if self.settings.backfill is None and self._stopping is None else ()
        return bool(ended) and all(self._free(FlowPartition(self.name, *each)) for each in ended)

    def _is_changing(self, partition: TopicPartition) -> bool:
        """Whether the partition is taken back, to be handed out in another way than before."""
        parts = (self.repairs, self._anchoring, self._limits, self.transformations)
        return any(part.holds_back(partition) for part in parts)

    @property
    def down(self) -> str | None:
        """Why nothing of it goes on; None: it does."""
        return self._refused or self.problem or None

    def problems(self) -> tuple[str, ...]:
        """What does not run, one sentence each."""
        own = [self.down] if self.down is not None else []
        return tuple(own + [f"{topic}: {view.refused}" for topic, view in self.topics.items() if view.refused])

    async def run(self) -> None:
        """Discover until another coordinator takes the flow over; backs off while a cluster can't be reached."""
        retry_s, asked = 0.0, True
        while not self.state.fenced:
            self._look.clear()
            if await self.discover(asked=asked):
                retry_s = 0.0
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._look.wait(), self.settings.topics.refresh_interval_s)
                asked = self._look.is_set()
            else:
                timing = self._timing
                next_s = max(1.25 * retry_s, timing.settle_first_s)
                if self.problem is not None:
                    next_s = max(2 * retry_s, timing.retry_first_s)
                retry_s, asked = min(next_s, timing.retry_most_s), True
                await asyncio.sleep(retry_s)

    def configure(self, settings: FlowSettings) -> None:
        """Select, name and repair by these settings from the next look on, which is at once.

        ``settings`` differ from those of before in nothing that copying a partition depends on
        (``config.difference.data_path``): what stays selected is not touched.
        """
        self._coming = settings
        self._look.set()

    def _take_up(self) -> None:
        """Between two looks, so that none goes by the one settings here and by the other there."""
        if self.settings is not self._coming:
            self.settings = self._coming
            self._done = None
            self.port.configure(self.settings)
            self._names.configure(self.settings)
            self.repairs.configure(self.settings)

    async def discover(self, *, asked: bool = True) -> bool:
        """Look at both clusters once and settle every topic.

        ``asked``: not because time has passed; otherwise clusters that are as they were when all was settled cost no
        more than the look at them.

        Returns:
            False when something is not settled yet, or all of it failed, with ``problem`` set.
        """
        if self._leader is not None and self._leader.records.flow is None:
            # What it goes by is not known yet.
            return False
        try:
            self._take_up()
            self.transformations.check()
            if not self._opened:
                await stay_between(self.name, self._begun, self.port)
                await self.state.open()
                self._opened = True
            source, target = await self.port.observe()
            if not asked and self._rests(source, target):
                return True
            self._done = None
            ids = source.cluster_id, target.cluster_id
            self._refused = self._refusal(*ids)
            undecided = False
            if self._refused is None:
                await self._ensure_producer(source, target)
                undecided = await self._settle(source, target)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other flows go on
            self._fail(error)
            return False
        if self.state.fenced:
            return False
        if self.problem is not None:
            self._emit("info", str(self.name), "both clusters answer again")
        self.problem, self.reachable = None, True
        self.discovered = True
        self._bump()
        return not undecided

    def _refusal(self, source_id: str, target_id: str) -> str | None:
        states = (each for each in (self.state, self._leader) if each is not None)
        told = (each.refusal(self.name.live, source_id, target_id) for each in states)
        return next(filter(None, told), None) or discovery_rules.provenance_refusal(self.settings, source_id, target_id)

    def _rests(self, source: ClusterTopics, target: ClusterTopics) -> bool:
        """Whether nothing has changed since everything was settled, and nothing has to be tried again."""
        to_try = self.problem is not None or self.state.records.resolutions or self.repairs.refused_records()
        return not to_try and self._done == (source, target)

    def _fail(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if not isinstance(error, MirrorError):
            _log.exception("flow %s: discovery failed", self.name)
            text = f"{type(error).__name__}: {text}"
        if text != self.problem:
            self._emit("error", str(self.name), text)
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
        rules, starts, copied = (
            discovery_rules.rules_of(self.settings),
            discovery_rules.starts_of(self.settings),
            self.state.by_topic(),
        )
        marks = {topic: rules.of(topic) for topic in self.port.select(source).keys() - copied.keys()}
        await self.state.begin_flow(
            replace(record, selection=selection, starts=starts),
            {topic: start for topic, start in marks.items() if start != EARLIEST},
        )
        if changed := discovery_rules.starts_changed(self.name, known, starts, len(copied)):
            self._emit("info", str(self.name), changed)

    async def _settle(self, source: ClusterTopics, target: ClusterTopics) -> bool:
        """Give each selected topic a view: refused, or with anchors for its partitions. True: some are undecided."""
        named = dict(self.port.select(source))
        unfit = self._names.unfit(named, target.cluster_id)
        selected = {topic: remote for topic, remote in named.items() if topic not in unfit}
        undecided = await self._anchoring.share(selected, target)
        await self._go_on()
        self.repairs.look(source, target, selected)
        await self.repairs.decide()
        # What was decided is taken back at once, and carried out as soon as nobody has it.
        self._bump()
        refused = unfit | refusals(self.state.by_topic(), self.repairs.topic_trouble, selected)
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
                shared=self._anchoring.is_shared(topic),
            )
            for topic, remote in named.items()
        }
        if self.state.records.resolutions:
            undecided |= await self.repairs.carry_out(source, target, selected)
            # Where a decision could not be followed the topic is as it was, and nobody may get it until the next round.
            self.repairs.look(source, target, selected)
            refused |= refusals(self.state.by_topic(), self.repairs.topic_trouble, selected)
        undecided |= await self.transformations.change(selected)
        remotes = {topic: remote for topic, remote in selected.items() if topic not in refused}
        refused |= await self._anchoring.anchor(remotes, source, target)
        limits = await self._limits.learn(selected, target, self.repairs.refused_records())
        self._publish(
            {
                topic: replace(view, refused=refused.get(topic), limits=limits.get(view.remote_topic))
                for topic, view in views.items()
            }
        )
        undecided = undecided or any(
            view.refused is None and (view.limits is None or not self._complete(view)) for view in self.topics.values()
        )
        if not undecided and not any(view.refused for view in self.topics.values()):
            self._done = source, target
        return undecided

    def _complete(self, view: TopicView) -> bool:
        topic = view.source.topic
        return all(self.state.record(TopicPartition(topic, number)) for number in range(view.source.partitions))

    async def _create(
        self, missing: Mapping[str, str], source: ClusterTopics, target: ClusterTopics
    ) -> tuple[Mapping[str, str], ClusterTopics]:
        failed, after = await self.port.ensure_remote(missing, source, target)
        for topic, remote in missing.items():
            if topic not in failed and remote in after.topics:
                act = "extended" if remote in target.topics else "created"
                self._emit("info", topic, f"{self.name}: {act} {remote}, {after.topics[remote].partitions} partitions")
        return failed, after

    def _publish(self, views: dict[str, TopicView]) -> None:
        for level, topic, text in changes(self.name, self.topics, views):
            self._emit(level, topic, text)
        self.topics = views

    async def grant(self, partitions: Collection[FlowPartition]) -> list[Assignment]:
        """Assignments to hand out, persisted with new epochs; partitions that may not be copied are left out.

        Raises:
            MirrorError: The state could not be written; nothing may be handed out.
        """
        limits: dict[FlowPartition, TargetLimits] = {}
        for partition in partitions:
            view = self.topics.get(partition.topic)
            allowed = view is not None and view.refused is None and not self._is_changing(partition.source)
            if allowed and view is not None and view.limits is not None:
                limits[partition] = view.limits
        waited_for = any(self.state.is_aligned(partition.source) for partition in limits)
        try:
            granted = await self.state.assign(limits, self.settings.produce.compression_type)
            if waited_for:
                # The routes may go on, too.
                self._bump()
            return granted
        except StateFencedError as error:
            self._fail(error)
            raise

    async def keep_flushing(self) -> None:
        """Persist the anchors that moved, about every second, until another coordinator takes the flow over."""
        while not self.state.fenced:
            await asyncio.sleep(self._timing.flush_s)
            try:
                await self.state.flush()
            except Exception as error:  # noqa: BLE001 - the anchors are kept, and persisted by a later flush
                self._fail(error)

    async def pause(self, pause: Pause) -> None:
        """Persist and apply a pause.

        Raises:
            ConfigError: The flow has nothing that it could hold back.
            MirrorError: The state has not been read yet, or could not be written.
        """
        counts = {topic: view.source.partitions for topic, view in self.topics.items()} if self.discovered else None
        if (why := pause.unknown_scope(counts)) is not None:
            raise ConfigError(f"flow {self.name}: {why}")
        await self._set_pause(pause, on=True)

    async def resume(self, pause: Pause) -> None:
        """Lift the pause of the same scope.

        Raises:
            MirrorError: The state has not been read yet, or could not be written.
        """
        await self._set_pause(pause, on=False)

    async def _set_pause(self, pause: Pause, *, on: bool) -> None:
        if not self._opened:
            raise MirrorError(f"flow {self.name} is still starting: {self.problem or 'its state is being read'}")
        await self.state.write([(PAUSE, pause, True if on else None)])
        self._bump()

    def heard(self, report: PartitionReport) -> None:
        """Take in what the owner of a partition reports: its anchor, and its trouble."""
        self.state.note_pair(report.partition.source, report.anchor, settled=report.settled)
        (self._settled.add if report.settled else self._settled.discard)(report.partition.source)
        if self.state.finished(report.partition.source):
            self._bump()
        if self.repairs.heard(report):
            self._look.set()

    def remind(self) -> None:
        """Called now and then: look at the clusters again where something waited for partitions to be taken back."""
        if self.discovered and (self.repairs.ready or self._anchoring.ready or self._may_go_on()):
            self._look.set()
        if self._limits.ready:
            self._bump()

    async def resolve(
        self,
        topic: str,
        partition: int | None,
        policy: FaultPolicy,
        kinds: Collection[FaultKind] = TROUBLE_KINDS,
        *,
        operator: str = "",
    ) -> list[TopicPartition]:
        """Answer the trouble of a topic or of one partition, once, if it is one of ``kinds``; ``operator`` asks it.

        Raises:
            ConfigError: There is no trouble, or it can't be answered so.
            MirrorError: The state could not be written.
        """
        resolved = await self.repairs.resolve(topic, partition, policy, kinds, operator=operator)
        self._look.set()
        self._bump()
        return resolved

    def close(self, why: str | None) -> None:
        """Copy nothing for that reason; None: copy again."""
        self.closed = why
        self._bump()

    def retire(self) -> None:
        """Want nothing any more; anchors are still taken."""
        self.retiring = True
        self._bump()

    def _bump(self) -> None:
        self.version += 1
        self._changed()
