"""Which topics a flow copies, what their copies are named, and which topics are copies.

Source: ``org.apache.kafka.connect.mirror.MirrorSourceConnector`` (shouldReplicateTopic, isCycle). A name that a flow's
map or rename patterns give, or might give, counts as that flow's copy, as ``A.orders`` counts as one of A's for MM2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirror_ray.model.filters import TopicFilter
from mirror_ray.model.names import FlowName
from mirror_ray.model.patterns import Pattern
from mirror_ray.model.policy import ReplicationPolicy
from mirror_ray.model.topic_names import NO_NAMES, FlowNames, NamedBy, TopicNames, illegal_name, reserved_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationRules:
    """MM2's rule for which topics a flow copies, and which topics on the target are its copies."""

    flow: FlowName
    policy: ReplicationPolicy
    topic_filter: TopicFilter
    heartbeats_replication_enabled: bool = True
    #: The flow's own map and patterns, and those of every flow, this one too.
    names: TopicNames = NO_NAMES
    all_names: tuple[FlowNames, ...] = ()
    #: Remote topics that are declared to be written by several.
    shared_remote: Pattern | None = None
    #: Topics of the source whose offsets are preserved.
    preserved: Pattern | None = None
    #: Of a route, the topics that are routed; None: it is none.
    routed: Pattern | None = None

    def should_replicate_topic(self, topic: str) -> bool:
        """(let through by the filter, or heartbeats), and not internal, and not a copy that came from the target."""
        if self.routed is not None and not self.routed.fits(topic):
            return False
        wanted = self.topic_filter.should_replicate_topic(topic) or (
            self.heartbeats_replication_enabled and self.policy.is_heartbeats_topic(topic)
        )
        return wanted and not self.policy.is_internal_topic(topic) and not self.is_cycle(topic)

    def is_cycle(self, topic: str) -> bool:
        """Whether the topic has passed through the target already, as far as its name tells."""
        seen: set[tuple[str, str]] = set()
        ahead = [(self.flow.source, topic)]
        while ahead:
            here = ahead.pop()
            if here in seen:
                continue
            seen.add(here)
            for source, upstream in self._came_from(*here):
                if source == self.flow.target:
                    return True
                if upstream is not None:
                    ahead.append((source, upstream))
        return False

    def named_by(self, topic: str) -> NamedBy:
        """What names the topic's copy. Heartbeats are the policy's: their names tell the clusters apart."""
        return "policy" if self.policy.is_heartbeats_topic(topic) else self.names.named_by(topic)

    def remote_topic(self, topic: str) -> str:
        """The name on the target of one of the source's topics."""
        named = None if self.policy.is_heartbeats_topic(topic) else self.names.of(topic)
        return self.policy.format_remote_topic(self.flow.source, topic) if named is None else named

    def is_declared_shared(self, remote: str) -> bool:
        """Whether the remote topic is declared to be written by several."""
        return self.shared_remote is not None and self.shared_remote.fits(remote)

    def preserves_offsets(self, topic: str) -> bool:
        """Whether a topic's records have the same offsets on the target; never heartbeats, which nobody moves with."""
        return self.preserved is not None and self.preserved.fits(topic) and not self.policy.is_heartbeats_topic(topic)

    def merges(self, remote: str) -> bool:
        """Whether several topics of this flow may be copied into the remote topic, by what the configuration says."""
        if not self.names or self.policy.is_heartbeats_topic(remote):
            return False
        return len(self.names.mapped_from(remote)) > 1 or self.is_declared_shared(remote)

    def name_refusal(self, topic: str) -> str | None:
        """Why nothing can be copied into the topic of the name that the map or a pattern gives; None: it can be."""
        if self.named_by(topic) == "policy":
            return None
        remote = self.remote_topic(topic)
        why = illegal_name(remote) or reserved_name(self.policy, remote)
        return f"{why}; give {topic} another name in topics.map" if why is not None else None

    def is_remote_topic(self, topic: str) -> bool:
        """Whether a topic on the target is known as a copy from this flow's source."""
        source = self.flow.source
        if self.routed is not None:
            return self.names.may_give(topic)
        by_policy = self.policy.topic_source(topic) == source and topic != self.policy.checkpoints_topic(source)
        return by_policy or (self.names.may_give(topic) and not self.policy.is_heartbeats_topic(topic))

    def is_from_target(self, topic: str) -> bool:
        """Whether a topic on the source is a copy of one on the target."""
        return any(source == self.flow.target for source, _ in self._came_from(self.flow.source, topic))

    def originals(self, topic: str, on_target: Iterable[str]) -> tuple[str, ...]:
        """The topics on the target that a topic on the source is a copy of; several where they are merged into it.

        ``on_target``: those that there are; a name that a pattern gave is found among them alone.
        """
        back = self.names_back
        if back and not self.policy.is_heartbeats_topic(topic):
            named = dict.fromkeys(back.mapped_from(topic))
            if back.may_rename_to(topic):
                named |= dict.fromkeys(name for name in sorted(on_target) if back.of(name) == topic)
            if named:
                return tuple(named)
        upstream = self.policy.upstream_topic(topic) if self.policy.topic_source(topic) == self.flow.target else None
        if upstream is None or upstream == topic or back.of(upstream) is not None:
            return ()
        return (upstream,)

    def copy_on_source(self, topic: str) -> str:
        """The name on the source of one of the target's own topics, by the flow back."""
        named = None if self.policy.is_heartbeats_topic(topic) else self.names_back.of(topic)
        return self.policy.format_remote_topic(self.flow.target, topic) if named is None else named

    @property
    def names_back(self) -> TopicNames:
        """The names that the flow back gives."""
        return next(self._names_between(self.flow.target, self.flow.source, of_route=False), NO_NAMES)

    def is_routed_to(self, remote: str) -> bool:
        """Whether a topic on the target gets records of this flow by a route beside it, or by another route."""
        routes = self._names_between(self.flow.source, self.flow.target, of_route=True)
        return remote != self.flow.route and any(names.may_give(remote) for names in routes)

    def _names_between(self, source: str, target: str, *, of_route: bool) -> Iterator[TopicNames]:
        ends = source, target, of_route
        return (flow.names for flow in self.all_names if (flow.source, flow.target, flow.of_route) == ends)

    def _came_from(self, cluster: str, topic: str) -> Iterator[tuple[str, str | None]]:
        """Clusters that a topic on ``cluster`` may have come from, and its name there; None: it is unknown."""
        source = self.policy.topic_source(topic)
        if source is not None:
            yield source, self.policy.upstream_topic(topic)
        if not self.all_names or self.policy.is_heartbeats_topic(topic):
            return
        for flow in self.all_names:
            if flow.target == cluster:
                for upstream in flow.names.mapped_from(topic):
                    yield flow.source, upstream
                if flow.names.may_rename_to(topic):
                    yield flow.source, None
