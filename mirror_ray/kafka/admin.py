"""Administrative requests to one cluster. Blocking: asyncio callers wrap calls in ``asyncio.to_thread``."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, Uuid
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # imported there, not re-exported by name
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.admin import ConfigSource as ClientConfigSource  # type: ignore[attr-defined]

from mirror_ray.kafka.admin_connection import AdminConnection, chunks, error_code
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition
from mirror_ray.model.topics import (
    REMOTE_TOPIC_REPLICATION_FACTOR,
    ConfigSource,
    ConfigValue,
    NewRemoteTopic,
    TopicSummary,
    effective_replication_factor,
)

__all__ = ["AuthorizedOperations", "ClusterAdmin", "ClusterOverview", "ConfigValue", "NewRemoteTopic", "TopicSummary"]

#: MM2's ``heartbeats.topic.replication.factor`` and its like.
INTERNAL_TOPIC_REPLICATION_FACTOR: Final = 3

#: An answer has some forty configs for each topic; while the client reads it, no other thread runs.
_CONFIGS_CHUNK: Final = 100
#: How long a change of metadata may take to reach the broker that we ask.
_PROPAGATION_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedOperations:
    """What the brokers let our principal do, by ``AclOperation`` name; None where they don't say."""

    cluster: frozenset[str] | None
    topics: Mapping[str, frozenset[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOverview:
    """A cluster at one moment."""

    #: As its storage was formatted with.
    cluster_id: str
    #: How many brokers live.
    brokers: int
    #: Every topic that our principal may DESCRIBE, without topic ids.
    topics: Mapping[str, TopicSummary]


class ClusterAdmin(AdminConnection):
    """Topics of one cluster, and what is in them. Cheap to keep, so keep one per cluster."""

    def overview(self, timeout_s: float | None = None) -> ClusterOverview:
        """What the cluster's metadata says, by one request; ``timeout_s`` as for ``ping``."""
        metadata = self._describe(timeout_s)
        return ClusterOverview(
            cluster_id=str(metadata.cluster_id),
            brokers=len(metadata.brokers),
            topics={
                name: TopicSummary(name=name, partitions=len(topic.partitions))
                for name, topic in metadata.topics.items()
                if topic.error is None
            },
        )

    def list_topics(self, timeout_s: float | None = None) -> Mapping[str, TopicSummary]:
        """Every topic that our principal may DESCRIBE, without topic ids; ``timeout_s`` as for ``ping``."""
        return self.overview(timeout_s).topics

    def describe_topics(self, names: Collection[str]) -> dict[str, TopicSummary | MirrorError]:
        """Topics with their ids; those that don't exist are left out, those that are refused are errors."""
        found: dict[str, TopicSummary | MirrorError] = {}
        for chunk in chunks(names):
            futures = self._call(self._client.describe_topics, TopicCollection(chunk))
            for name, answer in self._settle(futures, "describe topic {}").items():
                if isinstance(answer, MirrorError):
                    if error_code(answer) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        found[name] = answer
                    continue
                found[name] = TopicSummary(
                    name=name,
                    partitions=len(answer.partitions),
                    topic_id=_topic_id(answer.topic_id),
                    is_internal=answer.is_internal,
                )
        return found

    def describe_topic_configs(self, names: Collection[str]) -> dict[str, dict[str, ConfigValue]]:
        """All configs of topics, defaults included; topics that don't exist (any more) are left out.

        Raises:
            AdminError: DESCRIBE_CONFIGS is not granted on one of them.
        """
        found: dict[str, dict[str, ConfigValue]] = {}
        for name, answer in self.try_describe_topic_configs(names).items():
            if isinstance(answer, MirrorError):
                raise answer
            found[name] = answer
        return found

    def try_describe_topic_configs(self, names: Collection[str]) -> dict[str, dict[str, ConfigValue] | MirrorError]:
        """As describe_topic_configs, with a refused topic's error in its place."""
        found: dict[str, dict[str, ConfigValue] | MirrorError] = {}
        for chunk in chunks(names, _CONFIGS_CHUNK):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in chunk]
            futures = self._call(self._client.describe_configs, resources)
            by_name = {resource.name: future for resource, future in futures.items()}
            for name, answer in self._settle(by_name, "describe the configs of topic {}").items():
                if not isinstance(answer, MirrorError):
                    found[name] = {key: _config_value(entry) for key, entry in answer.items()}
                elif error_code(answer) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found[name] = answer
        return found

    def alter_topic_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[str, MirrorError | None]:
        """Set configs of topics, or with None take them away again, so that the brokers' default holds (KIP-339).

        What is not named stays. Of one topic all is done, or nothing; each has its outcome.
        """
        outcomes: dict[str, MirrorError | None] = {}
        for chunk in chunks(changes):
            resources = [_config_resource(name, changes[name]) for name in chunk]
            futures = self._call(self._client.incremental_alter_configs, resources, validate_only=validate_only)
            by_name = {resource.name: future for resource, future in futures.items()}
            outcomes.update(self._settle(by_name, "alter the configs of topic {}"))
        return outcomes

    def create_topics(
        self, topics: Sequence[NewRemoteTopic], *, validate_only: bool = False
    ) -> dict[str, MirrorError | None]:
        """Create topics, each with its outcome; a topic that exists already is no error and is left as it is.

        ``validate_only`` asks the brokers whether they would, and changes nothing.
        """
        outcomes: dict[str, MirrorError | None] = {}
        if not topics:
            return outcomes
        brokers = self.overview().brokers
        for chunk in chunks(topics):
            requests = [_new_topic(topic, brokers) for topic in chunk]
            futures = self._call(self._client.create_topics, requests, validate_only=validate_only)
            for name, answer in self._settle(futures, "create topic {}").items():
                exists = error_code(answer) == KafkaError.TOPIC_ALREADY_EXISTS
                outcomes[name] = answer if isinstance(answer, MirrorError) and not exists else None
        return outcomes

    def create_partitions(
        self, totals: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[str, MirrorError | None]:
        """Grow topics to these numbers of partitions; a topic that has as many already is no error.

        One that has more is left as it is, and is an error (INVALID_PARTITIONS).
        """
        outcomes: dict[str, MirrorError | None] = {}
        for chunk in chunks(list(totals)):
            requests = [NewPartitions(name, totals[name]) for name in chunk]
            futures = self._call(self._client.create_partitions, requests, validate_only=validate_only)
            outcomes.update(self._settle(futures, "add partitions to topic {}"))
        refused = [name for name, error in outcomes.items() if error_code(error) == KafkaError.INVALID_PARTITIONS]
        if refused:
            listed = self._wait_for_partitions({name: totals[name] for name in refused})
            outcomes.update({name: None for name in refused if listed.get(name) == totals[name]})
        return outcomes

    def ensure_compacted_topic(
        self, name: str, partitions: int, replication_factor: int | None, segment_bytes: int | None = None
    ) -> bool:
        """``ensure_internal_topic`` for a compacted one.

        Only what lies in closed segments is compacted: ``segment_bytes`` bounds what a busy topic holds.
        """
        sizes = {} if segment_bytes is None else {"segment.bytes": str(segment_bytes)}
        return self.ensure_internal_topic(name, partitions, replication_factor, {"cleanup.policy": "compact", **sizes})

    def ensure_internal_topic(
        self, name: str, partitions: int, replication_factor: int | None, configs: Mapping[str, str]
    ) -> bool:
        """Create a topic of ours where it is missing; answers whether it was created now.

        As in MM2, a refusal for want of rights passes when the topic is there already.

        Raises:
            AdminError: It is missing and can't be created.
        """
        cluster = self.overview()
        if name in cluster.topics:
            return False
        factor = effective_replication_factor(replication_factor, INTERNAL_TOPIC_REPLICATION_FACTOR, cluster.brokers)
        topic = NewRemoteTopic(name=name, partitions=partitions, replication_factor=factor, configs=dict(configs))
        error = self.create_topics([topic])[name]
        if error is not None:
            raise error
        self._wait_until_listed(name)
        return True

    def delete_topic(self, name: str) -> None:
        """Delete a topic of our own; one that is not there counts as deleted.

        Raises:
            MirrorError: It could not be deleted.
        """
        futures = self._call(self._client.delete_topics, [name])
        answer = self._settle(futures, "delete topic {}")[name]
        if isinstance(answer, MirrorError) and error_code(answer) != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise answer

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records of partitions below these offsets; those that are deleted already are no error.

        Raises:
            AdminError: DELETE is not granted on a topic, or it is compacted only and can't be deleted from.
        """
        for chunk in chunks(list(before)):
            requests = [ClientTopicPartition(each.topic, each.partition, before[each]) for each in chunk]
            futures = self._call(self._client.delete_records, requests)
            by_name = {f"{each.topic}-{each.partition}": future for each, future in futures.items()}
            for answer in self._settle(by_name, "delete the records of {}").values():
                if isinstance(answer, MirrorError):
                    raise answer

    def log_bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """First offset and high watermark of partitions; one that can't be asked now is left out."""
        starts = self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._list_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: (starts[partition], ends[partition]) for partition in starts if partition in ends}

    def authorized_operations(self, topics: Collection[str]) -> AuthorizedOperations:
        """What our principal may do on the cluster and on these topics, as its brokers say (KIP-430).

        A topic that does not exist is left out; on one that we may not even describe, nothing is granted.
        """
        described = self._call(self._client.describe_cluster, include_authorized_operations=True)
        cluster = self._settle({"": described}, "describe the cluster{}")[""]
        if isinstance(cluster, MirrorError):
            raise cluster
        granted: dict[str, frozenset[str] | None] = {}
        for chunk in chunks(topics):
            collection = TopicCollection(chunk)
            futures = self._call(self._client.describe_topics, collection, include_authorized_operations=True)
            for name, answer in self._settle(futures, "describe topic {}").items():
                if not isinstance(answer, MirrorError):
                    granted[name] = _operations(answer.authorized_operations)
                elif error_code(answer) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    granted[name] = frozenset()
        return AuthorizedOperations(cluster=_operations(cluster.authorized_operations), topics=granted)

    def _list_offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for chunk in chunks(partitions):
            requests = {ClientTopicPartition(each.topic, each.partition): spec for each in chunk}
            isolation = IsolationLevel.READ_UNCOMMITTED
            futures = self._call(self._client.list_offsets, requests, isolation_level=isolation)
            by_partition = {TopicPartition(each.topic, each.partition): future for each, future in futures.items()}
            for partition, answer in self._settle(by_partition, "list offsets of {}").items():
                if not isinstance(answer, MirrorError):
                    found[partition] = answer.offset
        return found

    def _wait_until_listed(self, name: str) -> None:
        """A topic that was created may be unknown to the other brokers for a moment."""
        deadline = time.monotonic() + self._timeout_s
        while name not in self.list_topics():
            if time.monotonic() > deadline:
                raise ClusterUnreachableError(
                    f"cluster {self.cluster.alias} created topic {name} but does not list it: check its controller"
                )
            time.sleep(0.02)

    def _wait_for_partitions(self, totals: Mapping[str, int]) -> dict[str, int]:
        """Numbers of partitions once each is at least its total, or as they are when that takes too long."""
        deadline = time.monotonic() + _PROPAGATION_S
        while True:
            listed = {name: topic.partitions for name, topic in self.list_topics().items() if name in totals}
            behind = [name for name, number in listed.items() if number < totals[name]]
            if not behind or time.monotonic() > deadline:
                return listed
            time.sleep(0.02)


def _config_resource(topic: str, configs: Mapping[str, str | None]) -> ConfigResource:
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in configs.items()
    ]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)


def _new_topic(topic: NewRemoteTopic, brokers: int) -> NewTopic:
    factor = effective_replication_factor(topic.replication_factor, REMOTE_TOPIC_REPLICATION_FACTOR, brokers)
    return NewTopic(topic.name, num_partitions=topic.partitions, replication_factor=factor, config=dict(topic.configs))


def _topic_id(uuid: Uuid) -> TopicId:
    """As Kafka prints it: URL-safe base64; librdkafka uses the other alphabet."""
    text = str(uuid)
    return NO_TOPIC_ID if not text.strip("A") else TopicId(text.translate(str.maketrans("+/", "-_")))


def _config_value(entry: ConfigEntry) -> ConfigValue:
    name = ClientConfigSource(entry.source).name
    source = cast(ConfigSource, name if name in get_args(ConfigSource) else "UNKNOWN")
    return ConfigValue(value=entry.value, source=source, read_only=entry.is_read_only, sensitive=entry.is_sensitive)


def _operations(granted: Collection[Any] | None) -> frozenset[str] | None:
    return None if granted is None else frozenset(operation.name for operation in granted)
