"""Compares a flow's topics on both clusters.

Drift is: a missing remote topic, one with another name than before, another number of partitions, a difference in
configs and ACLs that are synced, partitions that are not copied on, and records that others wrote. A topic is
``unknown`` where it is not known who wrote its records. Sizes, offsets and replication factors may differ: retention,
compression, lag and brokers are the clusters' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mirror_ray.model.filters import ConfigPropertyFilter
from mirror_ray.model.names import NO_TOPIC_ID, TopicId
from mirror_ray.model.topic_names import NamedBy
from mirror_ray.model.topics import ConfigSource, ConfigValue
from mirror_ray.topics.acl_comparison import AclPair
from mirror_ray.topics.config_sync import config_changes, may_differ
from mirror_ray.topics.remote_topics import Configs
from mirror_ray.verification.report import BatchHeaders

#: The parts of a topic that a cluster may refuse to describe.
Aspect = Literal["topic", "configs", "offsets", "size"]

#: ``differs`` is drift; ``excluded`` by ``config.properties.exclude``; ``allowed`` by ``sync.topic.configs.policy``;
#: ``own``: not set, or set by the brokers themselves; ``unsynced``: it would be drift if
#: ``sync.topic.configs.enabled`` were true.
ConfigVerdict = Literal["same", "differs", "excluded", "allowed", "own", "unsynced"]

#: ``extra``: a remote topic whose source topic the flow does not copy (any more). ``unknown``: not all was compared.
TopicState = Literal["equal", "differs", "extra", "unknown"]

_NOT_SET: frozenset[ConfigSource] = frozenset({"DEFAULT_CONFIG", "STATIC_BROKER_CONFIG"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition as its leader describes it. ``start`` and ``end`` are offsets; None: not known."""

    leader: int
    replication_factor: int
    start: int | None = None
    #: The high watermark.
    end: int | None = None
    #: Bytes of the leader's replica on disk.
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFacts:
    """A topic on one cluster. ``problems``: the parts that could not be read, and why."""

    topic: str
    topic_id: TopicId = NO_TOPIC_ID
    partitions: Mapping[int, PartitionFacts] = field(default_factory=dict)
    configs: Configs | None = None
    problems: Mapping[Aspect, str] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int | None:
        """The least replication factor of the partitions."""
        return min((partition.replication_factor for partition in self.partitions.values()), default=None)

    @property
    def size_bytes(self) -> int | None:
        """Bytes of all leading replicas; None: the size of one is not known."""
        return _sum(partition.size_bytes for partition in self.partitions.values())

    @property
    def offsets(self) -> int | None:
        """Ends less starts: the number of records, if neither compaction nor transactions left offset gaps."""
        return _sum(
            None if partition.start is None or partition.end is None else partition.end - partition.start
            for partition in self.partitions.values()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTopic:
    """A topic and its remote topic; ``source`` None: the flow does not copy it, ``remote`` None: it does not exist."""

    topic: str | None
    remote_topic: str
    source: SideFacts | None
    remote: SideFacts | None
    #: Why the running system does not copy the topic.
    reason: str | None = None
    #: The number of partitions of the largest topic of a merge, where the remote topic's configs may differ; None: no
    #: other topic is copied into the remote topic.
    most_partitions: int | None = None
    #: The origin of the remote topic's name, and the other topics that are copied into it.
    named_by: NamedBy = "policy"
    beside: tuple[str, ...] = ()
    #: The remote topic that it was copied into so far, by the flow's state; None: it was not, or that is not known.
    copied_into: str | None = None

    @property
    def name_before(self) -> str | None:
        """The remote topic so far, if it would be another one now; the flow does not copy the topic then."""
        return self.copied_into if self.copied_into != self.remote_topic else None

    @property
    def partitions(self) -> int:
        """The number of partitions that the remote topic should have."""
        if self.most_partitions is not None:
            return self.most_partitions
        return len(self.source.partitions) if self.source is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPair:
    """One config on both clusters; a value is None where the cluster's brokers don't know it."""

    key: str
    source: str | None
    remote: str | None
    source_from: ConfigSource | None
    remote_from: ConfigSource | None
    verdict: ConfigVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicComparison:
    """The comparison of a topic and its remote topic. ``drift`` has a sentence for each kind of drift."""

    pair: ComparedTopic
    state: TopicState
    drift: tuple[str, ...] = ()
    partitions_differ: bool = False
    #: Configs that are set on either cluster, or differ.
    configs: tuple[ConfigPair, ...] = ()
    acls: tuple[AclPair, ...] = ()
    #: By partition, how far it was copied, and what its remote partition has of others, from the headers of batches;
    #: empty: not known.
    headers: Mapping[int, BatchHeaders] = field(default_factory=dict)

    @property
    def partitions(self) -> list[int]:
        """The numbers of all partitions on either cluster."""
        sides = (self.pair.source, self.pair.remote)
        return sorted({number for side in sides if side is not None for number in side.partitions})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowComparison:
    """The comparison of a flow's topics."""

    topics: list[TopicComparison]
    #: ACLs of groups, and of topics that do not exist yet.
    other_acls: tuple[AclPair, ...] = ()
    #: Why ACLs are not compared; None: they are.
    acls_not_compared: str | None = None
    #: Sentences on what else is not known.
    notes: tuple[str, ...] = ()

    #: Whether it is known for all partitions who wrote the records of their remote partitions.
    headers_known: bool = True

    @property
    def drifted(self) -> bool:
        """Whether there is drift."""
        return any(topic.drift for topic in self.topics) or any(acl.drift for acl in self.other_acls)


def compare_topic(
    pair: ComparedTopic, configs: ConfigPropertyFilter, *, synced: bool, acls: tuple[AclPair, ...] = ()
) -> TopicComparison:
    """Compare a topic with its remote topic; ``synced``: the flow syncs configs. ``acls`` are compared already."""
    source, remote = pair.source, pair.remote
    if source is None:
        return TopicComparison(pair=pair, state="extra")
    if pair.name_before is not None:
        other = f"it was copied into {pair.name_before} so far, and would be into {pair.remote_topic} now"
        return TopicComparison(pair=pair, state="differs", drift=(other,))
    rights = tuple(acl.drift for acl in acls if acl.drift is not None)
    if remote is None:
        why = f": {pair.reason}" if pair.reason else ""
        missing = f"{pair.remote_topic} is missing{why}"
        return TopicComparison(pair=pair, state="differs", drift=(missing, *rights), acls=acls)
    if source.problems.get("topic") or remote.problems.get("topic"):
        return TopicComparison(pair=pair, state="differs" if rights else "unknown", drift=rights, acls=acls)
    drift: list[str] = []
    wanted = pair.partitions
    differ = wanted != len(remote.partitions)
    if differ:
        drift.append(f"{wanted} partitions on the source, {len(remote.partitions)} on the target")
    compared: tuple[ConfigPair, ...] = ()
    if source.configs is not None and remote.configs is not None and pair.most_partitions is None:
        compared = tuple(_compare_configs(source.configs, remote.configs, configs, synced=synced))
        drift += [
            f"{config.key}: {config.source} on the source, {config.remote} on the target"
            for config in compared
            if config.verdict == "differs"
        ]
    drift += rights
    complete = source.configs is not None and remote.configs is not None
    state: TopicState = "differs" if drift else "equal" if complete else "unknown"
    return TopicComparison(
        pair=pair, state=state, drift=tuple(drift), partitions_differ=differ, configs=compared, acls=acls
    )


def with_headers(topic: TopicComparison, headers: Iterable[BatchHeaders]) -> TopicComparison:
    """The comparison with what the headers of batches say of its partitions; records of others are drift."""
    every = list(headers)
    found = {headers.source.partition: headers for headers in every if headers.counted}
    drift = tuple(text for headers in every for text in headers.drift)
    state: TopicState = topic.state
    if drift:
        state = "differs"
    elif state == "equal" and any(headers.reason is not None for headers in every):
        state = "unknown"
    return replace(topic, headers=found, drift=(*topic.drift, *drift), state=state)


def _compare_configs(
    source: Configs, remote: Configs, configs: ConfigPropertyFilter, *, synced: bool
) -> Iterator[ConfigPair]:
    altered = {change.key for change in config_changes(source, remote, configs)}
    for key in sorted(source.keys() | remote.keys()):
        here, there = source.get(key), remote.get(key)
        verdict = _verdict(key, here, there, configs, altered=key in altered)
        if verdict == "differs" and not synced:
            verdict = "unsynced"
        if verdict != "same" or _is_set(here) or _is_set(there):
            yield ConfigPair(
                key=key,
                source=here.value if here else None,
                remote=there.value if there else None,
                source_from=here.source if here else None,
                remote_from=there.source if there else None,
                verdict=verdict,
            )


def _verdict(
    key: str, source: ConfigValue | None, remote: ConfigValue | None, configs: ConfigPropertyFilter, *, altered: bool
) -> ConfigVerdict:
    """``altered``: config sync would alter it."""
    if source is None or remote is None:
        return "own"
    if source.value == remote.value:
        return "same"
    if altered:
        return "differs"
    if may_differ(key, source, remote, configs):
        return "allowed"
    return "own" if configs.should_replicate_config_property(key) else "excluded"


def _is_set(config: ConfigValue | None) -> bool:
    return config is not None and config.source not in _NOT_SET


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
