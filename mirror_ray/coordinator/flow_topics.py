"""A flow's topics as its last discovery left them, and the limits of their remote topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from mirror_ray.coordinator.flow_context import FlowContext
from mirror_ray.coordinator.ports import ClusterTopics, TargetLimits
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.topics import discovery_rules
from mirror_ray.topics.discovery_rules import TopicSide


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic of the flow. ``refused``: why it is not copied."""

    source: TopicSide
    remote_topic: str
    leaders: Mapping[int, int]
    refused: str | None = None
    limits: TargetLimits | None = None
    #: Others write to the remote topic, too.
    shared: bool = False


def changes(
    flow: FlowName, before: Mapping[str, TopicView], after: Mapping[str, TopicView]
) -> Iterator[tuple[str, str, str]]:
    """Level, subject and text of an event for each topic that is copied no longer, refused, or no longer refused."""
    for topic in before.keys() - after.keys():
        yield "warning", topic, f"{flow}: no longer copied: gone from the source, or not selected"
    for topic, view in after.items():
        was = before.get(topic)
        if view.refused and (was is None or was.refused != view.refused):
            yield "error", topic, f"{flow}: refused: {view.refused}"
        elif was is not None and was.refused and not view.refused:
            yield "info", topic, f"{flow}: no longer refused"


def refusals(
    records: Mapping[str, Mapping[int, PartitionRecord]],
    fault: Callable[[TopicPartition], str | None],
    selected: Mapping[str, str],
) -> dict[str, str]:
    """Why topics that were copied before are not copied on; ``fault`` explains the fault of a partition's topic."""
    refused: dict[str, str] = {}
    for topic, partitions in records.items():
        if topic in selected:
            renamed = discovery_rules.renamed_refusal(topic, selected[topic], partitions)
            faults = (fault(TopicPartition(topic, number)) for number in sorted(partitions))
            reason = renamed or next(filter(None, faults), None)
            if reason is not None:
                refused[topic] = reason
    return refused


class TargetTopicLimits:
    """The limits of remote topics: read once, and again where a record was refused, for they may have been raised.

    A partition whose limits have changed is taken back, so that it is assigned with the new ones.
    """

    def __init__(self, flow: FlowContext) -> None:
        self._flow = flow
        self._known: dict[str, TargetLimits] = {}
        self._changed: set[TopicPartition] = set()

    def holds_back(self, partition: TopicPartition) -> bool:
        """Whether the partition is being taken back, to be assigned with other limits."""
        return partition in self._changed

    @property
    def ready(self) -> bool:
        """Whether partitions that were taken back may be assigned again; from this call on they are."""
        unassigned = set(filter(self._flow.is_unassigned, self._changed))
        self._changed -= unassigned
        return bool(unassigned)

    async def refresh(
        self, remotes: Mapping[str, str], target: ClusterTopics, refused: Collection[TopicPartition]
    ) -> Mapping[str, TargetLimits]:
        """Limits by remote topic, of those that exist.

        Args:
            remotes: The remote topics' names by source topic.
            target: The topics that exist.
            refused: Partitions with a record that the target refuses.
        """
        doubted = {remotes[partition.topic] for partition in refused if partition.topic in remotes}
        asked = [
            name for name in remotes.values() if name in target.topics and (name in doubted or name not in self._known)
        ]
        if asked:
            before, self._known = self._known, self._known | dict(await self._flow.port.limits(asked))
            raised = {topic for topic, name in remotes.items() if before.get(name) != self._known.get(name)}
            self._changed |= {partition for partition in refused if partition.topic in raised}
        return self._known
