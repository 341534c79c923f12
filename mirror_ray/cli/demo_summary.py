"""What the demo may say at its end: what was produced to its own topics, against what its own clusters hold of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirror_ray.model.names import FlowName, TopicPartition

if TYPE_CHECKING:
    # Pydantic takes half a second, and the command line imports this.
    from mirror_ray.config.settings import MirrorSettings

_PARTITIONS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPartition:
    """A partition of one of the demo's topics, asked of its own clusters once the traffic had stopped."""

    flow: FlowName
    partition: TopicPartition
    #: Acknowledged to the traffic.
    produced: int
    #: The source's log end.
    source_end: int
    #: Where the demo's system has come, as it says itself; None: it does not copy the partition.
    position: int | None
    #: Records in the remote partition.
    copied: int

    @property
    def whole(self) -> bool:
        """Whether all of it is on the other side."""
        return self.position is not None and self.position >= self.source_end and self.copied >= self.produced

    def __str__(self) -> str:
        at = "is not copied any more" if self.position is None else f"copied up to {self.position:,}"
        return (
            f"{self.flow} {self.partition}: {self.produced:,} produced, {self.source_end:,} offsets on "
            f"{self.flow.source}, {at}, {self.copied:,} records on {self.flow.target}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSummary:
    """What is to be said, and whether it is that all is well."""

    holds: bool
    #: Whether waiting would not change it.
    final: bool
    lines: Sequence[str]


def taken(own: MirrorSettings, running: MirrorSettings | None) -> list[str]:
    """How the system that the demo started is no longer its own: a sentence for each thing; None: it was stopped."""
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


def claim(partitions: Sequence[DemoPartition], lost: Sequence[str]) -> DemoSummary:
    """What the demo may say. ``lost``: how its system is no longer its own."""
    produced = sum(each.produced for each in partitions)
    missing = [each for each in partitions if not each.whole]
    if not missing and not lost:
        line = f"{produced:,} records produced, all of them copied: every partition's lag is 0"
        return DemoSummary(holds=True, final=True, lines=[line])
    copied = sum(min(each.copied, each.produced) for each in partitions)
    lines = [f"of {produced:,} records produced, {copied:,} are copied"]
    lines += [f"the demo's system is no longer its own: {each}" for each in lost]
    lines += [f"  {each}" for each in missing[:_PARTITIONS_SHOWN]]
    if len(missing) > _PARTITIONS_SHOWN:
        lines.append(f"  and {len(missing) - _PARTITIONS_SHOWN} partitions more")
    return DemoSummary(holds=False, final=bool(lost) and all(each.position is None for each in missing), lines=lines)


def of_topics(
    flow: FlowName,
    produced: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, tuple[int, int]],
    remote: Mapping[TopicPartition, tuple[int, int]],
    positions: Mapping[TopicPartition, int],
) -> list[DemoPartition]:
    """The partitions of one flow, out of what was counted and asked.

    Args:
        flow: Its name.
        produced: What was acknowledged to the traffic, by source partition: all that there are.
        ends: First offset and log end, by source partition.
        remote: The same of each remote partition, by source partition.
        positions: The system's own, by source partition.
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
