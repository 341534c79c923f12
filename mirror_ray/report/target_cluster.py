"""What a report reads from the flow's target cluster without Spark: topics, log ends, skipped ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mirror_ray.config.settings import ClusterSettings, FlowSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.state_topic import read_state
from mirror_ray.model.errors import ConfigError, MirrorError, TopicMissingError
from mirror_ray.model.internal_topics import statistics_topic
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.state.schema import decode, state_topic

_CLIENT_ID = "mirror-ray-report"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsLog:
    """A flow's statistics topic."""

    topic_id: TopicId
    #: Log start offset and log end offset of each partition.
    bounds: Mapping[int, tuple[int, int]]


def find_statistics(cluster: ClusterSettings, flow: FlowSettings) -> StatisticsLog:
    """Describe the statistics topic of a flow on its target.

    Raises:
        ConfigError: The flow keeps no statistics.
        TopicMissingError: Nothing was published yet.
        ClusterUnreachableError: The target does not answer.
        MirrorError: The topic can't be described.
    """
    topic = statistics_topic(flow.name.source)
    admin = ClusterAdmin(cluster, _CLIENT_ID)
    admin.ping()
    summary = admin.describe_topics([topic]).get(topic)
    if isinstance(summary, MirrorError):
        raise summary
    if summary is None:
        if not flow.statistics.emit_enabled:
            raise ConfigError(
                f"{flow.name} keeps no statistics: set emit.statistics.enabled = true (in YAML: statistics:"
                " emit_enabled: true), update the flow with `mirror-ray up`, and ask again when it has copied something"
            )
        raise TopicMissingError(
            f"cluster {cluster.alias} has no topic {topic} yet: start the flow with `mirror-ray up`, and ask again when"
            f" it has copied for {flow.statistics.emit_interval_s:g} s; if it runs, see that DESCRIBE is granted"
        )
    partitions = [TopicPartition(topic, number) for number in range(summary.partitions)]
    bounds = admin.log_bounds(partitions)
    if unknown := [str(partition) for partition in partitions if partition not in bounds]:
        names = ", ".join(unknown)
        raise MirrorError(f"cluster {cluster.alias} does not give the end of {names}: see its brokers, try again")
    return StatisticsLog(topic_id=summary.topic_id, bounds={at.partition: span for at, span in bounds.items()})


def read_skipped_ranges(cluster: ClusterSettings, flow: FlowSettings) -> list[dict[str, Any]] | None:
    """The skipped ranges of a flow by its state, oldest first; None where the state can't be read."""
    try:
        memory = decode(read_state(cluster, state_topic(flow.name.source, route=flow.name.route)))
    except (MirrorError, KeyError):
        return None
    found = [
        {"topic": partition.topic, "partition": partition.partition, **asdict(skipped)}
        for (partition, _), skipped in memory.skipped_ranges.items()
    ]
    return sorted(found, key=lambda row: (row["time_ms"], row["topic"], row["partition"]))


def read_ends(cluster: ClusterSettings, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], tuple[str, int]]:
    """Topic id and log end offset of remote partitions, as far as they are known.

    ``rows``: of the partitions, as ``spark.report.select`` gives them.
    """
    admin = ClusterAdmin(cluster, _CLIENT_ID)
    try:
        topics = admin.describe_topics(sorted({row["target_topic"] for row in rows}))
        known = {name: topic for name, topic in topics.items() if not isinstance(topic, MirrorError)}
        found = {TopicPartition(row["target_topic"], row["target_partition"]) for row in rows}
        bounds = admin.log_bounds(
            {at for at in found if at.topic in known and at.partition < known[at.topic].partitions}
        )
    except MirrorError:
        return {}
    return {
        (partition.topic, partition.partition): (known[partition.topic].topic_id, end)
        for partition, (_, end) in bounds.items()
    }
