"""A flow's topics on both sides: what differs, and what of it should not. Pure.

Counted as drift: a remote topic that is missing, or named otherwise than before, another number of partitions, configs
and ACLs that are kept as on the source, partitions that do not go on, and records that others wrote. Where whose they
are can't be told, a topic is ``unknown``. Sizes, offsets and replication factors may differ: retention, compression,
lag and the brokers are each side's.
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

#: What of a topic a cluster may not tell us.
Aspect = Literal["topic", "configs", "offsets", "size"]

#: ``differs`` counts; ``excluded`` by ``config.properties.exclude``; ``allowed`` by ``sync.topic.configs.policy``;
#: ``own``: set by nobody, or by the brokers themselves; ``unsynced``: it would be drift if
#: ``sync.topic.configs.enabled`` were true.
ConfigVerdict = Literal["same", "differs", "excluded", "allowed", "own", "unsynced"]

#: ``extra``: a remote topic whose source the flow does not copy (any more). ``unknown``: not all could be compared.
TopicState = Literal["equal", "differs", "extra", "unknown"]

_NOT_SET: frozenset[ConfigSource] = frozenset({"DEFAULT_CONFIG", "STATIC_BROKER_CONFIG"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition as its leader tells of it. ``start`` and ``end`` are offsets; None: not known."""

    leader: int
    replication_factor: int
    start: int | None = None
    #: The high watermark.
    end: int | None = None
    #: Of the leader's replica, on disk.
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFacts:
    """A topic on one cluster. ``problems``: what could not be read, and why."""

    topic: str
    topic_id: TopicId = NO_TOPIC_ID
    partitions: Mapping[int, PartitionFacts] = field(default_factory=dict)
    configs: Configs | None = None
    problems: Mapping[Aspect, str] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int | None:
        """Of the partition that has fewest replicas."""
        return min((each.replication_factor for each in self.partitions.values()), default=None)

    @property
    def size_bytes(self) -> int | None:
        """Of all leading replicas; None where one is not known."""
        return _sum(each.size_bytes for each in self.partitions.values())

    @property
    def offsets(self) -> int | None:
        """Ends less starts: the number of records, where neither compaction nor transactions leave holes."""
        return _sum(
            None if each.start is None or each.end is None else each.end - each.start
            for each in self.partitions.values()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTopic:
    """A topic and its remote topic; ``source`` None: the flow does not copy it, ``remote`` None: it does not exist."""

    topic: str | None
    remote_topic: str
    source: SideFacts | None
    remote: SideFacts | None
    #: What the running system says of the topic, where it does not copy it.
    reason: str | None = None
    #: The partitions of the largest one, where other topics are copied into the same remote topic, so that its configs
    #: are its own; None: it is alone.
    most_partitions: int | None = None
    #: What names the remote topic, and the other topics that are copied into it.
    named_by: NamedBy = "policy"
    beside: tuple[str, ...] = ()
    #: What it was copied into so far, by the flow's state; None: it was not, or that is not known.
    copied_into: str | None = None

    @property
    def name_before(self) -> str | None:
        """The remote topic so far, where it would be another one now: the flow does not copy the topic meanwhile."""
        return self.copied_into if self.copied_into != self.remote_topic else None

    @property
    def partitions(self) -> int:
        """How many the remote topic should have."""
        if self.most_partitions is not None:
            return self.most_partitions
        return len(self.source.partitions) if self.source is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPair:
    """One config on both sides; a value is None where that side's brokers don't know it."""

    key: str
    source: str | None
    remote: str | None
    source_from: ConfigSource | None
    remote_from: ConfigSource | None
    verdict: ConfigVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicComparison:
    """A topic side by side. ``drift`` holds a sentence for each thing that differs and should not."""

    pair: ComparedTopic
    state: TopicState
    drift: tuple[str, ...] = ()
    partitions_differ: bool = False
    #: Those that are set, on either side, or differ.
    configs: tuple[ConfigPair, ...] = ()
    acls: tuple[AclPair, ...] = ()
    #: By partition, how far it was copied, and what its remote partition holds that is not the flow's; empty: that is
    #: not known. Records are not read for it.
    headers: Mapping[int, BatchHeaders] = field(default_factory=dict)

    @property
    def partitions(self) -> list[int]:
        """Every number that there is on either side."""
        sides = (self.pair.source, self.pair.remote)
        return sorted({number for side in sides if side is not None for number in side.partitions})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowComparison:
    """All of a flow side by side."""

    topics: list[TopicComparison]
    #: Of groups, and of topics that do not exist yet.
    other_acls: tuple[AclPair, ...] = ()
    #: Why they are not.
    acls_not_compared: str | None = None
    #: What else is not known.
    notes: tuple[str, ...] = ()

    #: Whether it is known of all partitions whose records their remote partitions hold.
    headers_known: bool = True

    @property
    def drifted(self) -> bool:
        """Whether anything differs that should not."""
        return any(each.drift for each in self.topics) or any(each.drift for each in self.other_acls)


def compare_topic(
    pair: ComparedTopic, configs: ConfigPropertyFilter, *, synced: bool, acls: tuple[AclPair, ...] = ()
) -> TopicComparison:
    """Compare both sides of a topic; ``synced``: configs are to stay as on the source. ACLs are compared already."""
    source, remote = pair.source, pair.remote
    if source is None:
        return TopicComparison(pair=pair, state="extra")
    if pair.name_before is not None:
        other = f"it was copied into {pair.name_before} so far, and would be into {pair.remote_topic} now"
        return TopicComparison(pair=pair, state="differs", drift=(other,))
    rights = tuple(each.drift for each in acls if each.drift is not None)
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
            f"{each.key}: {each.source} on the source, {each.remote} on the target"
            for each in compared
            if each.verdict == "differs"
        ]
    drift += rights
    complete = source.configs is not None and remote.configs is not None
    state: TopicState = "differs" if drift else "equal" if complete else "unknown"
    return TopicComparison(
        pair=pair, state=state, drift=tuple(drift), partitions_differ=differ, configs=compared, acls=acls
    )


def with_headers(topic: TopicComparison, headers: Iterable[BatchHeaders]) -> TopicComparison:
    """With what is known of its partitions beside their records; what should not be so is drift."""
    every = list(headers)
    found = {each.source.partition: each for each in every if each.counted}
    drift = tuple(text for each in every for text in each.drift)
    state: TopicState = topic.state
    if drift:
        state = "differs"
    elif state == "equal" and any(each.reason is not None for each in every):
        state = "unknown"
    return replace(topic, headers=found, drift=(*topic.drift, *drift), state=state)


def _compare_configs(
    source: Configs, remote: Configs, configs: ConfigPropertyFilter, *, synced: bool
) -> Iterator[ConfigPair]:
    altered = {each.key for each in config_changes(source, remote, configs)}
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
    key: str,
    source: ConfigValue | None,
    remote: ConfigValue | None,
    configs: ConfigPropertyFilter,
    *,
    altered: bool,
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
