"""Checks of ``topics.map`` and ``topics.rename``, of one flow and of all flows together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.topic_merging import RemoteTopicClaim, claims_of, conflicts
from mirror_ray.model.filters import TopicFilter
from mirror_ray.model.names import FlowName
from mirror_ray.model.policy import load_policy
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.topic_names import Rename, illegal_name, reserved_name


def check_names(flow: FlowSettings, field_name: Callable[[str], str]) -> Iterator[str]:
    """Yield a sentence for each name, pattern or replacement of one flow that can't be used.

    Names are not checked where the filters or the policy can't be used: ``check_flow`` reports that.
    """
    if not (flow.topics.map or flow.topics.rename):
        return
    try:
        topics = TopicFilter(flow.topics.include, flow.topics.exclude)
        policy = load_policy(flow.policy, flow.name.source)
    except ValueError:
        return
    for pattern in flow.topics.rename:
        try:
            rename = Rename(pattern.match, pattern.to)
        except ValueError as error:
            yield f"{field_name('topics.rename')}: {error}"
            continue
        if rename.constant is not None and (why := reserved_name(policy, rename.constant)) is not None:
            yield f"{field_name('topics.rename')}: {pattern.match!r}: {why}"
    key = field_name("topics.map")
    dead_letters = flow.transforms.dead_letter_topic
    if dead_letters is not None and dead_letters in flow.topics.map.values():
        yield f"{key}: {dead_letters} is the flow's dead-letter topic: give the copy another name"
    for topic, remote in flow.topics.map.items():
        for why in (illegal_name(topic), illegal_name(remote) or reserved_name(policy, remote)):
            if why is not None:
                yield f"{key}: {topic}: {why}"
        if reserved_name(policy, topic) is not None:
            yield f"{key}: {topic} is an internal or a heartbeats topic, which keeps its name"
        elif flow.enabled and not topics.should_replicate_topic(topic):
            yield f"{key}: {topic} is not copied by {flow.name}: add it to topics, or take it out of topics.exclude"


def check_named_flows(flows: Sequence[FlowSettings], literals: Mapping[FlowName, Sequence[str]]) -> Iterator[str]:
    """Yield a sentence for each unintended merge of topics, and for each copy that would be copied back.

    ``flows``: the enabled ones. ``literals``: the topics that a flow's filter lists by plain names.
    """
    if not any(flow.topics.map or flow.topics.rename for flow in flows):
        return
    claims: list[RemoteTopicClaim] = []
    for flow in flows:
        rules = replication_rules(flow)
        listed = dict.fromkeys((*flow.topics.map, *literals[flow.name]))
        for topic in listed:
            if _is_named_copy(rules, topic):
                yield (
                    f"{flow.name}: topic {topic} would go back to {flow.name.target}: topics.map or topics.rename of a"
                    f" flow names copies so; give them another name, or take {topic} out of topics or topics.map"
                )
        claims += claims_of(rules, (topic for topic in listed if rules.should_replicate_topic(topic)))
        if any(rename.is_groups_alone for rename in rules.names_back.renames):
            yield (
                f"{flow.name.target}->{flow.name.source}: topics.rename: a replacement of groups alone tells no copy"
                f" from another topic, so that {flow.name} could copy nothing; add some text to it, or use topics.map"
            )
    for why in dict.fromkeys(conflicts(claims).values()):
        yield f"topics.map, topics.rename: {why}"


def check_long_ring(ring: Sequence[FlowSettings]) -> str | None:
    """Why a ring of flows is refused, None: it is not. Patterns hide a topic's origin beyond the previous cluster."""
    renaming = [str(flow.name) for flow in ring if flow.topics.rename]
    if len(ring) < 3 or not renaming:
        return None
    return (
        f"{' and '.join(str(flow.name) for flow in ring)} form a ring, and topics.rename of {', '.join(renaming)} hides"
        " where topics come from: name the topics one by one in topics.map, or disable one of the flows"
    )


def _is_named_copy(rules: ReplicationRules, topic: str) -> bool:
    """Whether the topic is a copy of one on the target by given names, and not by the policy."""
    return rules.is_cycle(topic) and rules.policy.topic_source(topic) != rules.flow.target
