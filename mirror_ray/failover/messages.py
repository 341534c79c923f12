"""The texts and figures that the steps report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from mirror_ray.config.settings import FlowSettings
from mirror_ray.failover.plan import FailoverStep, Kind, Outcome
from mirror_ray.groups.translated_offset import TranslatedGroups, TranslatedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.policy import ReplicationPolicy

#: So many groups or topics are named in a step's figures, those with the most to say.
NAMED: Final = 200
#: So many topics are named in a text.
_SHOWN: Final = 10


class StepOutcome(NamedTuple):
    """What came of a step."""

    outcome: Outcome
    #: One or more sentences for people.
    summary: str
    #: Plain values, for JSON.
    figures: dict[str, Any]
    #: The plan goes back to this earlier step, whose result it is.
    back_to: FailoverStep | None = None


def by_topic(values: Mapping[TopicPartition, int | None]) -> dict[str, int]:
    """Sums by topic, the largest first, without partitions of 0; one of None counts as 0, but its topic is named."""
    sums: dict[str, int] = defaultdict(int)
    for partition, value in values.items():
        if value != 0:
            sums[partition.topic] += value or 0
    return dict(sorted(sums.items(), key=lambda item: -item[1])[:NAMED])


def names(named: Collection[str], shown: int = 5) -> str:
    """The first of them, and how many more there are."""
    listed = list(named)
    return ", ".join(listed[:shown]) + (f" and {len(listed) - shown} more" if len(listed) > shown else "")


def offset_figures(offset: TranslatedOffset) -> dict[str, Any]:
    """A translated offset for a step's figures."""
    return {
        "group": offset.group,
        "partition": str(offset.origin),
        "origin_offset": offset.origin_offset,
        "offset": offset.offset,
        "reason": offset.reason,
    }


def group_totals(offsets: TranslatedGroups) -> dict[str, int]:
    """Counts for a step's figures."""
    every = [offset for of_group in offsets.values() for offset in of_group]
    return {
        "groups": len(offsets),
        "partitions": len(every),
        "exact": sum(offset.offset is not None and offset.exact for offset in every),
        "before_the_place": sum(offset.offset is not None and not offset.exact for offset in every),
        "without_offset": sum(offset.offset is None for offset in every),
    }


def wave(flow: FlowSettings, topics: Collection[str], groups: Collection[str], remotes: Mapping[str, str]) -> list[str]:
    """What producers and consumers must do once a wave has moved.

    Args:
        flow: The flow.
        topics: Topics whose producers move, too; they are paused.
        groups: The groups that were moved.
        remotes: Topics that the groups read, and their names on the target.
    """
    source, target = flow.name.source, flow.name.target
    renamed = [f"{old} is {new}" for old, new in sorted(remotes.items()) if old != new]
    lines = [f"Consumers of {names(sorted(groups)) or 'no group'}: connect to {target}, same group names."]
    if renamed:
        lines.append(f"Their topics on {target}: {names(renamed, _SHOWN)}.")
    if topics:
        lines.append(f"Producers of {names(sorted(topics))}: connect to {target}. All others stay on {source}.")
    else:
        lines.append(f"Producers stay on {source}, and what they write is copied on.")
    lines.append(f"To bring this wave back: mirror-ray failback '{flow.name}' --wave PLAN, as --status names it.")
    return lines


def redirect(
    flow: FlowSettings, kind: Kind, topics: Mapping[str, str], groups: Collection[str], policy: ReplicationPolicy
) -> list[str]:
    """What producers and consumers must do once their groups have been moved.

    Args:
        flow: The flow that failed over or back.
        kind: Which of the two.
        topics: Topics that the groups read, and their names on the destination; of one that is routed, all of them.
        groups: The groups that were moved; their names stay.
        policy: The flow's.
    """
    source, target = flow.name.source, flow.name.target
    here, there = (source, target) if kind == "failover" else (target, source)
    renamed = {old: new for old, new in sorted(topics.items()) if old != new}
    lines = [f"Consumers: connect to {there}, same group names ({len(groups)} groups)."]
    if renamed:
        shown = [f"{old} is {new}" for old, new in list(renamed.items())[:_SHOWN]]
        more = f", and {len(renamed) - _SHOWN} more" if len(renamed) > _SHOWN else ""
        lines.append(f"Their topics on {there}: {', '.join(shown)}{more}.")
    if kind == "failback":
        lines.append(f"Producers: connect to {there} and write to the topics that they wrote to before.")
        lines.append(f"Should {there} be lost again: mirror-ray failover '{flow.name}'.")
        return lines
    originals = [topic for topic in renamed if policy.topic_source(topic) is None]
    if originals:
        lines.append(
            f"Producers: connect to {there} and write to {there}'s own topics of the same names"
            f" ({', '.join(originals[:_SHOWN])}), never to the copies; create them where they are missing, and have"
            f" consumers read both."
        )
    else:
        lines.append(f"Producers: connect to {there}; the topics' names stay.")
    lines.append(
        f"When {here} is healthy again: mirror-ray failback '{flow.name}'. Until then leave {flow.name} paused."
    )
    return lines
