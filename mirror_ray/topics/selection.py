"""A flow's filters and policy, made from its settings."""

from __future__ import annotations

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.filters import ConfigPropertyFilter, ReplicationRules, TopicFilter
from mirror_ray.model.policy import load_policy


def replication_rules(flow: FlowSettings) -> ReplicationRules:
    """Which topics the flow copies, and their names on the target.

    Raises:
        ValueError: A pattern or the policy can't be used; ``validate`` tells it earlier.
    """
    return ReplicationRules(
        flow=flow.name,
        policy=load_policy(flow.policy, flow.name.source),
        topic_filter=TopicFilter(flow.topics.include, flow.topics.exclude),
        heartbeats_replication_enabled=flow.heartbeats.replication_enabled,
    )


def config_filter(flow: FlowSettings) -> ConfigPropertyFilter:
    """Which configs a remote topic takes over.

    Raises:
        ValueError: A pattern can't be used; ``validate`` tells it earlier.
    """
    return ConfigPropertyFilter(flow.topics.config_properties_exclude, flow.topics.use_defaults_from)
