"""What would be left behind on the origin: records that are not copied, and groups that have gone on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirror_ray.failover.messages import NAMED, StepOutcome, by_topic, names
from mirror_ray.failover.plan import FailoverStep
from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import ReadableBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnds:
    """One partition on the origin."""

    log_start: int
    #: The last stable offset: from here on records belong to transactions that are open.
    stable: int
    #: The leader's own log end, whatever its followers have.
    log_end: int
    #: Up to where it was copied; None: nothing is known of its copy.
    copied_to: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """What would be left behind; of the offsets some may be control batches."""

    #: Not copied, by partition.
    written: Mapping[TopicPartition, int] = field(default_factory=dict)
    #: In transactions that are open, or not yet on all replicas, by partition.
    unstable: Mapping[TopicPartition, int] = field(default_factory=dict)
    #: Groups that have members again, or other committed offsets than before.
    groups: Sequence[str] = ()

    @property
    def records(self) -> bool:
        """Whether there may be records among it."""
        return bool(self.written or self.unstable)


def left_behind(ends: Mapping[TopicPartition, PartitionEnds]) -> LeftBehind:
    """What of these partitions is not on the destination."""
    written, unstable = {}, {}
    for partition, found in ends.items():
        begin = found.log_start if found.copied_to is None else max(found.copied_to, found.log_start)
        if begin < found.log_end:
            written[partition] = found.log_end - begin
        if found.stable < found.log_end:
            unstable[partition] = found.log_end - found.stable
    return LeftBehind(written=written, unstable=unstable)


def has_gone_on(
    offsets: Collection[TranslatedOffset],
    committed: Mapping[TopicPartition, CommittedOffset],
    copied: Collection[TopicPartition] = (),
) -> bool:
    """Whether a group's committed offsets on the origin differ from those that were translated.

    One that is not there any more says nothing: it has expired. A new one says that the group has begun in a partition
    since. ``copied``: the partitions that the flow moves groups of.
    """
    known = {offset.origin: offset.origin_offset for offset in offsets}
    return any(
        committed[partition].offset != known[partition] if partition in known else partition in copied
        for partition in committed
    )


def lost_if_gone(end: int, copied_to: int | None, committed: int) -> int:
    """Offsets that a group would miss if the source were lost now: neither copied nor processed."""
    return max(0, end - max(committed, copied_to or 0))


def reread_if_gone(translated: int | None, checkpoint: int | None, log: ReadableBounds) -> int:
    """Records that a group would read again if the source were lost now and its last checkpoint counted."""
    return 0 if translated is None else max(0, translated - max(checkpoint or 0, log.start))


def outcome_of(found: LeftBehind, alias: str, again: str, *, or_gone: str = "") -> StepOutcome | None:
    """The outcome that sends the plan back; None: nothing is left behind.

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
