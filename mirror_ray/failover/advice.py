"""What producers and consumers must do once their groups have been moved. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mirror_ray.config.settings import FlowSettings
from mirror_ray.failover.plan import Kind
from mirror_ray.model.policy import ReplicationPolicy

_SHOWN = 10


def redirect(
    flow: FlowSettings, kind: Kind, topics: Mapping[str, str], groups: Collection[str], policy: ReplicationPolicy
) -> list[str]:
    """Sentences for people.

    Args:
        flow: The flow that failed over or back.
        kind: Which of the two.
        topics: Topics that the groups read, and their names on the side that they go to; of one that is routed, all.
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
    originals = [topic for topic in renamed if kind == "failover" and policy.topic_source(topic) is None]
    if kind == "failover" and originals:
        lines.append(
            f"Producers: connect to {there} and write to {there}'s own topics of the same names"
            f" ({', '.join(originals[:_SHOWN])}), never to the copies; create them where they are missing, and have"
            f" consumers read both."
        )
    elif kind == "failover":
        lines.append(f"Producers: connect to {there}; the topics' names stay.")
    else:
        lines.append(f"Producers: connect to {there} and write to the topics that they wrote to before.")
    if kind == "failover":
        lines.append(
            f"When {here} is healthy again: mirror-ray failback '{flow.name}'. Until then leave {flow.name} paused."
        )
    else:
        lines.append(f"Should {there} be lost again: mirror-ray failover '{flow.name}'.")
    return lines
