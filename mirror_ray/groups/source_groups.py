"""A flow's groups on the source: which there are, what they have committed, and what could not be read of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from mirror_ray.config.settings import GroupSettings
from mirror_ray.groups.offset_state import GroupOffsetState
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import GroupListing, list_groups
from mirror_ray.kafka.group_offset_codec import GroupOffsets
from mirror_ray.kafka.group_offsets import OffsetReader
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.filters import GroupFilter
from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition

log = logging.getLogger(__name__)

#: A broker that did not list its groups is asked again no later than this.
_ASK_SILENT_S: Final = 10.0


class SourceGroups:
    """The groups of a flow that ``accepts`` lets through.

    Attributes:
        listing: The last one; None before the first reading.
        without_offsets: Why a group has no offsets to be synced.
        problems: What could not be read last time, by group; "" stands for the cluster.
    """

    def __init__(
        self,
        settings: GroupSettings,
        source: ClusterConnections,
        accepts: Callable[[str], bool],
        covers: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """``covers``: whether offsets in a topic are of interest here."""
        self.listing: GroupListing | None = None
        self.without_offsets: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self._filter = GroupFilter(settings.include, settings.exclude)
        self._refresh_s = settings.refresh_interval_s
        self._accepts, self._covers = accepts, covers
        self._coordinators = GroupCoordinators(source)
        self._reader = OffsetReader(self._coordinators)
        self._listed_s = float("-inf")
        self._wanted: list[str] = []
        #: Why some of a group's offsets are missing: the broker says so only once.
        self._partly: dict[str, str] = {}

    def list_at_once(self) -> None:
        """List the groups in the next reading, whatever the interval is."""
        self._listed_s = float("-inf")

    async def read(self, state: GroupOffsetState) -> None:
        """Read what has changed into the state. What could not be read stays as it was, and is among the problems."""
        # Until it is over: a reading that breaks off has read nothing.
        self.problems = {"": "it was not read to the end"}
        listing = await self._listed(state)
        read = await self._reader.read(self._wanted)
        topic_ids = await self._topic_ids(state, read.changed)
        for group, found in read.changed.items():
            self._take(state, group, found, topic_ids)
        self._partly = {group: self._partly[group] for group in self._partly.keys() & set(self._wanted)}
        self.problems = {
            group: f"its offsets on the source: {why}" for group, why in {**self._partly, **read.failed}.items()
        }
        if listing.silent:
            self.problems[""] = "; ".join(f"broker {broker}: {why}" for broker, why in listing.silent.items())

    async def _listed(self, state: GroupOffsetState) -> GroupListing:
        now_s, listing = time.monotonic(), self.listing
        lasts_s = min(self._refresh_s, _ASK_SILENT_S) if listing is not None and listing.silent else self._refresh_s
        if listing is not None and now_s - self._listed_s < lasts_s:
            return listing
        self.listing = listing = await list_groups(self._coordinators, listing)
        self._listed_s = now_s
        wanted = {
            name: listed
            for name, listed in (listing.groups | listing.unknown).items()
            if self._filter.should_replicate_group(name) and self._accepts(name)
        }
        self.without_offsets = {name: why for name, listed in wanted.items() if (why := listed.why_without_offsets)}
        self._wanted = [name for name in wanted if name not in self.without_offsets]
        state.forget(state.groups.keys() - set(self._wanted))
        return listing

    async def _topic_ids(self, state: GroupOffsetState, changed: Mapping[str, GroupOffsets]) -> Mapping[str, TopicId]:
        """The ids of topics that may be others than when their offsets were read last."""
        asked = {
            partition.topic
            for group, found in changed.items()
            for partition, committed in found.offsets.items()
            if not _same_topic(_source(state, group, partition), committed)
        }
        if not asked:
            return {}
        try:
            known = (await self._coordinators.cluster.refresh(asked)).topics
        except (OSError, MirrorError) as error:
            # What was read will not be reported as changed again, so it is taken without.
            log.info("ids of the topics that groups read: %s", error)
            return {}
        return {topic: known[topic].topic_id for topic in asked if topic in known and not known[topic].error_code}

    def _take(self, state: GroupOffsetState, group: str, found: GroupOffsets, topic_ids: Mapping[str, TopicId]) -> None:
        committed: dict[TopicPartition, CommittedOffset] = {}
        for partition in found.errors.keys() | found.offsets.keys():
            if not self._covers(partition.topic):
                continue
            before, now = _source(state, group, partition), found.offsets.get(partition)
            if now is None:
                # Its offset is not known now, and may still be there.
                now = before
            else:
                same = before.topic_id if before is not None and _same_topic(before, now) else NO_TOPIC_ID
                now = now._replace(topic_id=topic_ids.get(partition.topic, same))
            if now is not None and now.offset >= 0:
                committed[partition] = now
        state.committed(group, committed)
        self._partly.pop(group, None)
        for partition, error in found.errors.items():
            if not self._covers(partition.topic):
                continue
            self._partly[group] = f"{partition}: {error.name}"


def _source(state: GroupOffsetState, group: str, partition: TopicPartition) -> CommittedOffset | None:
    entry = state.groups.get(group, {}).get(partition)
    return entry.source if entry is not None else None


def _same_topic(before: CommittedOffset | None, now: CommittedOffset) -> bool:
    """Whether it is of the same topic: where one is deleted, Kafka deletes what groups have committed there."""
    return before is not None and before.topic_id != NO_TOPIC_ID and now.offset >= before.offset
