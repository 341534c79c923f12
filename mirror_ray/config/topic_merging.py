"""Several source topics that are copied into one remote topic: whether it is meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_ray.model.names import FlowName
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.topic_names import NamedBy

_SHOWN = 5

#: What names a topic, in words.
NAMED_BY: Final[dict[NamedBy, str]] = {
    "map": "topics.map",
    "rename": "topics.rename",
    "policy": "the replication policy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTopicClaim:
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


def claims_of(rules: ReplicationRules, topics: Iterable[str]) -> list[RemoteTopicClaim]:
    """What a flow would write, for those of its source's topics."""
    return [
        RemoteTopicClaim(
            flow=rules.flow,
            topic=topic,
            remote=rules.remote_topic(topic),
            named_by=rules.named_by(topic),
            declared=rules.is_declared_shared(rules.remote_topic(topic)),
        )
        for topic in topics
    ]


def conflict(claims: Sequence[RemoteTopicClaim]) -> str | None:
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


def conflicts(claims: Iterable[RemoteTopicClaim]) -> dict[RemoteTopicClaim, str]:
    """Every claim that must not be carried out beside others, and why."""
    together: dict[tuple[str, str], list[RemoteTopicClaim]] = {}
    for claim in claims:
        together.setdefault(claim.target, []).append(claim)
    return {claim: why for several in together.values() if (why := conflict(several)) is not None for claim in several}
