"""What a cluster's topic names say of the clusters upstream of it: hops, sources, remote topics.

Source: ``org.apache.kafka.connect.mirror.MirrorClient`` of Kafka 4.3.0, which asks a cluster for its topics and then
decides by the same rules. Names alone count, not what the topics hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mirror_ray.model.policy import ReplicationPolicy

#: MM2's answer for a cluster that is not upstream.
UNREACHABLE = -1


def sources(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """Yield the clusters that a topic came through, the nearest first; each once, also where names go in circles."""
    seen: set[str] = set()
    current: str | None = topic
    while current is not None and (source := policy.topic_source(current)) is not None and source not in seen:
        seen.add(source)
        yield source
        current = policy.upstream_topic(current)


def topic_hops(policy: ReplicationPolicy, topic: str, upstream: str) -> int:
    """How many hops a topic has behind it from the cluster ``upstream``; -1 if it did not come from there."""
    return next((hops for hops, source in enumerate(sources(policy, topic), 1) if source == upstream), UNREACHABLE)


def replication_hops(policy: ReplicationPolicy, topics: Iterable[str], upstream: str) -> int:
    """The fewest hops that heartbeats take from the cluster ``upstream``: 2 for A in A->B->C; -1 if none come."""
    hops = (topic_hops(policy, topic, upstream) for topic in heartbeat_topics(policy, topics))
    return min((count for count in hops if count != UNREACHABLE), default=UNREACHABLE)


def heartbeat_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    """Those that hold heartbeats: emitted into this cluster, or copied from another one."""
    return {topic for topic in topics if policy.is_heartbeats_topic(topic)}


def checkpoint_topics(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    """Those that hold checkpoints."""
    return {topic for topic in topics if policy.is_checkpoints_topic(topic)}


def upstream_clusters(policy: ReplicationPolicy, topics: Iterable[str]) -> set[str]:
    """Every cluster that heartbeats come from, over any number of hops."""
    return {source for topic in heartbeat_topics(policy, topics) for source in sources(policy, topic)}


def remote_topics(policy: ReplicationPolicy, topics: Iterable[str], source: str | None = None) -> set[str]:
    """Copies of other clusters' topics; with ``source``, those that were copied directly from that cluster."""
    found = (topic for topic in topics if not policy.is_internal_topic(topic))
    named = ((topic, policy.topic_source(topic)) for topic in found)
    return {topic for topic, origin in named if origin is not None and source in (None, origin)}
