"""Reads what one cluster says of topics, for ``plan``, ``compare`` and ``drift``. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Self

from mirror_ray.config.settings import ClusterSettings, FlowSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_info,
    protocol_error,
)
from mirror_ray.kafka.fetch import FetchParameters
from mirror_ray.kafka.last_batch import read_last_batches
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, OffsetAnswer, SizeAnswer
from mirror_ray.kafka.metadata import PartitionMetadata, TopicMetadata
from mirror_ray.kafka.partition_reader import fetch_at
from mirror_ray.kafka.state_topic import read_state
from mirror_ray.model.errors import KafkaProtocolError, MirrorError, reached
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import RecordBatch, iter_batches
from mirror_ray.state.schema import FlowStateRecords, decode, state_topic
from mirror_ray.topics.comparison import Aspect, PartitionFacts, SideFacts
from mirror_ray.topics.remote_topics import Configs


class ClusterReader:
    """One cluster, read with both kinds of clients; an asynchronous context manager."""

    def __init__(self, settings: ClusterSettings, client_id: str) -> None:
        self.settings = settings
        self.admin = ClusterAdmin(settings, client_id)
        self._cluster = ClusterConnections(settings, client_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.admin.close()
        await self._cluster.close()

    async def refresh(self) -> None:
        """Ask for the metadata of all topics."""
        await self._cluster.refresh()

    @property
    def cluster_id(self) -> str:
        """The id that its storage was formatted with."""
        return self._cluster.metadata.cluster_id

    @property
    def brokers(self) -> int:
        """The number of live brokers."""
        return len(self._cluster.metadata.brokers)

    @property
    def topics(self) -> list[str]:
        """Topics that our principal may describe."""
        return [name for name, topic in self._cluster.metadata.topics.items() if not topic.error_code]

    async def flow_state(self, flow: FlowSettings) -> FlowStateRecords:
        """What the flow's state topic on this cluster holds; nothing where there is none.

        Raises:
            MirrorError: It can't be read.
        """
        topic = state_topic(flow.name.source, route=flow.name.route)
        if topic not in self.topics:
            return FlowStateRecords()
        return decode(await asyncio.to_thread(read_state, self.settings, topic))

    async def read(self, names: Collection[str], *, sizes: bool = True) -> dict[str, SideFacts]:
        """Read partitions, offsets, configs and, with ``sizes``, bytes on disk of topics.

        Topics that don't exist are left out; what can't be read of a topic is in its ``problems``.
        """
        unlisted = [name for name in names if name not in self._cluster.metadata.topics]
        if unlisted:
            # A topic that we may not describe is left out of the list of all; asked for by name it is refused.
            await self._cluster.refresh(unlisted)
        known = {name: self._cluster.metadata.topics[name] for name in names}
        described = {name: topic for name, topic in known.items() if not topic.error_code}
        partitions = [TopicPartition(name, number) for name, topic in described.items() for number in topic.partitions]
        starts, ends, bytes_of, configs = await asyncio.gather(
            self._cluster.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted"),
            self._cluster.list_offsets(dict.fromkeys(partitions, LATEST), "read_uncommitted"),
            self._cluster.leader_sizes(partitions if sizes else ()),
            asyncio.to_thread(self.admin.try_describe_topic_configs, list(described)),
        )
        facts = {
            name: SideFacts(topic=name, problems={"topic": _problem("topic", topic.error_code)})
            for name, topic in known.items()
            if topic.error_code not in (0, UNKNOWN_TOPIC_OR_PARTITION)
        }
        for name, topic in described.items():
            keys = {number: TopicPartition(name, number) for number in topic.partitions}
            found = {
                number: (topic.partitions[number], starts[key], ends[key], bytes_of.get(key))
                for number, key in keys.items()
            }
            facts[name] = _facts(topic, found, configs.get(name))
        return facts

    async def offsets_since(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offsets with a record at or after these times, of partitions that have one and can be asked."""
        answers = await self._cluster.list_offsets(times_ms, "read_uncommitted")
        return {key: answer.offset for key, answer in answers.items() if not answer.error_code and answer.offset >= 0}

    async def last_producers(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Whose the batches before these log ends are: producer ids, of the partitions that can be read."""
        topics = self._cluster.metadata.topics
        ids = {partition: topics[partition.topic].topic_id for partition in ends}
        found = await read_last_batches(self._cluster, ids, ends)
        return {partition: batch.producer_id for partition, batch in found.batches.items()}

    async def read_at(self, partition: TopicPartition, offset: int, max_bytes: int) -> list[RecordBatch]:
        """Batches of a partition from an offset on: one whole, however large, and more up to ``max_bytes``.

        Raises:
            OSError, MirrorError: The partition can't be read.
        """
        metadata = self._cluster.metadata
        connection = await self._cluster.connect(metadata.leader(partition), "samples")
        parameters = FetchParameters(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            max_partition_bytes=max_bytes,
            read_committed=False,
            rack="",
        )
        ids = {partition: metadata.topics[partition.topic].topic_id}
        ((_, fetched),) = await fetch_at(connection, ids, {partition: offset}, parameters)
        if fetched.error_code:
            raise protocol_error(fetched.error_code, f"read {partition} from {offset}")
        return iter_batches(fetched.records)


async def refresh_all(readers: Iterable[ClusterReader]) -> None:
    """Ask several clusters for their metadata at once.

    Raises:
        ClusterUnreachableError: Some did not answer; the text names all of them.
    """
    reached(await asyncio.gather(*(reader.refresh() for reader in readers), return_exceptions=True))


def _facts(
    topic: TopicMetadata,
    partitions: Mapping[int, tuple[PartitionMetadata, OffsetAnswer, OffsetAnswer, SizeAnswer | None]],
    configs: Configs | MirrorError | None,
) -> SideFacts:
    """``partitions``: the metadata, start, end and size of each; None: its size was not asked for."""
    problems: dict[Aspect, str] = {}
    for _, start, end, size in partitions.values():
        if error_code := start.error_code or end.error_code:
            problems["offsets"] = _problem("offsets", error_code)
        if size is not None and size.error_code:
            problems["size"] = _problem("size", size.error_code)
    if isinstance(configs, MirrorError):
        problems["configs"] = _problem("configs", configs.code if isinstance(configs, KafkaProtocolError) else -1)
    return SideFacts(
        topic=topic.name,
        topic_id=topic.topic_id,
        partitions={
            number: PartitionFacts(
                leader=metadata.leader,
                replication_factor=len(metadata.replicas),
                start=None if start.error_code else start.offset,
                end=None if end.error_code else end.offset,
                size_bytes=None if size is None or size.error_code else size.size_bytes,
            )
            for number, (metadata, start, end, size) in sorted(partitions.items())
        },
        configs=None if isinstance(configs, MirrorError) else configs,
        problems=problems,
    )


def _problem(aspect: Aspect, error_code: int) -> str:
    """The right that is missing, or the broker's error."""
    if error_code not in (TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED):
        return error_info(error_code).name
    needed = {"topic": "DESCRIBE", "offsets": "DESCRIBE", "configs": "DESCRIBE_CONFIGS", "size": "DESCRIBE on CLUSTER"}
    return f"needs {needed[aspect]}"
