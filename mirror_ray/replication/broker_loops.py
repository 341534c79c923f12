"""The fetchers and senders of a flow, and which partitions each has: one fetcher and two senders for each broker.

A broker handles one connection's requests one after another, and decompresses every batch to check it. With one sender
a single one of its threads would do that, and everything else would wait for it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

from mirror_ray.model.names import TopicPartition
from mirror_ray.replication.fetcher import Fetcher
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.sender import Sender

#: Senders of a broker. More would make small requests smaller: each holds one batch of its own partitions.
_LANES = 2


class BrokerLoops:
    """Makes a fetcher or a sender when the first partition needs the broker; they last until ``close``."""

    def __init__(self, new_fetcher: Callable[[int], Fetcher], new_sender: Callable[[int, int], Sender]) -> None:
        self._new_fetcher, self._new_sender = new_fetcher, new_sender
        self._fetchers: dict[int, Fetcher] = {}
        #: By broker and lane.
        self._senders: dict[tuple[int, int], Sender] = {}
        self._fetching: dict[PartitionReplication, Fetcher] = {}
        self._sending: dict[PartitionReplication, Sender] = {}

    def attach(self, copy: PartitionReplication, reader: int, writer: int) -> None:
        """Fetch a partition from broker ``reader``, and send what it has to broker ``writer``.

        One that has a sender already keeps it: it must not change brokers with batches in flight, and is refused by a
        broker that is not its leader any more.
        """
        if copy not in self._sending:
            lane = (writer, lane_of(copy.assignment.target))
            if lane not in self._senders:
                self._senders[lane] = self._new_sender(*lane)
            self._sending[copy] = self._senders[lane]
        self._sending[copy].schedule(copy)
        if reader not in self._fetchers:
            self._fetchers[reader] = self._new_fetcher(reader)
        self._fetching[copy] = self._fetchers[reader]
        self._fetching[copy].add(copy)

    def detach(self, copy: PartitionReplication) -> None:
        """Neither fetch nor send a partition any more; answers under way still come."""
        self.stop_fetching(copy)
        sender = self._sending.pop(copy, None)
        if sender is not None:
            sender.remove(copy)

    def stop_fetching(self, copy: PartitionReplication) -> None:
        """Fetch a partition no more; what it has is still sent."""
        fetcher = self._fetching.pop(copy, None)
        if fetcher is not None:
            fetcher.remove(copy)

    def fetches(self, copy: PartitionReplication) -> bool:
        """Whether a fetcher has the partition."""
        return copy in self._fetching

    def sends(self, copy: PartitionReplication) -> bool:
        """Whether a sender has the partition."""
        return copy in self._sending

    def schedule(self, copy: PartitionReplication) -> None:
        """Have a partition's sender send what is ready."""
        sender = self._sending.get(copy)
        if sender is not None:
            sender.schedule(copy)

    def touch(self, copy: PartitionReplication) -> None:
        """Have a partition's fetcher look again whether and from where it is to be fetched."""
        fetcher = self._fetching.get(copy)
        if fetcher is not None:
            fetcher.touch(copy)

    def room_made(self) -> None:
        """Have fetchers look again at what waits for memory."""
        for fetcher in self._fetchers.values():
            fetcher.room_made()

    def limits_changed(self) -> None:
        """Have fetchers look again at what waits for a limit."""
        for fetcher in self._fetchers.values():
            fetcher.limits_changed()

    def wake_senders(self) -> None:
        """Have senders look again at what waits for a lease."""
        for sender in self._senders.values():
            sender.wake()

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(fetcher.close() for fetcher in self._fetchers.values()))
        await asyncio.gather(*(sender.close() for sender in self._senders.values()))


def lane_of(target: TopicPartition) -> int:
    """Return which of a broker's senders has a remote partition: always the same, whoever copies into it."""
    return (zlib.crc32(target.topic.encode()) + target.partition) % _LANES
