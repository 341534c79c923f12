"""The fetchers and senders of a flow, one for each connection to a broker, and which partitions each has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mirror_ray.replication.broker_connections import FETCH_CONNECTIONS, PRODUCE_CONNECTIONS, connections, lane_of
from mirror_ray.replication.fetcher import Fetcher
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.sender import Sender


class BrokerLoops:
    """Makes a fetcher or a sender when the first partition needs the broker; they last until ``close``."""

    def __init__(
        self,
        new_fetcher: Callable[[int, int], Fetcher],
        new_sender: Callable[[int, int], Sender],
        *,
        round_trips_s: Callable[[], tuple[float, float]],
    ) -> None:
        """Make them by broker and lane; ``round_trips_s()``: to the brokers of the source and of the target."""
        self._new_fetcher, self._new_sender, self._round_trips_s = new_fetcher, new_sender, round_trips_s
        #: By broker and lane.
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._senders: dict[tuple[int, int], Sender] = {}
        self._fetching: dict[PartitionReplication, Fetcher] = {}
        self._sending: dict[PartitionReplication, Sender] = {}

    def attach(self, copy: PartitionReplication, reader: int, writer: int) -> None:
        """Fetch a partition from broker ``reader``, and send what it has to broker ``writer``.

        One that has a sender already keeps it: it must not change brokers with batches in flight, and is refused by a
        broker that is not its leader any more.
        """
        to_source_s, to_target_s = self._round_trips_s()
        if copy not in self._sending:
            sender = (writer, lane_of(copy.assignment.target, connections(to_target_s, PRODUCE_CONNECTIONS)))
            if sender not in self._senders:
                self._senders[sender] = self._new_sender(*sender)
            self._sending[copy] = self._senders[sender]
        self._sending[copy].schedule(copy)
        fetcher = (reader, lane_of(copy.source, connections(to_source_s, FETCH_CONNECTIONS)))
        if fetcher not in self._fetchers:
            self._fetchers[fetcher] = self._new_fetcher(*fetcher)
        self._fetching[copy] = self._fetchers[fetcher]
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
