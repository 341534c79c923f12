"""One flow's partitions with a fault: which policy resolves it, and the carrying out once nobody copies them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator import fault_rules
from mirror_ray.coordinator.fault_rules import FaultContext
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.ports import ClusterTopics, Emit, FlowClusters
from mirror_ray.model.assignment import PartitionReport
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.fault import TOPIC_KINDS, TROUBLE_KINDS, FaultKind, FaultPolicy, PartitionFault
from mirror_ray.model.names import FlowPartition, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FaultResolution
from mirror_ray.state.schema import RESOLUTION
from mirror_ray.topics.discovery_rules import identity_troubles


async def look_at_both_sides(
    port: FlowClusters,
    partitions: Collection[TopicPartition],
    source: ClusterTopics,
    target: ClusterTopics,
    selected: Mapping[str, str],
) -> dict[TopicPartition, FaultContext]:
    """Where the logs begin and end; a partition that can't be asked now is left out.

    Raises:
        MirrorError: A cluster can't be reached.
    """
    remote = {
        each: TopicPartition(selected[each.topic], each.partition)
        for each in partitions
        if each.topic in selected and each.topic in source.topics and selected[each.topic] in target.topics
    }
    starts = await port.source_offsets(list(remote), latest=False)
    bounds = await port.target_bounds(list(remote.values()))
    return {
        each: FaultContext(
            source_topic_id=source.topics[each.topic].topic_id,
            source_start=starts[each],
            target_topic_id=target.topics[there.topic].topic_id,
            target_start=bounds[there].start,
            target_end=bounds[there].committed,
            target_settled=bounds[there].committed == bounds[there].end,
        )
        for each, there in remote.items()
        if each in starts and there in bounds
    }


_log = logging.getLogger(__name__)


class FaultResolver:
    """Troubles, decisions, and what becomes of them.

    Guarantees: a decision is persisted before anything is done by it, is carried out when nobody has the partition, and
    its gap is persisted together with the new pair; a coordinator that dies in between goes on with it.
    """

    def __init__(
        self,
        settings: FlowSettings,
        port: FlowClusters,
        state: FlowState,
        *,
        emit: Emit,
        free: Callable[[FlowPartition], bool],
        wall_ms: Callable[[], int],
    ) -> None:
        """``free``: whether no replicator has the partition or may still have it."""
        self._settings = settings
        self._port = port
        self._state = state
        self._emit = emit
        self._free = free
        self._wall_ms = wall_ms
        #: What replicators said last of partitions in trouble.
        self._reported: dict[TopicPartition, PartitionReport] = {}
        #: Troubles of whole topics, as discovery saw them last.
        self._topics: dict[TopicPartition, PartitionFault] = {}
        #: Why a decision was not carried out after all, as long as the trouble stays the same.
        self._declined: dict[TopicPartition, tuple[PartitionFault, str]] = {}
        #: Why carrying out fails at the moment.
        self._failing: dict[TopicPartition, str] = {}

    def configure(self, settings: FlowSettings) -> None:
        """Answer troubles by these settings' policies from now on."""
        self._settings = settings

    # What is known.

    def holds_back(self, partition: TopicPartition) -> bool:
        """Whether the partition must not be copied before a decision has been carried out."""
        return partition in self._state.records.resolutions

    @property
    def ready(self) -> bool:
        """Whether a decision could be carried out now."""
        return any(self._free(self._name(each)) for each in self._state.records.resolutions)

    def trouble(self, partition: TopicPartition) -> PartitionFault | None:
        """The partition's trouble, where there is one."""
        repair = self._state.records.resolutions.get(partition)
        if repair is not None:
            return repair.trouble
        report = self._reported.get(partition)
        return self._topics.get(partition) or (report.trouble if report is not None else None)

    def refused_records(self) -> list[TopicPartition]:
        """Partitions that wait because of a record that the target does not take."""
        return [
            partition
            for partition, report in self._reported.items()
            if report.trouble is not None and report.trouble.kind == "record_refused"
        ]

    def topic_trouble(self, partition: TopicPartition) -> str | None:
        """Why the partition's topic as a whole must not be copied on."""
        return self.explain(partition) if partition in self._topics else None

    def explain(self, partition: TopicPartition) -> str | None:
        """The partition's trouble, what is done about it, and what somebody can do; None without one."""
        trouble = self.trouble(partition)
        if trouble is None:
            return None
        told = f"{trouble.kind}: {trouble.text}"
        repair = self._state.records.resolutions.get(partition)
        if repair is not None:
            failing = self._failing.get(partition)
            return f"{told}; {repair.policy} is under way" + (f", but {failing}; tried again" if failing else "")
        declined = self._declined.get(partition)
        if declined is not None and declined[0] == trouble:
            told = f"{told}; {declined[1]}"
        return f"{told}. {self._advice(partition, trouble)}"

    def _advice(self, partition: TopicPartition, trouble: PartitionFault) -> str:
        scope = partition.topic if trouble.kind in TOPIC_KINDS else f"{partition.topic}:{partition.partition}"
        record = self._state.record(partition)
        offered = fault_rules.answers(trouble.kind, shared=record is not None and record.shared)
        commands = (f"`mirror-ray resolve '{self._settings.name}' {scope} --by {policy}`" for policy in offered)
        return f"Decide by {' or '.join(commands)} (docs/operations.md says what each does)"

    # What comes in.

    def heard(self, report: PartitionReport) -> bool:
        """Take in a report of a partition's owner; whether something is to be decided or looked at now."""
        partition, trouble = report.partition.source, report.trouble
        # What is said after a decision, until the partition is handed out anew, is about what was decided already.
        if trouble is None or report.state != "stopped" or self.holds_back(partition):
            self._reported.pop(partition, None)
            return False
        before = self._reported.get(partition)
        self._reported[partition] = report
        if before is not None and before.trouble == trouble and before.anchor == report.anchor:
            return False
        return trouble.kind in TOPIC_KINDS or self._policy(partition, trouble) != "stop"

    def _policy(self, partition: TopicPartition, trouble: PartitionFault) -> FaultPolicy:
        """What the flow's settings say, where it can be followed."""
        record = self._state.record(partition)
        if record is None:
            return "stop"
        if fault_rules.recount_failed(record, trouble):
            return "resync"
        declined = self._declined.get(partition)
        if declined is not None and declined[0] == trouble:
            return "stop"
        policy = self._settings.trouble.policy_for(trouble.kind)
        return "stop" if fault_rules.unanswerable(trouble.kind, policy, shared=record.shared) else policy

    # What is decided.

    def look(self, source: ClusterTopics, target: ClusterTopics, selected: Mapping[str, str]) -> None:
        """See which topics are not what they were; for ``decide``."""
        self._topics = {}
        for topic, records in self._state.by_topic().items():
            if topic in selected and topic in source.topics:
                settled = {n: each for n, each in records.items() if not self.holds_back(TopicPartition(topic, n))}
                remote = target.topics.get(selected[topic])
                for number, trouble in identity_troubles(source.topics[topic], remote, settled).items():
                    self._topics[TopicPartition(topic, number)] = trouble

    async def decide(self) -> None:
        """Persist what the flow's policy says to all troubles that are open.

        Raises:
            MirrorError: The state could not be written.
        """
        decided: dict[TopicPartition, FaultPolicy] = {}
        for partition in (*self._topics, *self._reported):
            trouble = self.trouble(partition)
            if trouble is not None and not self.holds_back(partition) and self._is_current(partition):
                policy = self._policy(partition, trouble)
                of_topic = partition in self._topics
                if policy != "stop" and (of_topic or trouble.kind not in TOPIC_KINDS):
                    decided[partition] = policy
        await self._persist(decided, "by the flow's policy")

    def _is_current(self, partition: TopicPartition) -> bool:
        """Whether what is known of the partition is about what it is now."""
        report = self._reported.get(partition)
        return partition in self._topics or report is None or report.epoch == self._state.epoch(partition)

    def troubles(
        self, topic: str, number: int | None, kinds: Collection[FaultKind] = TROUBLE_KINDS
    ) -> dict[TopicPartition, PartitionFault]:
        """Those of a topic or of one partition that an operator may answer."""
        return {
            each: trouble
            for each in {*self._topics, *self._reported}
            if each.topic == topic and number in (None, each.partition)
            if (trouble := self.trouble(each)) is not None and trouble.kind in kinds
            if not self.holds_back(each) and self._is_current(each)
        }

    async def resolve(
        self,
        topic: str,
        number: int | None,
        policy: FaultPolicy,
        kinds: Collection[FaultKind] = TROUBLE_KINDS,
        *,
        operator: str = "",
    ) -> list[TopicPartition]:
        """Persist an operator's answer to the troubles of a topic or of one partition.

        Raises:
            ConfigError: There is no trouble, or it can't be answered so.
            MirrorError: The state could not be written.
        """
        chosen = self.troubles(topic, number, kinds)
        what = topic if number is None else f"{topic}:{number}"
        if not chosen:
            raise ConfigError(f"{self._settings.name} {what} is in no trouble: `mirror-ray topics` shows what is")
        for each, trouble in chosen.items():
            record = self._state.record(each)
            reason = fault_rules.unanswerable(trouble.kind, policy, shared=record is not None and record.shared)
            if reason is not None:
                raise ConfigError(f"{each}: {trouble.kind} can't be resolved by {policy}: {reason}")
            if trouble.kind in TOPIC_KINDS and (number is not None or each not in self._topics):
                raise ConfigError(
                    f"{each}: {trouble.kind} concerns the whole topic: resolve {topic}, without a partition"
                )
            self._declined.pop(each, None)
        await self._persist(dict.fromkeys(chosen, policy), f"as told{_by(operator)}", operator)
        return sorted(chosen)

    async def _persist(self, decided: Mapping[TopicPartition, FaultPolicy], why: str, operator: str = "") -> None:
        if not decided:
            return
        now_ms = self._wall_ms()
        repairs: dict[TopicPartition, FaultResolution] = {}
        anchors: dict[TopicPartition, OffsetPair] = {}
        for partition, policy in decided.items():
            trouble, report = self.trouble(partition), self._reported.get(partition)
            of_topic = partition in self._topics
            anchor = self._state.latest_pair(partition) if of_topic or report is None else report.anchor
            if trouble is not None and anchor is not None:
                repairs[partition] = FaultResolution(trouble=trouble, policy=policy, time_ms=now_ms, by=operator)
                anchors[partition] = anchor
        await self._state.put_resolutions(repairs, anchors)
        for partition, repair in repairs.items():
            self._reported.pop(partition, None)
            self._topics.pop(partition, None)
            trouble = repair.trouble
            self._emit("warning", str(self._name(partition)), f"{trouble.kind}: {trouble.text}; {repair.policy} {why}")

    # What is done.

    async def carry_out(self, source: ClusterTopics, target: ClusterTopics, selected: Mapping[str, str]) -> bool:
        """Carry out the decisions on partitions that nobody has; whether one of them has to be tried again.

        Raises:
            MirrorError: A cluster can't be reached, or the state could not be written.
        """
        free = [each for each in self._state.records.resolutions if self._free(self._name(each))]
        if not free:
            return False
        facts = await look_at_both_sides(self._port, free, source, target, selected)
        void: list[TopicPartition] = []
        for partition in free:
            if partition not in facts:
                self._fail(partition, "one of its topics is not there, or its leader can't be asked")
                continue
            record = self._state.record(partition)
            if not facts[partition].target_settled and record is not None and not record.shared:
                self._fail(partition, "not all that its remote partition's leader holds is committed")
                continue
            try:
                if not await self._carry_out_one(partition, facts[partition]):
                    void.append(partition)
            except MirrorError as error:
                self._fail(partition, str(error))
        if void:
            await self._state.delete(RESOLUTION, *void)
        return any(each in self._failing for each in self._state.records.resolutions)

    def _fail(self, partition: TopicPartition, text: str) -> None:
        if self._failing.get(partition) != text:
            self._emit("error", str(self._name(partition)), f"can't be repaired yet: {text}")
        self._failing[partition] = text

    async def _carry_out_one(self, partition: TopicPartition, facts: FaultContext) -> bool:
        """False: the decision is void, for things are not as they were."""
        repair, record = self._state.records.resolutions[partition], self._state.record(partition)
        latest = self._state.latest_pair(partition)
        if record is None or latest is None:
            return False
        if not fault_rules.still_stands(repair, record.pair, latest):
            self._emit("warning", str(self._name(partition)), f"{repair.policy} is void: it was copied on since")
            return False
        found = fault_rules.find_remedy(repair, record.at(latest), facts)
        if isinstance(found, str):
            self._declined[partition] = (repair.trouble, f"{repair.policy} can't be followed: {found}")
            self._emit("error", str(self._name(partition)), f"{repair.policy} can't be followed: {found}")
            return False
        remote = TopicPartition(record.target_topic, partition.partition)
        if found.empty_to is not None:
            await self._port.delete_records({remote: found.empty_to}, repair.by or None)
        done = await self._with_producer(found.record) if found.new_producer else found.record
        await self._state.finish_resolution(partition, done, found.gap)
        for book in (self._reported, self._failing, self._declined):
            book.pop(partition, None)
        emptied = f", {remote} emptied" if found.empty_to is not None else ""
        at = f"source offset {done.source_offset}, target offset {done.target_offset}{emptied}"
        why = f"{repair.trouble.kind} by {repair.policy}" + (f", as told{_by(repair.by)}" if repair.by else "")
        text = f"goes on at {at} after {why}; recorded, see `mirror-ray gaps`"
        self._emit("warning", str(self._name(partition)), text)
        return True

    async def _with_producer(self, record: PartitionRecord) -> PartitionRecord:
        flow = self._state.records.flow
        if flow is None or flow.producer_id < 0 or record.producer_id == -1:
            return record
        producer_id, epoch = await self._port.new_producer()
        return replace(record, producer_id=producer_id, producer_epoch=epoch)

    def _name(self, partition: TopicPartition) -> FlowPartition:
        return FlowPartition(self._settings.name, partition.topic, partition.partition)


def _by(operator: str) -> str:
    return f" by {operator}" if operator else ""
