"""Everything that changes a cluster's topics. Blocking: asyncio callers wrap calls in ``asyncio.to_thread``.

Each change goes through an ``AuditLog``; so do ACLs (``kafka.acls``) and commits of groups (``kafka.group_offsets``).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]  # imported there, not re-exported by name

from mirror_ray.config.internal_topics import InternalTopic
from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin import ClusterAdmin, exists
from mirror_ray.kafka.admin_connection import chunks, error_code
from mirror_ray.kafka.audit_log import AuditLog, recorded
from mirror_ray.model.cluster_change import ClusterChange, ConfigChange
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.topics import INTERNAL_TOPIC_REPLICATION_FACTOR, NewRemoteTopic, effective_replication_factor

#: How long a change of metadata may take to reach the broker that we ask.
_PROPAGATION_S: Final = 2.0


class ClusterEditor(ClusterAdmin):
    """Changes topics of one cluster, and what is in them."""

    def __init__(self, cluster: ClusterSettings, client_id: str, audit_log: AuditLog) -> None:
        super().__init__(cluster, client_id)
        self._audit_log = audit_log

    def alter_topic_configs(self, changes: Mapping[str, Sequence[ConfigChange]]) -> dict[str, MirrorError | None]:
        """Set configs of topics, or with None take them away again, so that the brokers' default holds (KIP-339).

        Other configs stay. The configs of one topic are all altered, or none; each topic has its outcome.
        """

        def act() -> dict[str, MirrorError | None]:
            outcomes: dict[str, MirrorError | None] = {}
            for chunk in chunks(changes):
                resources = [_config_resource(name, changes[name]) for name in chunk]
                futures = self._call(self._client.incremental_alter_configs, resources)
                by_name = {resource.name: future for resource, future in futures.items()}
                outcomes.update(self._settle(by_name, "alter the configs of topic {}"))
            return outcomes

        intended = {name: self._altered(name, of_topic) for name, of_topic in changes.items()}
        return recorded(self._audit_log, intended, act)

    def create_topics(self, topics: Sequence[NewRemoteTopic]) -> dict[str, MirrorError | None]:
        """Create topics, each with its outcome; a topic that exists already is no error and is left as it is."""
        outcomes = self._create_recorded(topics)
        return {name: None if error is not None and exists(error) else error for name, error in outcomes.items()}

    def _create_recorded(self, topics: Sequence[NewRemoteTopic]) -> dict[str, MirrorError | None]:
        intended = {topic.name: self._change("create_topic", topic.name, after=_described(topic)) for topic in topics}
        return recorded(self._audit_log, intended, lambda: self._create(topics, validate_only=False), exists)

    def create_partitions(self, totals: Mapping[str, int]) -> dict[str, MirrorError | None]:
        """Grow topics to these numbers of partitions; a topic that has as many already is no error.

        One that has more is left as it is, and is an error (INVALID_PARTITIONS).
        """
        if not totals:
            return {}
        listed = self.list_topics()
        intended = {
            name: self._change(
                "create_partitions",
                name,
                before=f"{listed[name].partitions} partitions" if name in listed else None,
                after=f"{total} partitions",
            )
            for name, total in totals.items()
        }

        def act() -> dict[str, MirrorError | None]:
            return self._extend(totals, validate_only=False)

        as_many = {name for name, total in totals.items() if name in listed and listed[name].partitions == total}
        changes = {name: change for name, change in intended.items() if name not in as_many}
        outcomes = recorded(self._audit_log, changes, act)
        refused = [name for name, error in outcomes.items() if error_code(error) == KafkaError.INVALID_PARTITIONS]
        if refused:
            numbers = self._wait_for_partitions({name: totals[name] for name in refused})
            outcomes.update({name: None for name in refused if numbers.get(name) == totals[name]})
        return outcomes

    def ensure_compacted_topic(
        self, name: str, partitions: int, replication_factor: int | None, segment_bytes: int | None = None
    ) -> bool:
        """``ensure_internal_topic`` for a compacted one.

        Only closed segments are compacted: ``segment_bytes`` bounds the size of a busy topic.
        """
        sizes = {} if segment_bytes is None else {"segment.bytes": str(segment_bytes)}
        return self.ensure_internal_topic(name, partitions, replication_factor, {"cleanup.policy": "compact", **sizes})

    def ensure_internal_topic(
        self, name: str, partitions: int, replication_factor: int | None, configs: Mapping[str, str]
    ) -> bool:
        """Create a topic of ours where it is missing; returns whether it was created now.

        As in MM2, no right to create it is needed when it exists.

        Raises:
            AdminError: It is missing and can't be created.
        """
        cluster = self.overview()
        if name in cluster.topics:
            return False
        factor = effective_replication_factor(replication_factor, INTERNAL_TOPIC_REPLICATION_FACTOR, cluster.brokers)
        topic = NewRemoteTopic(name=name, partitions=partitions, replication_factor=factor, configs=dict(configs))
        error = self._create_recorded([topic])[name]
        if error is not None and not exists(error):
            raise error
        self._wait_until_listed([name])
        return error is None

    def ensure_internal_topics(self, topics: Collection[InternalTopic]) -> dict[str, MirrorError]:
        """``ensure_internal_topic`` for several, by one request; by name why one is missing and can't be created."""
        cluster = self.overview()
        missing = [
            NewRemoteTopic(
                name=topic.name,
                partitions=1,
                replication_factor=effective_replication_factor(
                    topic.replication_factor, INTERNAL_TOPIC_REPLICATION_FACTOR, cluster.brokers
                ),
                configs=topic.configs,
            )
            for topic in topics
            if topic.name not in cluster.topics
        ]
        if not missing:
            return {}
        outcomes = self.create_topics(missing)
        self._wait_until_listed([name for name, error in outcomes.items() if error is None])
        return {name: error for name, error in outcomes.items() if error is not None}

    def delete_topic(self, name: str) -> None:
        """Delete a topic of our own; one that does not exist counts as deleted.

        Raises:
            MirrorError: It could not be deleted.
        """
        listed = self.list_topics().get(name)
        change = self._change("delete_topic", name, before=f"{listed.partitions} partitions" if listed else None)

        def act() -> dict[str, MirrorError | None]:
            return self._settle(self._call(self._client.delete_topics, [name]), "delete topic {}")

        error = recorded(self._audit_log, {name: change}, act, _is_missing)[name]
        if error is not None and not _is_missing(error):
            raise error

    def delete_records(self, before: Mapping[TopicPartition, int], audit_log: AuditLog | None = None) -> None:
        """Delete the records of partitions below these offsets; records that are deleted already are no error.

        ``audit_log``: used in place of this editor's own.

        Raises:
            AdminError: DELETE is not granted on a topic, or it is compacted only and can't be deleted from.
        """
        bounds = self.log_bounds(before)
        intended = {
            str(partition): ClusterChange(
                kind="delete_records",
                cluster=self.cluster.alias,
                subject=f"partition {partition}",
                before=f"from {bounds[partition][0]}" if partition in bounds else None,
                after=f"from {offset}",
            )
            for partition, offset in before.items()
        }

        def act() -> dict[str, MirrorError | None]:
            outcomes: dict[str, MirrorError | None] = {}
            for chunk in chunks(list(before)):
                requests = [ClientTopicPartition(of.topic, of.partition, before[of]) for of in chunk]
                futures = self._call(self._client.delete_records, requests)
                by_name = {str(TopicPartition(of.topic, of.partition)): future for of, future in futures.items()}
                for name, answer in self._settle(by_name, "delete the records of {}").items():
                    outcomes[name] = answer if isinstance(answer, MirrorError) else None
            return outcomes

        for error in recorded(audit_log or self._audit_log, intended, act).values():
            if error is not None:
                raise error

    def _altered(self, topic: str, changes: Sequence[ConfigChange]) -> ClusterChange:
        """One entry for all configs of a topic: they are altered together, or not at all."""
        return self._change(
            "alter_config",
            topic,
            before=", ".join(f"{change.key}={_or_default(change.before)}" for change in changes),
            after=", ".join(f"{change.key}={_or_default(change.after)}" for change in changes),
            why=", ".join(dict.fromkeys(change.why for change in changes)),
        )

    def _change(
        self, kind: str, topic: str, *, before: str | None = None, after: str | None = None, why: str = ""
    ) -> ClusterChange:
        subject = f"topic {topic}"
        return ClusterChange(
            kind=kind, cluster=self.cluster.alias, subject=subject, before=before, after=after, why=why
        )

    def _wait_until_listed(self, names: Collection[str]) -> None:
        """Topics that were created may be unknown to the other brokers for a moment."""
        deadline = time.monotonic() + self._timeout_s
        while unlisted := set(names) - self.list_topics().keys():
            if time.monotonic() > deadline:
                raise ClusterUnreachableError(
                    f"cluster {self.cluster.alias} created topic {min(unlisted)} but does not list it: check its"
                    " controller"
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


def _config_resource(topic: str, changes: Sequence[ConfigChange]) -> ConfigResource:
    entries = [
        ConfigEntry(
            change.key,
            change.after,
            incremental_operation=AlterConfigOpType.DELETE if change.after is None else AlterConfigOpType.SET,
        )
        for change in changes
    ]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)


def _described(topic: NewRemoteTopic) -> str:
    factor = "" if topic.replication_factor is None else f", replication factor {topic.replication_factor}"
    configs = "".join(f", {key}={value}" for key, value in sorted(topic.configs.items()))
    return f"{topic.partitions} partitions{factor}{configs}"


def _or_default(value: str | None) -> str:
    return "(the broker's default)" if value is None else value


def _is_missing(error: MirrorError) -> bool:
    return error_code(error) == KafkaError.UNKNOWN_TOPIC_OR_PART
