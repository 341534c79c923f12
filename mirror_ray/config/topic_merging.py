"""Whether source topics that would be copied into one remote topic are meant to be merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_ray.model.names import FlowName
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.topic_names import NamedBy

_SHOWN = 5

#: The origin of a remote topic's name, in words.
NAMED_BY: Final[dict[NamedBy, str]] = {
    "map": "topics.map",
    "rename": "topics.rename",
    "policy": "the replication policy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTopicClaim:
    """A source topic with the remote topic that it would be copied into."""

    flow: FlowName
    topic: str
    remote: str
    named_by: NamedBy
    #: Whether the flow declares the remote topic to be written by several.
    declared: bool


def claims_of(rules: ReplicationRules, topics: Iterable[str]) -> list[RemoteTopicClaim]:
    """The remote topics that a flow would write for source topics."""
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
    """Why these topics must not be merged into one remote topic; None: the merge is meant.

    It is meant if the map says so for each of them, if the remote topic is declared to be shared, or if policies alone
    give them the name (fan-in under one name).
    """
    if len(claims) < 2 or all(claim.named_by == "policy" for claim in claims):
        return None
    if all(claim.named_by == "map" or claim.declared for claim in claims):
        return None
    shown = [f"{claim.topic} ({claim.flow}, by {NAMED_BY[claim.named_by]})" for claim in claims[:_SHOWN]]
    more = f" and {len(claims) - _SHOWN} more" if len(claims) > _SHOWN else ""
    remote = claims[0].remote
    return (
        f"{', '.join(shown)}{more} would all be copied into {remote}: give them different names, or say that it is"
        f" meant, by naming {remote} in shared.remote.topics (topics.shared_remote)"
    )


def conflicts(claims: Iterable[RemoteTopicClaim]) -> dict[RemoteTopicClaim, str]:
    """Claims on a remote topic that others claim as well although the merge is not meant, with the reason."""
    by_target: dict[tuple[str, str], list[RemoteTopicClaim]] = {}
    for claim in claims:
        by_target.setdefault((claim.flow.target, claim.remote), []).append(claim)
    return {claim: why for several in by_target.values() if (why := conflict(several)) is not None for claim in several}
