"""What a report asks the flow's target for, beside the statistics themselves: small, and before Spark is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """A flow's statistics topic as it is now."""

    topic_id: TopicId
    #: First offset and end of each partition.
    bounds: Mapping[int, tuple[int, int]]


def find_statistics(cluster: ClusterSettings, flow: FlowSettings) -> StatisticsLog:
    """Look at the statistics topic of a flow on its target.

    Raises:
        ConfigError: The flow keeps no statistics.
        TopicMissingError: It has not told anything yet.
        ClusterUnreachableError: The target does not answer.
        MirrorError: The topic can't be looked at.
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
    places = [TopicPartition(topic, number) for number in range(summary.partitions)]
    bounds = admin.log_bounds(places)
    if late := [str(place) for place in places if place not in bounds]:
        raise MirrorError(f"cluster {cluster.alias} can't say where {', '.join(late)} ends: see its brokers, try again")
    return StatisticsLog(topic_id=summary.topic_id, bounds={each.partition: span for each, span in bounds.items()})


def read_gaps(cluster: ClusterSettings, flow: FlowSettings) -> list[dict[str, Any]] | None:
    """What partitions of a flow went on without, oldest first, by its state; None where that can't be read."""
    try:
        memory = decode(read_state(cluster, state_topic(flow.name.source, route=flow.name.route)))
    except (MirrorError, KeyError):
        return None
    gaps = [
        {"topic": place.topic, "partition": place.partition, **asdict(gap)}
        for (place, _), gap in memory.skipped_ranges.items()
    ]
    return sorted(gaps, key=lambda gap: (gap["time_ms"], gap["topic"], gap["partition"]))


def read_ends(cluster: ClusterSettings, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], tuple[str, int]]:
    """Topic id and end of remote partitions, as far as they can be had. ``rows``: of the partitions that were told."""
    admin = ClusterAdmin(cluster, _CLIENT_ID)
    try:
        topics = admin.describe_topics(sorted({row["target_topic"] for row in rows}))
        places = _places(rows, topics)
        bounds = admin.log_bounds(places)
    except MirrorError:
        return {}
    return {
        (place.topic, place.partition): (topics[place.topic].topic_id, end)  # type: ignore[union-attr]
        for place, (_, end) in bounds.items()
    }


def _places(rows: Iterable[Mapping[str, Any]], topics: Mapping[str, Any]) -> set[TopicPartition]:
    found = {TopicPartition(row["target_topic"], row["target_partition"]) for row in rows}
    known = {name: topic for name, topic in topics.items() if not isinstance(topic, MirrorError)}
    return {place for place in found if place.topic in known and place.partition < known[place.topic].partitions}
