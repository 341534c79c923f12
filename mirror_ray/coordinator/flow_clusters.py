"""Kafka as one flow sees it: raw clusters for discovery, admin and state store in threads of the flow's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar, get_args

from mirror_ray.config.flow_rules import config_filter, replication_rules
from mirror_ray.config.internal_topics import InternalTopic, offset_topics
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator.ports import ClusterTopics, Codec, TargetLimits
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import LEADER_NOT_AVAILABLE
from mirror_ray.kafka.handshake import UNSUPPORTED_VERSION
from mirror_ray.kafka.last_batch import read_last_batches
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST
from mirror_ray.kafka.metadata import ClusterMetadata
from mirror_ray.kafka.offset_prefix import OffsetPrefix, fill_prefix
from mirror_ray.kafka.state_topic import StateStore, transactional_id
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.kafka.transactions import TransactionalProducer
from mirror_ray.model.cluster_change import ConfigChange
from mirror_ray.model.errors import KafkaProtocolError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.topics import DEFAULT_MAX_MESSAGE_BYTES, ConfigValue
from mirror_ray.state.schema import Document, state_topic
from mirror_ray.topics.discovery_rules import TargetLogBounds, TopicSide
from mirror_ray.topics.remote_topics import RemoteTopicPlan, TopicFacts, merge_plans, plan_remote_topic

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
#: A topic's configs, or why they can't be read.
_Configs = Mapping[str, ConfigValue] | MirrorError

_CODECS: Mapping[str, Codec] = {codec: codec for codec in get_args(Codec)}
#: State, source admin and target admin may be asked at the same time.
_THREADS = 3
_NO_PRODUCER = (
    "the target refuses idempotent writes, without which nothing can be copied exactly once. Grant IDEMPOTENT_WRITE on "
    "the cluster (or WRITE on the remote topics, from Kafka 2.8 on), or set delivery.guarantee = at_least_once, which "
    "copies some records twice after failures"
)
#: Configs of a compacted topic while records are deleted from it: none of them for their age or size.
_DELETES: Mapping[str, str] = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}
#: Of InitProducerId, from Kafka 2.5 on (KIP-360): such a broker takes any sequence of a producer that it has forgotten.
_FORGIVING_VERSION = 3
_TOO_OLD = (
    "the target is older than Kafka 2.5, whose brokers take nothing more from a producer that they have forgotten, so "
    "that nothing can be copied exactly once. Upgrade it, or set delivery.guarantee = at_least_once, which copies some "
    "records twice after failures"
)


class KafkaFlowClusters:
    """The real ``FlowPort``. A cluster that hangs holds up this flow's threads, and no other's."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings, audit_logs: AuditLogs) -> None:
        """Prepare; nothing is sent before ``open``. ``audit_logs`` keep what is changed.

        Raises ConfigError or ValueError where the settings can't be used; ``validate`` says so earlier.
        """
        name = flow.name
        source, target = settings.clusters[name.source], settings.clusters[name.target]
        client_id = f"{name}|mirror-ray|coordinator"
        self.configure(flow)
        self._source = ClusterConnections(source, client_id)
        self._target = ClusterConnections(target, client_id)
        self._audit_log_of = partial(audit_logs.of, settings, name)
        audit_log = self._audit_log_of()
        self._source_admin = ClusterEditor(source, client_id, audit_log)
        self._target_admin = ClusterEditor(target, client_id, audit_log)
        topic = state_topic(name.source, name.backfill, name.route)
        self._store = StateStore(target, topic, transactional_id(name), audit_log)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"flow {name}")

    def configure(self, flow: FlowSettings) -> None:
        """Use these settings of the flow from now on."""
        self._flow = flow
        self._rules = replication_rules(flow)
        self._configs = config_filter(flow)

    async def open(self) -> Mapping[str, Document]:
        """Read the flow's state, and become its only writer; meanwhile the raw connections come up."""
        documents, _ = await asyncio.gather(self._in_thread(self._store.open), self._prepare())
        return documents

    async def _prepare(self) -> None:
        # Where a cluster does not answer, no thread is to wait for it.
        await self._refresh()
        if self._flow.backfill is None:
            topics = offset_topics(self._flow)
            sides = {
                self._source_admin: [topic for topic in topics if topic.side == "source"],
                self._target_admin: [topic for topic in topics if topic.side == "target"],
            }
            creating = (partial(self._create_offset_topics, *side) for side in sides.items() if side[1])
            await asyncio.gather(*map(self._in_thread, creating))

    def _create_offset_topics(self, admin: ClusterEditor, topics: Sequence[InternalTopic]) -> None:
        """As MM2, go on where one can't be created: whoever writes to it says so."""
        try:
            reasons = list(admin.ensure_internal_topics(topics).values())
        except MirrorError as error:
            reasons = [error]
        for reason in reasons:
            _log.warning("flow %s: %s", self._flow.name, reason)

    async def observe(self) -> tuple[ClusterTopics, ClusterTopics]:
        """Read the topics of both clusters."""
        source, target = await self._refresh()
        return _cluster(source), _cluster(target)

    async def _refresh(self) -> tuple[ClusterMetadata, ClusterMetadata]:
        return await asyncio.gather(self._source.refresh(None), self._target.refresh(None))

    def select(self, source: ClusterTopics) -> Mapping[str, str]:
        """Map the source topics that are copied to their remote topics, by MM2's rule; of a backfill its one topic."""
        own = self._flow.backfill
        if own is not None:
            return {own.topic: own.into} if own.topic in source.topics else {}
        return {
            topic: self._rules.remote_topic(topic)
            for topic in source.topics
            if self._rules.should_replicate_topic(topic)
        }

    async def ensure_remote(
        self, wanted: Mapping[str, str], source: ClusterTopics, target: ClusterTopics
    ) -> tuple[Mapping[str, str], ClusterTopics]:
        """Create remote topics that are missing, and partitions, by MM2's rules for partitions and configs."""
        new = [topic for topic, remote in wanted.items() if remote not in target.topics]
        configs = await self._in_thread(lambda: self._source_admin.try_describe_topic_configs(new)) if new else {}
        plans = merge_plans(
            [
                self._plan(source.topics[topic], remote, target.topics.get(remote), configs.get(topic))
                for topic, remote in wanted.items()
            ]
        )
        errors = await self._in_thread(lambda: self._carry_out(plans))
        reasons = {plan.source_topic: plan.blocked or errors.get(plan.remote_topic) for plan in plans}
        failed = {topic: str(reason) for topic, reason in reasons.items() if reason is not None}
        return failed, _cluster(await self._target.refresh(list(wanted.values())))

    def _plan(
        self, source: TopicSide, remote: str, there: TopicSide | None, configs: _Configs | None
    ) -> RemoteTopicPlan:
        known = None if isinstance(configs, MirrorError) else configs
        return plan_remote_topic(
            TopicFacts(name=source.topic, partitions=source.partitions, configs=known),
            TopicFacts(name=remote, partitions=there.partitions) if there else None,
            remote,
            replication_factor=self._flow.topics.replication_factor,
            configs=self._configs,
        )

    def _carry_out(self, plans: Sequence[RemoteTopicPlan]) -> dict[str, MirrorError | None]:
        outcomes = self._target_admin.create_topics([plan.create for plan in plans if plan.create is not None])
        totals = {plan.remote_topic: plan.extend.to_partitions for plan in plans if plan.extend is not None}
        return outcomes | self._target_admin.create_partitions(totals)

    async def limits(self, remote: Sequence[str]) -> Mapping[str, TargetLimits]:
        """Read what the remote topics take; where configs may not be read, Kafka's defaults."""
        configs = await self._in_thread(lambda: self._target_admin.try_describe_topic_configs(remote))
        return {topic: _limits(answer) for topic, answer in configs.items()}

    async def target_bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, TargetLogBounds]:
        """Read where the remote logs begin and end: the leader's own end counts what is not replicated yet, too."""
        starts, ends = await asyncio.gather(
            self._target.list_offsets(dict.fromkeys(partitions, EARLIEST), "read_uncommitted"),
            self._target.log_ends(partitions),
        )
        return {
            partition: TargetLogBounds(
                start=starts[partition].offset,
                end=ends[partition].end_offset,
                high_watermark=ends[partition].high_watermark,
            )
            for partition in partitions
            if starts[partition].error_code == 0 and ends[partition].error_code == 0
        }

    async def source_offsets(
        self, partitions: Sequence[TopicPartition], *, latest: bool
    ) -> Mapping[TopicPartition, int]:
        """Look up where partitions begin that have no position."""
        asked = dict.fromkeys(partitions, LATEST if latest else EARLIEST)
        answers = await self._source.list_offsets(asked, self._flow.fetch.isolation_level)
        return {partition: answer.offset for partition, answer in answers.items() if answer.error_code == 0}

    async def offsets_since(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Look up the first offsets at or after these times, in milliseconds."""
        answers = await self._source.list_offsets(times_ms, self._flow.fetch.isolation_level)
        found = {partition: answer.offset for partition, answer in answers.items() if answer.error_code == 0}
        late = [partition for partition, offset in found.items() if offset < 0]
        ends = await self.source_offsets(late, latest=True) if late else {}
        return {partition: offset for partition, offset in found.items() if offset >= 0} | dict(ends)

    async def delete_records(self, before: Mapping[TopicPartition, int], operator: str | None = None) -> None:
        """Delete remote records before these offsets."""
        audit_log = self._audit_log_of(operator=operator)
        await self._in_thread(lambda: self._target_admin.delete_records(before, audit_log))

    async def new_producer(self) -> tuple[int, int]:
        """Get a producer id and its epoch."""
        try:
            return await self._target.init_producer_id(lowest_version=_FORGIVING_VERSION)
        except KafkaProtocolError as error:
            why = _TOO_OLD if error.code == UNSUPPORTED_VERSION else _NO_PRODUCER
            raise KafkaProtocolError(error.code, error.name, f"{error.what}: {why}") from error

    async def last_producers(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Read the headers of the last batches."""
        topics = self._target.metadata.topics
        ids = {partition: topics[partition.topic].topic_id for partition in ends}
        found = await read_last_batches(self._target, ids, ends)
        return {partition: batch.producer_id for partition, batch in found.batches.items()}

    async def fill_prefix(self, partition: TopicPartition, log_end: int, end: int, producer: tuple[int, int]) -> None:
        """Append fillers and delete them.

        A topic that is compacted alone deletes nothing: for a moment it is not, and should we die in it, nothing
        expires there all the same.
        """
        topic = partition.topic
        configs = (await self._in_thread(lambda: self._target_admin.try_describe_topic_configs([topic])))[topic]
        found: Mapping[str, ConfigValue] = {} if isinstance(configs, MirrorError) else configs
        policy = (found["cleanup.policy"].value or "") if found else ""
        prefix = OffsetPrefix(
            partition=partition,
            log_end=log_end,
            end=end,
            producer=producer,
            max_message_bytes=_limits(configs).max_message_bytes,
            keyed="compact" in policy,
        )
        await fill_prefix(self._target, prefix)
        if policy != "compact":
            await self.delete_records({partition: end})
            return
        own = {key: found[key].value if found[key].source == "DYNAMIC_TOPIC_CONFIG" else None for key in _DELETES}
        await self._alter(topic, own, _DELETES)
        try:
            await self.delete_records({partition: end})
        finally:
            await self._alter(topic, _DELETES, own)

    async def _alter(self, topic: str, before: Mapping[str, str | None], after: Mapping[str, str | None]) -> None:
        why = "the log is to begin elsewhere"
        changes = [ConfigChange(key=key, before=before[key], after=after[key], why=why) for key in after]
        outcomes = await self._in_thread(lambda: self._target_admin.alter_topic_configs({topic: changes}))
        if (error := outcomes[topic]) is not None:
            raise error

    async def end_transactions(self, transactional_ids: Collection[str]) -> None:
        """Ask for each of the ids anew."""
        timeout_ms = self._target.settings.request_timeout_ms
        producers = [
            TransactionalProducer(self._target, transactional_id, transaction_timeout_ms=timeout_ms)
            for transactional_id in transactional_ids
        ]
        await asyncio.gather(*(producer.begin_session() for producer in producers))

    async def write_state(self, documents: Mapping[str, Document | None]) -> int:
        """Write documents of the state, None to delete, in one transaction."""
        return await self._in_thread(lambda: self._store.write(documents))

    async def forget(self, backfill: str) -> None:
        """Delete a backfill's state topic."""
        topic = state_topic(self._flow.name.source, backfill)
        await self._in_thread(lambda: self._target_admin.delete_topic(topic))

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(self._source.close(), self._target.close())
        await self._in_thread(self._store.close)
        await self._in_thread(self._source_admin.close)
        await self._in_thread(self._target_admin.close)
        self._threads.shutdown(wait=False)

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _cluster(metadata: ClusterMetadata) -> ClusterTopics:
    there = {name: topic for name, topic in metadata.topics.items() if topic.error_code in (0, LEADER_NOT_AVAILABLE)}
    return ClusterTopics(
        cluster_id=metadata.cluster_id,
        topics={
            name: TopicSide(topic=name, topic_id=topic.topic_id, partitions=len(topic.partitions))
            for name, topic in there.items()
            if topic.partitions
        },
        leaders={name: topic.leaders for name, topic in there.items()},
    )


def _limits(configs: _Configs) -> TargetLimits:
    values = {} if isinstance(configs, MirrorError) else {key: config.value for key, config in configs.items()}
    codec = values.get("compression.type")
    return TargetLimits(
        max_message_bytes=int(values.get("max.message.bytes") or DEFAULT_MAX_MESSAGE_BYTES),
        compress_with=_CODECS.get(codec or ""),
    )
