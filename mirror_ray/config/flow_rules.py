"""The filters and replication rules of a flow, made from its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror_ray.config.settings import FlowSettings, RenamePattern
from mirror_ray.model.filters import ConfigPropertyFilter, TopicFilter
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.model.policy import load_policy
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.topic_names import FlowNames, Rename, TopicNames


def replication_rules(flow: FlowSettings) -> ReplicationRules:
    """Rules for which topics the flow copies, and their names on the target.

    Raises:
        ValueError: A pattern or the policy can't be used; ``check_flow`` reports it earlier.
    """
    return ReplicationRules(
        flow=flow.name,
        policy=load_policy(flow.policy, flow.name.source),
        topic_filter=TopicFilter(flow.topics.include, flow.topics.exclude),
        heartbeats_replication_enabled=flow.heartbeats.replication_enabled,
        names=topic_names(flow.topics.map, flow.topics.rename),
        all_names=tuple(
            FlowNames(
                names.flow.source,
                names.flow.target,
                topic_names(names.map, names.rename),
                of_route=bool(names.flow.route),
            )
            for names in flow.all_names
        ),
        shared_remote=compile_patterns(flow.topics.shared_remote),
        preserved=compile_patterns(flow.offsets.topics) if flow.preserves_offsets else None,
        routed=compile_patterns(flow.route.topics) if flow.route is not None else None,
    )


def topic_names(mapped: Mapping[str, str], renames: Iterable[RenamePattern]) -> TopicNames:
    """A flow's map and rename patterns.

    Raises:
        ValueError: A pattern can't be used; ``check_flow`` reports it earlier.
    """
    return TopicNames(mapped, [Rename(rename.match, rename.to) for rename in renames])


def config_filter(flow: FlowSettings) -> ConfigPropertyFilter:
    """The filter of the configs that remote topics get from their sources.

    Raises:
        ValueError: A pattern can't be used; ``check_flow`` reports it earlier.
    """
    topics = flow.topics
    return ConfigPropertyFilter(topics.config_properties_exclude, topics.use_defaults_from, topics.sync_configs_policy)
