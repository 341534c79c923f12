"""What ``status``, ``lag``, ``topics`` and ``replicators`` show, gathered from the coordinator's parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from mirror_ray.config.operating import CostSettings
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator import snapshot
from mirror_ray.coordinator.assignment import PartitionAssigner
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.flow_topics import TopicView
from mirror_ray.coordinator.limits import LimitController
from mirror_ray.coordinator.observed import ObservedState
from mirror_ray.coordinator.replicator_pool import ReplicatorPool
from mirror_ray.coordinator.throttle_share import ThrottleShare
from mirror_ray.model.assignment import PartitionReport, PartitionState
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.observe.backfills import BackfillStatus
from mirror_ray.observe.groups import FlowGroups
from mirror_ray.observe.status import ElasticStatus, FlowStatus, GapStatus, PartitionStatus, SystemStatus, TopicStatus

#: States of partitions that should be copying and don't yet.
_COMING: tuple[PartitionState, ...] = ("waiting", "establishing")


class SystemQueries:
    """Reads the parts; changes nothing."""

    def __init__(
        self,
        name: str,
        flows: Mapping[FlowName, FlowController],
        placement: PartitionAssigner,
        pool: ReplicatorPool,
        observed: ObservedState,
        *,
        limiting: LimitController,
        held: ThrottleShare,
    ) -> None:
        """``flows`` is looked at anew in each call."""
        self._name = name
        self._flows = flows
        self._placement = placement
        self._pool = pool
        self._observed = observed
        self._limiting, self._held = limiting, held

    def system(
        self,
        settings: MirrorSettings | None,
        *,
        started_ms: int,
        node: str,
        pid: int,
        heartbeat_ages: Mapping[str, float | None],
        groups: Mapping[str, FlowGroups],
        backfills: Iterable[BackfillStatus],
        partitions: Mapping[FlowName, tuple[PartitionStatus, ...]],
        elastic: ElasticStatus | None,
        now_s: float,
    ) -> SystemStatus:
        """Every flow of the settings, idle ones too, backfills that are not over, and every replicator.

        ``partitions``: of each flow, as ``by_flow`` gives them.
        """
        cost = settings.cost if settings else CostSettings()
        return SystemStatus(
            name=self._name,
            started_ms=started_ms,
            flows=tuple(
                _with_groups(
                    self._flow(
                        flow,
                        partitions.get(flow.name, ()),
                        heartbeat_ages.get(str(flow.name)),
                        cost.price_per_gb,
                        now_s,
                    ),
                    groups.get(str(flow.name)),
                )
                for flow in (settings.flows if settings else ())
            ),
            replicators=self._pool.statuses(),
            desired_replicators=self._pool.desired,
            coordinator_pid=pid,
            coordinator_node=node,
            backfills=tuple(each for each in backfills if each.state not in ("done", "cancelled")),
            elastic=elastic,
            price_per_gb=cost.price_per_gb,
            currency=cost.currency,
        )

    def partitions(self, flows: Iterable[FlowController], now_ms: int) -> tuple[PartitionStatus, ...]:
        """Every partition of the flows, by topic and number."""
        return tuple(
            self._partition(flow, flow.topics[topic], number, now_ms)
            for flow in flows
            for topic in sorted(flow.topics)
            for number in range(flow.topics[topic].source.partitions)
        )

    def by_flow(self, flows: Iterable[FlowController], now_ms: int) -> Mapping[FlowName, tuple[PartitionStatus, ...]]:
        """The same of each flow apart."""
        return {flow.name: self.partitions([flow], now_ms) for flow in flows}

    def topics(
        self, partitions: Mapping[FlowName, Iterable[PartitionStatus]], price_per_gb: float, now_s: float
    ) -> tuple[TopicStatus, ...]:
        """Every topic of the flows whose partitions are given, by name."""
        found: list[TopicStatus] = []
        for name, there in partitions.items():
            of_topic: dict[str, list[PartitionStatus]] = defaultdict(list)
            for each in there:
                of_topic[each.topic].append(each)
            for topic, view in sorted(self._flows[name].topics.items()):
                found.append(
                    snapshot.topic_status(
                        str(name),
                        topic,
                        view.remote_topic,
                        view.refused,
                        of_topic[topic],
                        rates=self._observed.topic_rates(name, topic, now_s),
                        price_per_gb=price_per_gb,
                    )
                )
        return tuple(found)

    def gaps(self, flows: Iterable[FlowController]) -> tuple[GapStatus, ...]:
        """What partitions of the flows went on without, by topic, partition and time."""
        return tuple(
            GapStatus(flow=str(flow.name), topic=partition.topic, partition=partition.partition, **asdict(gap))
            for flow in flows
            for (partition, _), gap in sorted(flow.ledger.gaps.items(), key=lambda item: item[0])
        )

    def all_copying(self, flow: FlowController) -> bool:
        """Whether every partition of the flow copies that should."""
        return flow.discovered and not any(
            self._state(flow, view, number)[0] in _COMING
            for view in flow.topics.values()
            for number in range(view.source.partitions)
        )

    def _state(self, flow: FlowController, view: TopicView, number: int) -> tuple[PartitionState, str | None]:
        partition = FlowPartition(flow.name, view.source.topic, number)
        owned, report = partition in self._placement.owners, self._observed.reports.get(partition)
        return _state(flow, view, partition.source, report, owned=owned)

    def _partition(self, flow: FlowController, view: TopicView, number: int, now_ms: int) -> PartitionStatus:
        partition = FlowPartition(flow.name, view.source.topic, number)
        owner = self._placement.owners.get(partition)
        report = self._observed.reports.get(partition)
        state, reason = self._state(flow, view, number)
        trouble = flow.repairs.trouble(partition.source)
        return snapshot.partition_status(
            partition,
            trouble=trouble.kind if trouble is not None and state in ("stopped", "refused") else None,
            target_topic=view.remote_topic,
            state=state,
            reason=reason,
            replicator=owner.replicator if owner else None,
            report=report,
            totals=self._observed.totals(partition),
            now_ms=now_ms,
        )

    def _flow(
        self,
        settings: FlowSettings,
        partitions: Sequence[PartitionStatus],
        heartbeat_age_s: float | None,
        price_per_gb: float,
        now_s: float,
    ) -> FlowStatus:
        flow = self._flows.get(settings.name)
        problems = flow.problems() + self._pool.problems() if flow else ()
        copying = sum(each.state == "copying" for each in partitions)
        state = snapshot.flow_state(
            enabled=settings.enabled,
            discovered=flow is not None and flow.discovered,
            reachable=flow is None or flow.reachable,
            paused=flow is not None and flow.paused,
            settled=flow is not None and flow.settled,
            troubled=bool(problems) or any(each.state in ("refused", "stopped") for each in partitions),
            copying=copying,
            expected=copying + sum(each.state in _COMING for each in partitions),
        )
        rate = self._limiting.rate(settings.name)
        slowed = snapshot.slowed_by(settings.name, self._held.of(settings.name), rate)
        stopped = [each for each in partitions if each.state == "stopped"]
        return snapshot.flow_status(
            str(settings.name),
            state=state,
            topics=len(flow.topics) if flow else 0,
            partitions=partitions,
            rates=self._observed.rates(settings.name, now_s),
            totals=self._observed.flow_totals(settings.name),
            why=(flow.closed if flow else None) or slowed,
            limit_bytes_per_s=rate,
            held=self._pool.held.of(settings.name),
            price_per_gb=price_per_gb,
            heartbeat_age_s=heartbeat_age_s,
            discovered=flow is not None and flow.discovered,
            problems=problems + tuple(f"{each.topic}-{each.partition}: stopped: {each.reason}" for each in stopped),
        )


def _state(
    flow: FlowController,
    view: TopicView,
    partition: TopicPartition,
    report: PartitionReport | None,
    *,
    owned: bool,
) -> tuple[PartitionState, str | None]:
    if view.refused is not None:
        return "refused", view.refused
    if flow.is_paused(partition):
        return "paused", flow.closed
    unchanged = flow.transformations.explain(partition)
    trouble = unchanged or flow.repairs.explain(partition)
    if unchanged is not None or flow.repairs.holds_back(partition):
        return "stopped", trouble
    if not owned:
        return "waiting", _why_waiting(flow, partition)
    if report is None or report.epoch != flow.ledger.epoch(partition):
        return "establishing", None
    return report.state, trouble if trouble is not None and report.state == "stopped" else report.reason


def _why_waiting(flow: FlowController, partition: TopicPartition) -> str:
    if flow.ledger.fenced:
        return "another coordinator has taken the flow over"
    if flow.ledger.lease_ms(partition):
        return "until the lease of the replicator that had it has run out"
    if (reason := flow.transformations.waits(partition)) is not None:
        return reason
    return "no replicator has it yet"


def _with_groups(flow: FlowStatus, groups: FlowGroups | None) -> FlowStatus:
    problem = groups.problem if groups is not None else None
    problems = (*flow.problems, f"consumer groups wait: {problem}") if problem else flow.problems
    return replace(flow, groups=groups, problems=problems)
