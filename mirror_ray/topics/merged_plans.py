"""What is created where several source topics are copied into one remote topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirror_ray.topics.remote_topics import Extension, RemoteTopicPlan


def merge_plans(plans: Sequence[RemoteTopicPlan]) -> list[RemoteTopicPlan]:
    """The same plans, where a remote topic is created or extended once, with the partitions of its largest source.

    Its configs are those of the first source topic by name that they can be read of.
    """
    several: dict[str, list[RemoteTopicPlan]] = {}
    for plan in plans:
        several.setdefault(plan.remote_topic, []).append(plan)
    merged = {remote: _merged(each) if len(each) > 1 else each for remote, each in several.items()}
    by_topic = {plan.source_topic: plan for each in merged.values() for plan in each}
    return [by_topic[plan.source_topic] for plan in plans]


def _merged(plans: Sequence[RemoteTopicPlan]) -> list[RemoteTopicPlan]:
    ordered = sorted(plans, key=lambda plan: plan.source_topic)
    partitions = max(plan.partitions for plan in ordered)
    lead = next((plan for plan in ordered if plan.create is not None), None)
    extend = max((plan.extend for plan in ordered if plan.extend is not None), key=_size, default=None)
    first = lead or next((plan for plan in ordered if plan.extend is extend and extend is not None), ordered[0])
    said = _said(ordered, lead)
    return [
        replace(
            plan,
            create=replace(plan.create, partitions=partitions) if plan is lead and plan.create is not None else None,
            extend=extend if plan is first and lead is None else None,
            blocked=plan.blocked if lead is None else None,
            warnings=(*plan.warnings, *(said if plan is first else ())),
        )
        for plan in ordered
    ]


def _size(extension: Extension) -> int:
    return extension.to_partitions


def _said(plans: Sequence[RemoteTopicPlan], lead: RemoteTopicPlan | None) -> list[str]:
    """What a merge does not keep."""
    remote = plans[0].remote_topic
    counts = ", ".join(f"{plan.source_topic} ({plan.partitions})" for plan in plans)
    said = [f"{remote} takes several topics (partitions): {counts}; order is kept within each source partition alone"]
    if len({plan.partitions for plan in plans}) > 1:
        said.append(
            f"the topics of {remote} have different numbers of partitions: partition N goes to N, so records of one key"
            f" that come from two of them may be in two partitions"
        )
    for plan in plans:
        if lead is not None and lead.create is not None and plan.create is not None:
            ours, theirs = lead.create.configs, plan.create.configs
            differing = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
            if differing:
                said.append(
                    f"{remote} is created with the configs of {lead.source_topic}; {plan.source_topic} differs in"
                    f" {', '.join(differing)}"
                )
    return said
