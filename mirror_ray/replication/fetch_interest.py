"""Which partitions a fetcher asks for, and where each of the others waits."""

from __future__ import annotations

from collections.abc import Iterable

from mirror_ray.kafka.fetch import FetchPosition, PartitionKey
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.replication.fetch_session import FetchSession
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.throttle import FetchThrottle


class FetchInterest:
    """A fetcher's partitions: each is in ``session``, or waits for memory or for its topic's limit, or neither."""

    def __init__(self, throttle: FetchThrottle) -> None:
        self.session: FetchSession[PartitionKey, FetchPosition] = FetchSession()
        self._throttle = throttle
        self.by_id = True
        self._copies: dict[PartitionKey, PartitionReplication] = {}
        self._keys: dict[PartitionReplication, PartitionKey] = {}
        #: Those to be looked at before the next request.
        self._touched: set[PartitionReplication] = set()
        self._without_memory: set[PartitionReplication] = set()
        #: Those whose topic's limit is used up, and when the first of them may go on.
        self._throttled: set[PartitionReplication] = set()
        self._throttled_until_s = 0.0
        self._behind: set[PartitionReplication] = set()

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def copies(self) -> Iterable[PartitionReplication]:
        """All of them."""
        return self._keys

    @property
    def waits_for_memory(self) -> bool:
        """Whether a partition is left out until acknowledgements free memory."""
        return bool(self._without_memory)

    @property
    def partitions_behind(self) -> int:
        """How many partitions in the session have more to bring, as far as is known."""
        return len(self._behind)

    def copy(self, key: PartitionKey) -> PartitionReplication | None:
        """Return the partition of an answer."""
        return self._copies.get(key)

    def add(self, copy: PartitionReplication) -> None:
        """Take part in fetching, from the partition's fetch offset on."""
        partition = copy.assignment.partition
        topic = topic_id_bytes(copy.assignment.source_topic_id) if self.by_id else partition.topic.encode()
        key = PartitionKey(topic, partition.partition)
        self._keys[copy] = key
        self._copies[key] = copy
        self._touched.add(copy)

    def remove(self, copy: PartitionReplication) -> None:
        """Leave a partition out."""
        key = self._keys.pop(copy, None)
        if key is not None:
            self._copies.pop(key, None)
            self.session.forget(key)
        for waiting in (self._touched, self._without_memory, self._throttled, self._behind):
            waiting.discard(copy)

    def touch(self, copy: PartitionReplication) -> bool:
        """Look at a partition before the next request; False if it is none of these."""
        if copy not in self._keys:
            return False
        self._touched.add(copy)
        return True

    def memory_freed(self) -> bool:
        """Look at those that wait for memory; returns whether one of them may be fetched now."""
        fitting = [copy for copy in self._without_memory if copy.wants_fetch]
        self._touched.update(fitting)
        return bool(fitting)

    def limits_changed(self) -> None:
        """Look at those that wait for a limit."""
        self._throttled_until_s = 0.0

    def restart(self, *, by_id: bool) -> None:
        """Begin a session on a new connection, which names topics by id or by name."""
        if by_id != self.by_id:
            self.by_id = by_id
            copies, self._copies, self._keys = list(self._keys), {}, {}
            self.session = FetchSession()
            for copy in copies:
                self.add(copy)
        self.session.restart()
        self._touched.update(self._keys)

    def is_asked_for(self, copy: PartitionReplication, key: PartitionKey) -> bool:
        """Whether an answer is for where the partition is now."""
        return self.session.position(key) == _position(copy)

    def throttled_s(self, now_s: float) -> float | None:
        """Seconds until a partition that waits for its topic's limit may go on; None: no partition does."""
        return self._throttled_until_s - now_s if self._throttled else None

    def update_session(self, now_s: float) -> None:
        """Put those that were touched into the session, or take them out of it."""
        if self._throttled and now_s >= self._throttled_until_s:
            self._touched |= self._throttled
            self._throttled.clear()
        for copy in self._touched:
            key = self._keys[copy]
            if copy.wants_fetch and self._is_throttled(copy, now_s):
                self._without_memory.discard(copy)
                self.session.forget(key)
            elif copy.wants_fetch:
                self._without_memory.discard(copy)
                self.session.want(key, _position(copy))
                if copy.behind:
                    self._behind.add(copy)
                else:
                    self._behind.discard(copy)
            else:
                self.session.forget(key)
                self._behind.discard(copy)
                if copy.state.fetches and not copy.fetched_all:
                    self._without_memory.add(copy)
                else:
                    self._without_memory.discard(copy)
        self._touched.clear()

    def partition_limits(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, int]:
        """Return how many bytes may be asked for of each partition that has a limit, or whose topic has one."""
        own = ((key, self._copies[key].fetch_limit_bytes) for key in keys)
        if not self._throttle.by_topic:
            return {key: limit_bytes for key, limit_bytes in own if limit_bytes is not None}
        found: dict[PartitionKey, int] = {}
        for key, limit_bytes in own:
            of_topic = self._throttle.partition_bytes(self._copies[key].source.topic)
            limits = [limit for limit in (limit_bytes, of_topic) if limit is not None]
            if limits:
                found[key] = min(limits)
        return found

    def _is_throttled(self, copy: PartitionReplication, now_s: float) -> bool:
        wait_s = self._throttle.topic_wait_s(copy.source.topic, now_s) if self._throttle.by_topic else 0.0
        if wait_s > 0:
            until_s = now_s + wait_s
            self._throttled_until_s = min(self._throttled_until_s, until_s) if self._throttled else until_s
            self._throttled.add(copy)
        return wait_s > 0


def _position(copy: PartitionReplication) -> FetchPosition:
    return FetchPosition(copy.fetch_offset, copy.fetch_epoch)
