"""Which remote topics must be created or extended, and with which configs.

Source: ``org.apache.kafka.connect.mirror.MirrorSourceConnector`` (computeAndCreateTopicPartitions, targetConfig).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirror_ray.model.filters import ConfigPropertyFilter
from mirror_ray.model.names import FlowName
from mirror_ray.model.topics import DEFAULT_MAX_MESSAGE_BYTES, ConfigValue, NewRemoteTopic

Configs = Mapping[str, ConfigValue]

_NO_TIMESTAMP_LIMIT_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic on one cluster. ``configs`` is None if we may not read them."""

    name: str
    partitions: int
    configs: Configs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Partitions to be added to a remote topic, so that it has as many as its source."""

    topic: str
    from_partitions: int
    to_partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTopicPlan:
    """What one source topic needs on the target: at most one of ``create``, ``extend`` and ``blocked`` is set."""

    source_topic: str
    remote_topic: str
    partitions: int
    create: NewRemoteTopic | None = None
    extend: Extension | None = None
    #: Why nothing can be created although something is missing.
    blocked: str | None = None
    #: Sentences on what will differ between target and source.
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRemote:
    """A remote topic that more than one source topic is copied into."""

    target: str
    remote_topic: str
    #: The flows and their topics, in the order of the configuration.
    sources: tuple[tuple[FlowName, str], ...]

    def __str__(self) -> str:
        writers = " and ".join(f"{flow} (topic {topic})" for flow, topic in self.sources)
        return (
            f"remote topic {self.remote_topic} on cluster {self.target} is shared: {writers} write to it; to keep them "
            f"apart give them names in topics.map, choose another replication policy, or exclude all but one"
        )


def plan_remote_topic(
    source: TopicFacts,
    target: TopicFacts | None,
    remote_name: str,
    *,
    replication_factor: int | None,
    configs: ConfigPropertyFilter,
    alone: bool = True,
) -> RemoteTopicPlan:
    """Compare a source topic with its remote topic (None: it does not exist yet).

    ``alone``: no other topic is copied into it, of which it could have more partitions. A remote topic is never shrunk,
    deleted, or created with configs that could not be read.
    """
    if target is None:
        return _plan_creation(source, remote_name, replication_factor, configs)
    extend = None
    if target.partitions < source.partitions:
        extend = Extension(topic=remote_name, from_partitions=target.partitions, to_partitions=source.partitions)
    warnings = (tuple(_partition_warnings(source, target)) if alone else ()) + tuple(_config_warnings(source, target))
    return RemoteTopicPlan(
        source_topic=source.name,
        remote_topic=remote_name,
        partitions=source.partitions,
        extend=extend,
        warnings=warnings,
    )


def _plan_creation(
    source: TopicFacts, remote_name: str, replication_factor: int | None, configs: ConfigPropertyFilter
) -> RemoteTopicPlan:
    if source.configs is None:
        return RemoteTopicPlan(
            source_topic=source.name,
            remote_topic=remote_name,
            partitions=source.partitions,
            blocked=(
                f"remote topic {remote_name} is not created because the configs of {source.name} can't be read: grant "
                f"DESCRIBE_CONFIGS on it, or create {remote_name} by hand"
            ),
        )
    carried = remote_configs(source.configs, configs)
    create = NewRemoteTopic(
        name=remote_name, partitions=source.partitions, replication_factor=replication_factor, configs=carried
    )
    return RemoteTopicPlan(
        source_topic=source.name,
        remote_topic=remote_name,
        partitions=source.partitions,
        create=create,
        warnings=tuple(_creation_warnings(source, carried)),
    )


def remote_configs(source: Configs, configs: ConfigPropertyFilter) -> dict[str, str]:
    """The configs that a remote topic is created with.

    What is set on the source, on the topic or dynamically on its brokers; what the source only defaults to where
    ``use.defaults.from=source``; never what is excluded, read-only, sensitive or from a broker's own file.
    """
    return {
        key: config.value
        for key, config in sorted(source.items())
        if config.value is not None
        and not (config.read_only or config.sensitive)
        and config.source != "STATIC_BROKER_CONFIG"
        and (not config.is_default or configs.should_replicate_source_default(key))
        and configs.should_replicate_config_property(key)
    }


def find_shared(remote_names: Iterable[tuple[FlowName, str, str]]) -> tuple[SharedRemote, ...]:
    """Remote topics that several source topics are copied into, from (flow, source topic, remote topic)."""
    writers: dict[tuple[str, str], list[tuple[FlowName, str]]] = {}
    for flow, topic, remote in remote_names:
        writers.setdefault((flow.target, remote), []).append((flow, topic))
    return tuple(
        SharedRemote(target=target, remote_topic=remote, sources=tuple(sources))
        for (target, remote), sources in sorted(writers.items(), key=lambda item: item[0])
        if len(sources) > 1
    )


def _partition_warnings(source: TopicFacts, target: TopicFacts) -> Iterator[str]:
    if target.partitions > source.partitions:
        yield (
            f"{target.name} has {target.partitions} partitions, its source {source.name} has {source.partitions}: "
            f"records keep their partition, the others stay empty"
        )


def _config_warnings(source: TopicFacts, target: TopicFacts) -> Iterator[str]:
    if target.configs is None:
        yield f"the configs of {target.name} can't be read (DESCRIBE_CONFIGS): what they change is not known"
        return
    if _value(target, "message.timestamp.type") == "LogAppendTime":
        yield (
            f"{target.name} has message.timestamp.type=LogAppendTime: records get the time of copying instead of their "
            f"own; set CreateTime to keep theirs"
        )
    limit_ms = _number(target, "message.timestamp.before.max.ms", _NO_TIMESTAMP_LIMIT_MS)
    if limit_ms < _number(source, "message.timestamp.before.max.ms", _NO_TIMESTAMP_LIMIT_MS):
        yield (
            f"{target.name} has message.timestamp.before.max.ms={limit_ms}, less than its source: it refuses older "
            f"records, and their partitions stop"
        )
    if "compact" in _value(target, "cleanup.policy") and "compact" not in _value(source, "cleanup.policy"):
        yield (
            f"{target.name} is compacted and its source is not: a record without a key stops its partition, and older "
            f"values of a key vanish"
        )
    size, limit = (_number(topic, "max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES) for topic in (source, target))
    if size > limit:
        yield _size_warning(source, target.name, size, limit)


def _creation_warnings(source: TopicFacts, carried: Mapping[str, str]) -> Iterator[str]:
    size = _number(source, "max.message.bytes", DEFAULT_MAX_MESSAGE_BYTES)
    if size > DEFAULT_MAX_MESSAGE_BYTES and "max.message.bytes" not in carried:
        yield _size_warning(source, "the remote topic, unless the target's brokers are set so", size, None)


def _size_warning(source: TopicFacts, remote: str, size: int, limit: int | None) -> str:
    at_most = DEFAULT_MAX_MESSAGE_BYTES if limit is None else limit
    return (
        f"{source.name} takes batches of max.message.bytes={size}, {remote} {at_most}: larger batches are split, a "
        f"single larger record stops its partition"
    )


def _value(topic: TopicFacts, key: str) -> str:
    config = (topic.configs or {}).get(key)
    return (config.value or "") if config is not None else ""


def _number(topic: TopicFacts, key: str, default: int) -> int:
    text = _value(topic, key)
    return int(text) if text else default


def merge_plans(plans: Sequence[RemoteTopicPlan]) -> list[RemoteTopicPlan]:
    """The plans of all topics, in which a merged remote topic is created or extended once.

    It gets the partitions of its largest source topic, and the configs of the first one by name whose configs can be
    read.
    """
    several: dict[str, list[RemoteTopicPlan]] = {}
    for plan in plans:
        several.setdefault(plan.remote_topic, []).append(plan)
    merged = [_merged(together) if len(together) > 1 else together for together in several.values()]
    by_topic = {plan.source_topic: plan for together in merged for plan in together}
    return [by_topic[plan.source_topic] for plan in plans]


def _merged(plans: Sequence[RemoteTopicPlan]) -> list[RemoteTopicPlan]:
    ordered = sorted(plans, key=lambda plan: plan.source_topic)
    partitions = max(plan.partitions for plan in ordered)
    lead = next((plan for plan in ordered if plan.create is not None), None)
    extend = max((plan.extend for plan in ordered if plan.extend is not None), key=_size, default=None)
    first = lead or next((plan for plan in ordered if plan.extend is extend and extend is not None), ordered[0])
    warnings = _merge_warnings(ordered, lead)
    return [
        replace(
            plan,
            create=replace(plan.create, partitions=partitions) if plan is lead and plan.create is not None else None,
            extend=extend if plan is first and lead is None else None,
            blocked=plan.blocked if lead is None else None,
            warnings=(*plan.warnings, *(warnings if plan is first else ())),
        )
        for plan in ordered
    ]


def _size(extension: Extension) -> int:
    return extension.to_partitions


def _merge_warnings(plans: Sequence[RemoteTopicPlan], lead: RemoteTopicPlan | None) -> list[str]:
    """Sentences on what a merge does not preserve."""
    remote = plans[0].remote_topic
    counts = ", ".join(f"{plan.source_topic} ({plan.partitions})" for plan in plans)
    warnings = [
        f"{remote} takes several topics (partitions): {counts}; order is kept within each source partition alone"
    ]
    if len({plan.partitions for plan in plans}) > 1:
        warnings.append(
            f"the topics of {remote} have different numbers of partitions: partition N goes to N, so records of one key"
            f" that come from two of them may be in two partitions"
        )
    for plan in plans:
        if lead is not None and lead.create is not None and plan.create is not None:
            ours, theirs = lead.create.configs, plan.create.configs
            differing = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
            if differing:
                warnings.append(
                    f"{remote} is created with the configs of {lead.source_topic}; {plan.source_topic} differs in"
                    f" {', '.join(differing)}"
                )
    return warnings
