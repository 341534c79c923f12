"""Several source topics that are copied into one remote topic: whether it is meant, and what becomes of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror_ray.model.names import FlowName
from mirror_ray.model.naming import NamedBy
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.topics.remote import Extension, RemoteTopicPlan

_SHOWN = 5

#: What names a topic, in words.
NAMED_BY: Final[dict[NamedBy, str]] = {
    "map": "topics.map",
    "rename": "topics.rename",
    "policy": "the replication policy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A source topic, and the remote topic that it would be copied into."""

    flow: FlowName
    topic: str
    remote: str
    named_by: NamedBy
    #: Whether the flow declares the remote topic to be written by several.
    declared: bool

    @property
    def target(self) -> tuple[str, str]:
        """The target's alias, and the remote topic."""
        return self.flow.target, self.remote


def claims_of(rules: ReplicationRules, topics: Iterable[str]) -> list[Claim]:
    """What a flow would write, for those of its source's topics."""
    return [
        Claim(
            flow=rules.flow,
            topic=topic,
            remote=rules.remote_topic(topic),
            named_by=rules.named_by(topic),
            declared=rules.is_declared_shared(rules.remote_topic(topic)),
        )
        for topic in topics
    ]


def conflict(claims: Sequence[Claim]) -> str | None:
    """Why these must not be copied into one remote topic together; None: it is meant.

    It is meant where the map puts them there, where the remote topic is declared to be shared, and where policies alone
    name them so (fan-in under one name).
    """
    if len(claims) < 2 or all(each.named_by == "policy" for each in claims):
        return None
    if all(each.named_by == "map" or each.declared for each in claims):
        return None
    shown = [f"{each.topic} ({each.flow}, by {NAMED_BY[each.named_by]})" for each in claims[:_SHOWN]]
    more = f" and {len(claims) - _SHOWN} more" if len(claims) > _SHOWN else ""
    remote = claims[0].remote
    return (
        f"{', '.join(shown)}{more} would all be copied into {remote}: give them different names, or say that it is"
        f" meant, by naming {remote} in shared.remote.topics (topics.shared_remote)"
    )


def conflicts(claims: Iterable[Claim]) -> dict[Claim, str]:
    """Every claim that must not be carried out beside others, and why."""
    together: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        together.setdefault(claim.target, []).append(claim)
    return {claim: why for several in together.values() if (why := conflict(several)) is not None for claim in several}


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
