"""Whether anything would be left behind on the side that is left: decided from what was seen of both sides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirror_ray.failover.plan import FailoverStep
from mirror_ray.failover.step_outcome import NAMED, StepOutcome, by_topic, names
from mirror_ray.failover.translated_offsets import GroupPlacement
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnds:
    """One partition on the side that is left."""

    log_start: int
    #: The last stable offset: from here on records belong to transactions that are open.
    stable: int
    #: The leader's own end of its log, whatever its followers have.
    log_end: int
    #: Up to where it was copied; None: nothing is known of its copy.
    copied_to: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What would be left behind; offsets, of which some may be those of markers."""

    #: Not copied, by partition.
    written: Mapping[TopicPartition, int] = field(default_factory=dict)
    #: In transactions that are open, or not yet on all replicas, by partition.
    unstable: Mapping[TopicPartition, int] = field(default_factory=dict)
    #: Groups that have members again, or stand elsewhere than they stood.
    groups: Sequence[str] = ()

    @property
    def records(self) -> bool:
        """Whether there may be records among it."""
        return bool(self.written or self.unstable)


def left_behind(ends: Mapping[TopicPartition, PartitionEnds]) -> LeftBehind:
    """What of these partitions is not on the other side."""
    written, unstable = {}, {}
    for partition, seen in ends.items():
        begin = seen.log_start if seen.copied_to is None else max(seen.copied_to, seen.log_start)
        if begin < seen.log_end:
            written[partition] = seen.log_end - begin
        if seen.stable < seen.log_end:
            unstable[partition] = seen.log_end - seen.stable
    return LeftBehind(written=written, unstable=unstable)


def has_gone_on(
    places: Collection[GroupPlacement],
    committed: Mapping[TopicPartition, CommittedOffset],
    carried: Collection[TopicPartition] = (),
) -> bool:
    """Whether a group stands elsewhere on the side that it has left than when its places were looked up.

    An offset that is not there any more says nothing: it has expired. One that was not there says that it has begun in
    a partition since. ``carried``: the partitions that the flow carries groups in.
    """
    known = {place.origin: place.origin_offset for place in places}
    return any(
        committed[partition].offset != known[partition] if partition in known else partition in carried
        for partition in committed
    )


def told(found: LeftBehind, alias: str, again: str, *, or_gone: str = "") -> StepOutcome | None:
    """What to say of it, and where the plan goes back to; None: nothing is left behind.

    Args:
        found: What is.
        alias: Of the cluster that is left.
        again: What the same command does about records, once nobody writes any more.
        or_gone: The other way out.
    """
    if found.records:
        written, unstable = by_topic(found.written), by_topic(found.unstable)
        text = f"written on {alias} since it was copied to its end: {_counts(written)}"
        if unstable:
            text += f"; in transactions that are open, or not on all replicas yet: {_counts(unstable)}"
        text += f". Stop the producers, then run this again: {again}{or_gone}"
        figures = {
            "written": written,
            "open_transactions": unstable,
            "partitions": {str(partition): count for partition, count in list(found.written.items())[:NAMED]},
        }
        return StepOutcome("blocked", text, figures, FailoverStep.PRODUCERS)
    if found.groups:
        text = f"these groups were at work on {alias} since their offsets were looked up: {names(found.groups)}."
        text += " Stop them, then run this again"
        return StepOutcome("blocked", text, {"active": list(found.groups)}, FailoverStep.OFFSETS)
    return None


def _counts(offsets: Mapping[str, int]) -> str:
    return names([f"{count} offsets in {topic}" for topic, count in offsets.items()])
