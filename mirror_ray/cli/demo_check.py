"""The check at the demo's end: what was produced to its topics, against what its clusters hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirror_ray.model.names import FlowName, TopicPartition

if TYPE_CHECKING:
    # Pydantic takes half a second, and the command line imports this.
    from mirror_ray.config.settings import FlowSettings, MirrorSettings

#: Replication positions as the system reports them, by flow and source partition.
SystemPositions = Mapping[tuple[str, TopicPartition], int]

_PARTITIONS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPartition:
    """A partition of one of the demo's topics, read from its clusters once the traffic has stopped."""

    flow: FlowName
    partition: TopicPartition
    #: Records that were acknowledged to the traffic.
    produced: int
    #: The source's log end offset.
    source_end: int
    #: The replication position, as the system reports it; None: it does not copy the partition.
    position: int | None
    #: Records in the remote partition.
    copied: int

    @property
    def is_copied(self) -> bool:
        """Whether all of it is on the target."""
        return self.position is not None and self.position >= self.source_end and self.copied >= self.produced

    def __str__(self) -> str:
        at = "is not copied any more" if self.position is None else f"copied up to {self.position:,}"
        return (
            f"{self.flow} {self.partition}: {self.produced:,} produced, {self.source_end:,} offsets on "
            f"{self.flow.source}, {at}, {self.copied:,} records on {self.flow.target}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSummary:
    """The result of the check, in sentences."""

    holds: bool
    #: Whether waiting can no longer change it.
    final: bool
    lines: Sequence[str]


def takeover_signs(own: MirrorSettings, running: MirrorSettings | None) -> list[str]:
    """How others have changed the demo's system, a sentence each; ``running`` None: they have stopped it."""
    if running is None:
        return ["it was stopped by another command"]
    there = {flow.name for flow in running.flows if flow.enabled}
    gone = [f"flow {flow.name} was ended" for flow in own.flows if flow.enabled and flow.name not in there]
    moved = [
        f"{alias} was {', '.join(cluster.bootstrap_servers)} and is {', '.join(now.bootstrap_servers)} now"
        for alias, cluster in own.clusters.items()
        if (now := running.clusters.get(alias)) is not None and now.bootstrap_servers != cluster.bootstrap_servers
    ]
    return gone + moved


def summarize(partitions: Sequence[DemoPartition], changes: Sequence[str]) -> DemoSummary:
    """Say what was copied. ``changes``: how others have changed the demo's system."""
    produced = sum(partition.produced for partition in partitions)
    missing = [partition for partition in partitions if not partition.is_copied]
    if not missing and not changes:
        line = f"{produced:,} records produced, all of them copied: every partition's lag is 0"
        return DemoSummary(holds=True, final=True, lines=[line])
    copied = sum(min(partition.copied, partition.produced) for partition in partitions)
    lines = [f"of {produced:,} records produced, {copied:,} are copied"]
    lines += [f"the demo's system is no longer its own: {change}" for change in changes]
    lines += [f"  {partition}" for partition in missing[:_PARTITIONS_SHOWN]]
    if len(missing) > _PARTITIONS_SHOWN:
        lines.append(f"  and {len(missing) - _PARTITIONS_SHOWN} partitions more")
    final = bool(changes) and all(partition.position is None for partition in missing)
    return DemoSummary(holds=False, final=final, lines=lines)


def demo_partitions(
    flow: FlowName,
    produced: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, tuple[int, int]],
    remote: Mapping[TopicPartition, tuple[int, int]],
    positions: Mapping[TopicPartition, int],
) -> list[DemoPartition]:
    """Make the partitions of one flow from what was counted and read; all by source partition.

    ``produced``: records that were acknowledged to the traffic. ``ends``, ``remote``: log start and end offset on the
    source, and of the remote partition. ``positions``: replication positions.
    """
    return [
        DemoPartition(
            flow=flow,
            partition=partition,
            produced=records,
            source_end=ends[partition][1] if partition in ends else records,
            position=positions.get(partition),
            copied=remote[partition][1] - remote[partition][0] if partition in remote else 0,
        )
        for partition, records in sorted(produced.items())
    ]


@contextmanager
def partition_reader(
    settings: MirrorSettings, produced: Mapping[str, Mapping[TopicPartition, int]]
) -> Iterator[Callable[[SystemPositions], list[DemoPartition]]]:
    """Yield what reads every partition of the demo's topics, from its clusters and not through its system.

    The log ends of the sources are read once, at the beginning: the traffic has stopped by then. ``produced``: what was
    acknowledged to the traffic, by cluster and partition.
    """
    from mirror_ray.config.flow_rules import replication_rules
    from mirror_ray.kafka.admin import ClusterAdmin

    with ExitStack() as stack:
        admins = {
            alias: stack.enter_context(closing(ClusterAdmin(cluster, "mirror-ray-demo")))
            for alias, cluster in settings.clusters.items()
        }
        ends = {alias: admins[alias].log_bounds(partitions) for alias, partitions in produced.items()}

        def of_flow(flow: FlowSettings, positions: SystemPositions) -> list[DemoPartition]:
            name, rules = flow.name, replication_rules(flow)
            sources = produced.get(name.source, {})
            remotes = {source: TopicPartition(rules.remote_topic(source.topic), source.partition) for source in sources}
            bounds = admins[name.target].log_bounds(remotes.values())
            return demo_partitions(
                name,
                sources,
                ends.get(name.source, {}),
                {source: bounds[remote] for source, remote in remotes.items() if remote in bounds},
                {source: position for (of, source), position in positions.items() if of == str(name)},
            )

        flows = [flow for flow in settings.flows if flow.enabled and flow.name.is_live]
        yield lambda positions: [partition for flow in flows for partition in of_flow(flow, positions)]
