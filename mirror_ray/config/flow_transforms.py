"""What a flow's records go through: where they are from is told first, if that is asked for, then the user's own."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.policy import ReplicationPolicy, load_policy
from mirror_ray.transforms.chain import NamedTransform
from mirror_ray.transforms.loading import TransformChains
from mirror_ray.transforms.provenance import Provenance

#: The ids of source and target, once records are there to be copied.
ClusterIds = Callable[[], tuple[str, str]]


def flow_chains(flow: FlowSettings, cluster_ids: ClusterIds) -> TransformChains:
    """The chains of a flow's topics. Heartbeats stay as they are, though a pattern of all topics matches theirs.

    Raises:
        ValueError: A transform can't be loaded; the text says what to do.
    """
    policy, most = load_policy(flow.policy, flow.name.source), flow.provenance.max_hops
    if not flow.provenance.enabled:
        return TransformChains(flow.transforms.steps, exempt=policy.is_heartbeats_topic, destination=flow.name.route)
    step = NamedTransform("provenance", Provenance(cluster_ids, most, lambda topic: names_of(policy, topic)))
    return TransformChains(
        flow.transforms.steps, lambda _: (step, f"hops {most}"), policy.is_heartbeats_topic, flow.name.route
    )


def names_of(policy: ReplicationPolicy, topic: str) -> Collection[str]:
    """A topic's own name, and those that it may have on the clusters that it came from."""
    names = {topic}
    while (upstream := policy.upstream_topic(topic)) is not None and upstream not in names:
        names.add(upstream)
        topic = upstream
    return names
