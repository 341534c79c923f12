"""Where topics without progress would begin, as a plan shows it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.start import EARLIEST, StartPosition
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.topics import discovery_rules


def begins(flow: FlowSettings, memory: FlowStateRecords, topics: Iterable[str]) -> dict[str, StartPosition]:
    """The starts of those topics that have no progress.

    A topic that came after the flow begins at its earliest record, whatever the config says.
    """
    copied = {partition.topic for partition in memory.partitions}
    rules = discovery_rules.rules_of(flow)
    anew = memory.flow is None or memory.flow.selection != discovery_rules.selection_of(flow)
    return {
        topic: rules.of(topic) if anew else memory.starts.get(topic, EARLIEST)
        for topic in topics
        if topic not in copied
    }


def unheeded(flow: FlowSettings, memory: FlowStateRecords, topics: Collection[str]) -> str | None:
    """What to say where ``topics.start`` has changed for topics that have progress already."""
    copied = {partition.topic for partition in memory.partitions}
    said = discovery_rules.starts_of(flow)
    return discovery_rules.starts_changed(flow.name, memory.flow, said, len(copied.intersection(topics)))


def told(starts: Mapping[str, StartPosition]) -> dict[str, str]:
    """The starts as text."""
    return {topic: str(start) for topic, start in starts.items()}
