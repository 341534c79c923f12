"""A flow's topics as its last discovery left them, and what the configs of their remote topics allow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from mirror_ray.coordinator.ports import ClusterTopics, FlowClusters, TargetLimits
from mirror_ray.model.names import FlowName, FlowPartition, TopicPartition
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.topics import discovery_rules
from mirror_ray.topics.discovery_rules import TopicSide


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic of the flow. ``refused`` says why it is not copied."""

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
    trouble: Callable[[TopicPartition], str | None],
    selected: Mapping[str, str],
) -> dict[str, str]:
    """Why topics as a whole are not copied on, though they were copied before; ``trouble``: what is wrong with one."""
    refused: dict[str, str] = {}
    for topic, partitions in records.items():
        if topic in selected:
            renamed = discovery_rules.renamed_refusal(topic, selected[topic], partitions)
            troubles = (trouble(TopicPartition(topic, number)) for number in sorted(partitions))
            reason = renamed or next(filter(None, troubles), None)
            if reason is not None:
                refused[topic] = reason
    return refused


class TargetTopicLimits:
    """The limits of remote topics: read once, and again where a record was refused, for somebody may have raised them.

    A partition whose limits have changed is taken back, so that it is handed out with the new ones.
    """

    def __init__(self, flow: FlowName, port: FlowClusters, *, is_unassigned: Callable[[FlowPartition], bool]) -> None:
        """``is_unassigned``: whether no replicator has the partition or may still have it."""
        self._flow = flow
        self._port = port
        self._is_unassigned = is_unassigned
        self._known: dict[str, TargetLimits] = {}
        self._renewed: set[TopicPartition] = set()

    def holds_back(self, partition: TopicPartition) -> bool:
        """Whether the partition is being taken back, to be handed out with other limits."""
        return partition in self._renewed

    @property
    def ready(self) -> bool:
        """Whether something that was taken back may be handed out again; it is, from the next question on."""
        is_unassigned = {
            partition
            for partition in self._renewed
            if self._is_unassigned(FlowPartition(self._flow, partition.topic, partition.partition))
        }
        self._renewed -= is_unassigned
        return bool(is_unassigned)

    async def refresh(
        self, remotes: Mapping[str, str], target: ClusterTopics, refused: Collection[TopicPartition]
    ) -> Mapping[str, TargetLimits]:
        """Limits by remote topic, of those that exist.

        Args:
            remotes: The remote topics' names by source topic.
            target: What there is.
            refused: Partitions that wait because of a record that the target does not take.
        """
        doubted = {remotes[partition.topic] for partition in refused if partition.topic in remotes}
        asked = [
            name for name in remotes.values() if name in target.topics and (name in doubted or name not in self._known)
        ]
        if asked:
            before, self._known = self._known, self._known | dict(await self._port.limits(asked))
            self._renewed |= {
                partition
                for partition in refused
                if partition.topic in remotes
                and before.get(remotes[partition.topic]) != self._known.get(remotes[partition.topic])
            }
        return self._known
