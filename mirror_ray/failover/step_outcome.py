"""What came of a step, in words and figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from mirror_ray.failover.plan import FailoverStep, Outcome
from mirror_ray.failover.translated_offsets import GroupPlacement
from mirror_ray.model.names import TopicPartition

#: So many groups or topics are named in a step's figures, those with the most to say.
NAMED: Final = 200


class StepOutcome(NamedTuple):
    """What came of a step."""

    outcome: Outcome
    summary: str
    figures: dict[str, Any]
    #: The plan goes back to this earlier step, whose result it is.
    back_to: FailoverStep | None = None


def by_topic(values: Mapping[TopicPartition, int | None]) -> dict[str, int]:
    """Sums by topic, without those where nothing is to be said; what is not known counts as nothing but is named."""
    sums: dict[str, int] = defaultdict(int)
    for partition, value in values.items():
        if value != 0:
            sums[partition.topic] += value or 0
    return dict(sorted(sums.items(), key=lambda item: -item[1])[:NAMED])


def names(named: Collection[str], shown: int = 5) -> str:
    """The first of them, and how many more there are."""
    listed = list(named)
    return ", ".join(listed[:shown]) + (f" and {len(listed) - shown} more" if len(listed) > shown else "")


def told(place: GroupPlacement) -> dict[str, Any]:
    """A place for a step's figures."""
    return {
        "group": place.group,
        "partition": str(place.origin),
        "origin_offset": place.origin_offset,
        "offset": place.offset,
        "reason": place.reason,
    }
