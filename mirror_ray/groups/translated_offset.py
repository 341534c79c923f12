"""A group's committed offset in one partition, translated: what a failover, a failback and the bulk move work on.

*Origin* is the cluster that groups leave, *destination* the one that they go to: source and target, the other way round
in a failback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import NOTHING_COPIED, ReadableBounds, Translation, within

NOT_COPIED: Final = "this flow does not copy the topic"
NOT_THERE: Final = "its partition is missing on the other side, or has no leader there"
_UNKNOWN_COPY: Final = "the remote partition holds records, and nothing is known of where they came from"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedOffset:
    """One group, one partition."""

    group: str
    origin: TopicPartition
    #: Committed there; None: nothing was, or it is not known.
    origin_offset: int | None
    #: None: the partition is not on the destination.
    destination: TopicPartition | None
    translation: Translation
    metadata: str = ""
    #: Whether the topic came from the destination.
    back: bool = False
    #: Why it counts though the group has committed nothing; None: it has.
    assumed: str | None = None

    @property
    def offset(self) -> int | None:
        """The offset to commit on the destination; None: there is none, and ``reason`` says why."""
        return self.translation.offset

    @property
    def exact(self) -> bool:
        """Whether ``offset`` is exact, else a lower bound."""
        return self.translation.exact

    @property
    def reason(self) -> str | None:
        """Why there is no offset, or no exact one."""
        return self.translation.reason

    def to_json(self) -> list[Any]:
        """Plain values; the group is the record's key."""
        there = self.destination
        return [
            [self.origin.topic, self.origin.partition, self.origin_offset],
            [there.topic, there.partition, self.offset] if there is not None else None,
            self.exact,
            self.reason,
            self.metadata,
        ]

    @classmethod
    def from_json(cls, group: str, value: list[Any]) -> TranslatedOffset:
        """Read ``to_json``.

        Raises:
            ValueError, TypeError: It is something else.
        """
        (topic, number, origin_offset), there, exact, reason, metadata = value
        destination, offset = (TopicPartition(there[0], there[1]), there[2]) if there is not None else (None, None)
        return cls(
            group=group,
            origin=TopicPartition(topic, number),
            origin_offset=origin_offset,
            destination=destination,
            translation=Translation(offset=offset, exact=exact, reason=reason),
            metadata=metadata,
        )


TranslatedGroups = Mapping[str, Sequence[TranslatedOffset]]


def within_log(found: Translation, log: ReadableBounds) -> Translation:
    """Limit a translation to the destination's log.

    A group of a partition of which nothing was copied goes on at the start of its log, so that
    ``auto.offset.reset=latest`` skips nothing.
    """
    if found.offset is None and found.reason == NOTHING_COPIED:
        if log.start == log.end:
            return Translation(offset=log.start)
        return Translation(offset=None, reason=_UNKNOWN_COPY)
    return within(found, log)


def by_checkpoint(checkpoint: int | None, by_map: int | None, log: ReadableBounds) -> Translation:
    """Translate where the source can't be asked.

    Args:
        checkpoint: The target offset of the group's last checkpoint; None: there is none.
        by_map: That checkpoint's source offset, where the map translates it exactly.
        log: The remote partition's.
    """
    if checkpoint is None:
        if log.start == log.end:
            return Translation(offset=log.start)
        why = (
            f"no checkpoint says where it stood, and {log.end - log.start} records are there: auto.offset.reset decides"
        )
        return Translation(offset=None, reason=why)
    offset = checkpoint if by_map is None else max(checkpoint, by_map)
    if offset > log.end:
        # The target lost its end, or the checkpoint is of another life of the topic.
        return Translation(
            offset=log.end, exact=False, reason=f"its checkpoint says {offset}, the log ends at {log.end}"
        )
    return within(Translation(offset=offset), log)
