"""One flow's partitions with a fault: which policy resolves it, and the carrying out once nobody copies them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator import fault_rules
from mirror_ray.coordinator.fault_rules import FaultContext
from mirror_ray.coordinator.flow_context import FlowContext
from mirror_ray.coordinator.ports import ClusterTopics, FlowClusters
from mirror_ray.model.assignment import PartitionReport
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.fault import FAULT_KINDS, TOPIC_KINDS, FaultKind, FaultPolicy, PartitionFault
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FaultResolution
from mirror_ray.state.schema import RESOLUTION
from mirror_ray.topics.discovery_rules import identity_faults

#: Faults that end by themselves, and that nobody decides about.
_WITHOUT_DECISION: tuple[FaultKind, ...] = ("schema_missing",)


async def fault_contexts(
    port: FlowClusters,
    partitions: Collection[TopicPartition],
    source: ClusterTopics,
    target: ClusterTopics,
    selected: Mapping[str, str],
) -> dict[TopicPartition, FaultContext]:
    """Topic ids and log bounds of both sides; a partition that can't be asked now is left out."""
    remote = {
        partition: TopicPartition(selected[partition.topic], partition.partition)
        for partition in partitions
        if partition.topic in selected
        and partition.topic in source.topics
        and selected[partition.topic] in target.topics
    }
    starts = await port.source_offsets(list(remote), latest=False)
    bounds = await port.target_bounds(list(remote.values()))
    return {
        partition: FaultContext(
            source_topic_id=source.topics[partition.topic].topic_id,
            source_start=starts[partition],
            target_topic_id=target.topics[there.topic].topic_id,
            target_start=bounds[there].start,
            target_end=bounds[there].committed,
            target_settled=bounds[there].committed == bounds[there].end,
        )
        for partition, there in remote.items()
        if partition in starts and there in bounds
    }


class FaultResolver:
    """The faults of a flow's partitions, the decisions about them, and their carrying out.

    Guarantees: a decision is persisted before anything is done by it, is carried out when nobody has the partition, and
    its skipped range is persisted together with the new pair; a coordinator that dies in between goes on with it.

    What is asynchronous raises a MirrorError where a cluster can't be reached, or the state could not be written.
    """

    def __init__(self, settings: FlowSettings, flow: FlowContext) -> None:
        self._settings = settings
        self._flow = flow
        self._state = flow.state
        #: The last reports of partitions with a fault.
        self._reported: dict[TopicPartition, PartitionReport] = {}
        #: Faults of whole topics, as discovery saw them last.
        self._topics: dict[TopicPartition, PartitionFault] = {}
        #: Why a decision was not carried out after all, as long as the fault stays the same.
        self._declined: dict[TopicPartition, tuple[PartitionFault, str]] = {}
        #: Why carrying out fails at the moment.
        self._failing: dict[TopicPartition, str] = {}

    def configure(self, settings: FlowSettings) -> None:
        """Resolve faults by these settings' policies from now on."""
        self._settings = settings

    def holds_back(self, partition: TopicPartition) -> bool:
        """Whether the partition must not be copied before a decision has been carried out."""
        return partition in self._state.records.resolutions

    @property
    def ready(self) -> bool:
        """Whether a decision could be carried out now."""
        return any(map(self._flow.is_unassigned, self._state.records.resolutions))

    def fault_of(self, partition: TopicPartition) -> PartitionFault | None:
        """The partition's fault, where there is one."""
        resolution = self._state.records.resolutions.get(partition)
        if resolution is not None:
            return resolution.trouble
        report = self._reported.get(partition)
        return self._topics.get(partition) or (report.trouble if report is not None else None)

    def refused_records(self) -> list[TopicPartition]:
        """Partitions that wait because of a record that the target does not take."""
        return [
            partition
            for partition, report in self._reported.items()
            if report.trouble is not None and report.trouble.kind == "record_refused"
        ]

    def topic_fault(self, partition: TopicPartition) -> str | None:
        """Why the partition's topic as a whole must not be copied on."""
        return self.explain(partition) if partition in self._topics else None

    def explain(self, partition: TopicPartition) -> str | None:
        """The partition's fault, what is done about it, and what somebody can do; None without one."""
        fault = self.fault_of(partition)
        if fault is None:
            return None
        text = f"{fault.kind}: {fault.text}"
        resolution = self._state.records.resolutions.get(partition)
        if resolution is not None:
            failing = self._failing.get(partition)
            return f"{text}; {resolution.policy} is under way" + (f", but {failing}; tried again" if failing else "")
        if (declined := self._declined_of(partition, fault)) is not None:
            text = f"{text}; {declined}"
        return f"{text}. {self._advice(partition, fault)}" if fault.kind in FAULT_KINDS else text

    def _declined_of(self, partition: TopicPartition, fault: PartitionFault) -> str | None:
        known, reason = self._declined.get(partition, (None, None))
        return reason if known == fault else None

    def _advice(self, partition: TopicPartition, fault: PartitionFault) -> str:
        scope = partition.topic if fault.kind in TOPIC_KINDS else f"{partition.topic}:{partition.partition}"
        offered = fault_rules.policies_for(fault.kind, **self._limits_of(partition))
        commands = (f"`mirror-ray resolve '{self._settings.name}' {scope} --by {policy}`" for policy in offered)
        return f"Decide by {' or '.join(commands)} (docs/operations.md says what each does)"

    def _limits_of(self, partition: TopicPartition) -> dict[str, bool]:
        """What limits the policies that can be followed for a partition, as ``fault_rules`` asks for it."""
        record = self._state.record(partition)
        return {
            "shared": record is not None and record.shared,
            "preserved": record is not None and record.preserve_offsets,
        }

    def on_report(self, report: PartitionReport) -> bool:
        """Take in a report of a partition's owner; whether a round of discovery is to begin at once."""
        partition, fault = report.partition.source, report.trouble
        # Reports after a decision, until the partition is assigned anew, are about what was decided already.
        if fault is None or report.state != "stopped" or self.holds_back(partition):
            self._reported.pop(partition, None)
            return False
        before = self._reported.get(partition)
        self._reported[partition] = report
        if before is not None and before.trouble == fault and before.anchor == report.anchor:
            return False
        return fault.kind in TOPIC_KINDS or self._policy(partition, fault) != "stop"

    def _policy(self, partition: TopicPartition, fault: PartitionFault) -> FaultPolicy:
        """The policy of the flow's settings, where it can be followed."""
        record = self._state.record(partition)
        if record is None or fault.kind not in FAULT_KINDS:
            return "stop"
        if fault_rules.recount_failed(record, fault):
            return "resync"
        if self._declined_of(partition, fault) is not None:
            return "stop"
        policy = self._settings.trouble.policy_for(fault.kind)
        return "stop" if fault_rules.refused_policy(fault.kind, policy, **self._limits_of(partition)) else policy

    def find_topic_faults(self, source: ClusterTopics, target: ClusterTopics, selected: Mapping[str, str]) -> None:
        """Find topics that were deleted or created again; for ``decide``."""
        self._topics = {}
        for topic, records in self._state.by_topic().items():
            if topic in selected and topic in source.topics:
                settled = {n: record for n, record in records.items() if not self.holds_back(TopicPartition(topic, n))}
                remote = target.topics.get(selected[topic])
                for number, fault in identity_faults(source.topics[topic], remote, settled).items():
                    self._topics[TopicPartition(topic, number)] = fault

    async def decide(self) -> None:
        """Persist what the flow's policy decides about all faults that are open."""
        decided: dict[TopicPartition, FaultPolicy] = {}
        for partition in (*self._topics, *self._reported):
            fault = self.fault_of(partition)
            if fault is not None and not self.holds_back(partition) and self._is_current(partition):
                policy = self._policy(partition, fault)
                of_topic = partition in self._topics
                if policy != "stop" and (of_topic or fault.kind not in TOPIC_KINDS):
                    decided[partition] = policy
        await self._persist(decided, "by the flow's policy")

    def _is_current(self, partition: TopicPartition) -> bool:
        """Whether what is known of the partition is about what it is now."""
        report = self._reported.get(partition)
        return partition in self._topics or report is None or report.epoch == self._state.epoch(partition)

    def open_faults(
        self, topic: str, number: int | None, kinds: Collection[FaultKind] = FAULT_KINDS
    ) -> dict[TopicPartition, PartitionFault]:
        """The faults of a topic or of one partition that an operator may resolve."""
        return {
            partition: fault
            for partition in {*self._topics, *self._reported}
            if partition.topic == topic and number in (None, partition.partition)
            if (fault := self.fault_of(partition)) is not None and fault.kind in kinds
            if not self.holds_back(partition) and self._is_current(partition)
        }

    async def resolve(
        self, topic: str, number: int | None, policy: FaultPolicy, kinds: Collection[FaultKind], operator: str
    ) -> list[TopicPartition]:
        """Persist an operator's decision about the faults of a topic or of one partition.

        Raises:
            ConfigError: There is no fault, or it can't be resolved so.
        """
        chosen = self.open_faults(topic, number, kinds)
        what = topic if number is None else f"{topic}:{number}"
        if not chosen and self.open_faults(topic, number, _WITHOUT_DECISION):
            why = "waits for a schema, and goes on by itself: `mirror-ray schemas --problems` says what keeps it"
            raise ConfigError(f"{self._settings.name} {what} {why}")
        if not chosen:
            raise ConfigError(f"{self._settings.name} {what} is in no trouble: `mirror-ray topics` shows what is")
        for partition, fault in chosen.items():
            reason = fault_rules.refused_policy(fault.kind, policy, **self._limits_of(partition))
            if reason is not None:
                raise ConfigError(f"{partition}: {fault.kind} can't be resolved by {policy}: {reason}")
            if fault.kind in TOPIC_KINDS and (number is not None or partition not in self._topics):
                raise ConfigError(
                    f"{partition}: {fault.kind} concerns the whole topic: resolve {topic}, without a partition"
                )
            self._declined.pop(partition, None)
        await self._persist(dict.fromkeys(chosen, policy), f"as told{_by(operator)}", operator)
        return sorted(chosen)

    async def _persist(self, decided: Mapping[TopicPartition, FaultPolicy], why: str, operator: str = "") -> None:
        if not decided:
            return
        now_ms = self._flow.wall_ms()
        resolutions: dict[TopicPartition, FaultResolution] = {}
        pairs: dict[TopicPartition, OffsetPair] = {}
        for partition, policy in decided.items():
            fault, report = self.fault_of(partition), self._reported.get(partition)
            of_topic = partition in self._topics
            pair = self._state.latest_pair(partition) if of_topic or report is None else report.anchor
            if fault is not None and pair is not None:
                resolutions[partition] = FaultResolution(trouble=fault, policy=policy, time_ms=now_ms, by=operator)
                pairs[partition] = pair
        await self._state.put_resolutions(resolutions, pairs)
        for partition, resolution in resolutions.items():
            self._reported.pop(partition, None)
            self._topics.pop(partition, None)
            fault = resolution.trouble
            self._flow.emit_of("warning", partition, f"{fault.kind}: {fault.text}; {resolution.policy} {why}")

    async def carry_out(self, source: ClusterTopics, target: ClusterTopics, selected: Mapping[str, str]) -> bool:
        """Carry out the decisions on partitions that nobody has; whether one of them has to be tried again."""
        ready = list(filter(self._flow.is_unassigned, self._state.records.resolutions))
        if not ready:
            return False
        contexts = await fault_contexts(self._flow.port, ready, source, target, selected)
        void: list[TopicPartition] = []
        for partition in ready:
            if partition not in contexts:
                self._fail(partition, "one of its topics is not there, or its leader can't be asked")
                continue
            record = self._state.record(partition)
            if not contexts[partition].target_settled and record is not None and not record.shared:
                self._fail(partition, "not all that its remote partition's leader holds is committed")
                continue
            try:
                if not await self._carry_out_one(partition, contexts[partition]):
                    void.append(partition)
            except MirrorError as error:
                self._fail(partition, str(error))
        if void:
            await self._state.delete(RESOLUTION, *void)
        return any(partition in self._failing for partition in self._state.records.resolutions)

    def _fail(self, partition: TopicPartition, text: str) -> None:
        if self._failing.get(partition) != text:
            self._flow.emit_of("error", partition, f"can't be repaired yet: {text}")
        self._failing[partition] = text

    async def _carry_out_one(self, partition: TopicPartition, context: FaultContext) -> bool:
        """Whether the decision still held; False: it is void."""
        resolution, record = self._state.records.resolutions[partition], self._state.record(partition)
        latest = self._state.latest_pair(partition)
        if record is None or latest is None:
            return False
        if not fault_rules.still_holds(resolution, record.pair, latest):
            self._flow.emit_of("warning", partition, f"{resolution.policy} is void: it was copied on since")
            return False
        found = fault_rules.find_action(resolution, record.at(latest), context)
        if isinstance(found, str):
            declined = f"{resolution.policy} can't be followed: {found}"
            self._declined[partition] = (resolution.trouble, declined)
            self._flow.emit_of("error", partition, declined)
            return False
        remote = TopicPartition(record.target_topic, partition.partition)
        if found.empty_to is not None:
            await self._flow.port.delete_records({remote: found.empty_to}, resolution.by or None)
        done = await self._with_producer(found.record) if found.new_producer else found.record
        await self._state.finish_resolution(partition, None if found.anew else done, found.gap)
        for known in (self._reported, self._failing, self._declined):
            known.pop(partition, None)
        emptied = f", {remote} emptied" if found.empty_to is not None else ""
        at = f"at source offset {done.source_offset}, target offset {done.target_offset}{emptied}"
        if found.anew:
            at = "as one that was never copied"
        why = f"{resolution.trouble.kind} by {resolution.policy}"
        why += f", as told{_by(resolution.by)}" if resolution.by else ""
        text = f"goes on {at} after {why}; recorded, see `mirror-ray gaps`"
        self._flow.emit_of("warning", partition, text)
        return True

    async def _with_producer(self, record: PartitionRecord) -> PartitionRecord:
        flow = self._state.records.flow
        if flow is None or flow.producer_id < 0 or record.producer_id == -1:
            return record
        producer_id, epoch = await self._flow.port.new_producer()
        return replace(record, producer_id=producer_id, producer_epoch=epoch)


def _by(operator: str) -> str:
    return f" by {operator}" if operator else ""
