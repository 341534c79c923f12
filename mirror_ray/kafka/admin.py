"""Administrative queries of one cluster. Blocking: asyncio callers wrap calls in ``asyncio.to_thread``.

Calls that change a cluster are in ``mirror_ray.kafka.topic_editor``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast, get_args

from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, Uuid
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType  # type: ignore[attr-defined]  # imported there, not re-exported by name
from confluent_kafka.admin import ConfigSource as ClientConfigSource  # type: ignore[attr-defined]

from mirror_ray.kafka.acls import AuthorizedOperations, authorized_operations
from mirror_ray.kafka.admin_connection import AdminConnection, chunks, error_code
from mirror_ray.kafka.blocking import run_blocking
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import MirrorError
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

#: An answer has some forty configs for each topic; while the client reads it, no other thread runs.
_CONFIGS_CHUNK: Final = 100


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
    """Queries of one cluster's topics; changes nothing. Keep one per cluster: its connections are kept."""

    def overview(self, timeout_s: float | None = None) -> ClusterOverview:
        """The cluster's metadata, by one request; ``timeout_s`` as for ``ping``."""
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
        """As ``describe_topic_configs``, with the error of a topic that is refused."""
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

    def would_create(self, topics: Sequence[NewRemoteTopic]) -> dict[str, MirrorError | None]:
        """Why the brokers would not create topics, each with its outcome; nothing is changed."""
        outcomes = self._create(topics, validate_only=True)
        return {name: None if error is not None and exists(error) else error for name, error in outcomes.items()}

    def would_extend(self, totals: Mapping[str, int]) -> dict[str, MirrorError | None]:
        """Why the brokers would not grow topics to these numbers of partitions; nothing is changed."""
        return self._extend(totals, validate_only=True)

    def _create(self, topics: Sequence[NewRemoteTopic], *, validate_only: bool) -> dict[str, MirrorError | None]:
        outcomes: dict[str, MirrorError | None] = {}
        if not topics:
            return outcomes
        brokers = self.overview().brokers
        for chunk in chunks(topics):
            requests = [_new_topic(topic, brokers) for topic in chunk]
            futures = self._call(self._client.create_topics, requests, validate_only=validate_only)
            outcomes.update(self._settle(futures, "create topic {}"))
        return outcomes

    def _extend(self, totals: Mapping[str, int], *, validate_only: bool) -> dict[str, MirrorError | None]:
        outcomes: dict[str, MirrorError | None] = {}
        for chunk in chunks(list(totals)):
            requests = [NewPartitions(name, totals[name]) for name in chunk]
            futures = self._call(self._client.create_partitions, requests, validate_only=validate_only)
            outcomes.update(self._settle(futures, "add partitions to topic {}"))
        return outcomes

    def log_bounds(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """First offset and high watermark of partitions; one whose leader does not answer is left out."""
        starts = self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._list_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {partition: (starts[partition], ends[partition]) for partition in starts if partition in ends}

    def authorized_operations(self, topics: Collection[str]) -> AuthorizedOperations:
        """What our principal may do on the cluster and on these topics, as ``acls.authorized_operations`` has it."""

        async def ask() -> AuthorizedOperations:
            cluster = ClusterConnections(self.cluster, self._client_id)
            try:
                return await authorized_operations(cluster, topics)
            finally:
                await cluster.close()

        return run_blocking(ask())

    def _list_offsets(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for chunk in chunks(partitions):
            requests = {ClientTopicPartition(of.topic, of.partition): spec for of in chunk}
            isolation = IsolationLevel.READ_UNCOMMITTED
            futures = self._call(self._client.list_offsets, requests, isolation_level=isolation)
            by_partition = {TopicPartition(of.topic, of.partition): future for of, future in futures.items()}
            for partition, answer in self._settle(by_partition, "list offsets of {}").items():
                if not isinstance(answer, MirrorError):
                    found[partition] = answer.offset
        return found


def exists(error: MirrorError) -> bool:
    """Whether a topic was not created because it exists."""
    return error_code(error) == KafkaError.TOPIC_ALREADY_EXISTS


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
