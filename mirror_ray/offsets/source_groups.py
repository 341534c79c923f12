"""A flow's groups on the source: which there are, what they have committed, and whether all of it could be seen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from mirror_ray.config.settings import GroupSettings
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.coordinators import Coordinators
from mirror_ray.kafka.group_codec import GroupOffsets
from mirror_ray.kafka.group_offsets import OffsetReader
from mirror_ray.kafka.groups import GroupListing, list_groups
from mirror_ray.model.commit import CommittedOffset
from mirror_ray.model.filters import GroupFilter
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.group_book import GroupBook

#: A broker that did not tell its groups is asked again no later than this.
_ASK_SILENT_S: Final = 10.0


class SourceGroups:
    """Of a flow's groups those that ``mine`` accepts.

    Attributes:
        listing: The last one; None before the first look.
        without_offsets: Why a group has nothing to be carried over.
        problems: What the last look could not see, by group; "" stands for the cluster.
    """

    def __init__(self, settings: GroupSettings, source: Cluster, mine: Callable[[str], bool]) -> None:
        self.listing: GroupListing | None = None
        self.without_offsets: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self._filter = GroupFilter(settings.include, settings.exclude)
        self._refresh_s = settings.refresh_interval_s
        self._mine = mine
        self._coordinators = Coordinators(source)
        self._reader = OffsetReader(self._coordinators)
        self._listed_s = float("-inf")
        self._wanted: list[str] = []
        #: Of groups some of whose offsets the broker did not tell, which says so once: why.
        self._partly: dict[str, str] = {}

    def hurry(self) -> None:
        """List the groups in the next look, whatever the interval is."""
        self._listed_s = float("-inf")

    async def look(self, book: GroupBook) -> None:
        """Read what has changed into the book. What could not be seen is there as it was, and among the problems.

        Raises:
            OSError, MirrorError: The source can't be used now.
        """
        # Until it is over: a look that breaks off has seen nothing.
        self.problems = {"": "it was not read to the end"}
        listing = await self._listed(book)
        read = await self._reader.read(self._wanted)
        for group, found in read.changed.items():
            self._take(book, group, found)
        self._partly = {group: self._partly[group] for group in self._partly.keys() & set(self._wanted)}
        self.problems = {
            group: f"its offsets on the source: {why}" for group, why in {**self._partly, **read.failed}.items()
        }
        if listing.silent:
            self.problems[""] = "; ".join(f"broker {broker}: {why}" for broker, why in listing.silent.items())

    async def _listed(self, book: GroupBook) -> GroupListing:
        now_s, listing = time.monotonic(), self.listing
        lasts_s = min(self._refresh_s, _ASK_SILENT_S) if listing is not None and listing.silent else self._refresh_s
        if listing is not None and now_s - self._listed_s < lasts_s:
            return listing
        self.listing = listing = await list_groups(self._coordinators, listing)
        self._listed_s = now_s
        wanted = {
            name: listed
            for name, listed in (listing.groups | listing.unknown).items()
            if self._filter.should_replicate_group(name) and self._mine(name)
        }
        self.without_offsets = {name: why for name, each in wanted.items() if (why := each.why_without_offsets)}
        self._wanted = [name for name in wanted if name not in self.without_offsets]
        book.forget(book.groups.keys() - set(self._wanted))
        return listing

    def _take(self, book: GroupBook, group: str, found: GroupOffsets) -> None:
        committed = {partition: each for partition, each in found.offsets.items() if each.offset >= 0}
        book.committed(group, {**dict(_known(book, group, found)), **committed})
        self._partly.pop(group, None)
        for partition, error in found.errors.items():
            self._partly[group] = f"{partition}: {error.name}"


def _known(book: GroupBook, group: str, found: GroupOffsets) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
    """What is known of partitions whose offset the broker does not tell: they may still stand there."""
    entries = book.groups.get(group, {})
    for partition in found.errors.keys() & entries.keys():
        source = entries[partition].source
        if source is not None:
            yield partition, source
