"""What becomes of a flow's partitions after whatever happens to them.

They go round: ``establishing`` (the target's log end is read) -> homeless (nobody fetches them yet) -> ``copying`` (a
fetcher of the source leader and a sender of the target leader have them) -> after anything unexpected ``establishing``
again, with backoff, or ``stopped`` and looked at again later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowPartition
from mirror_ray.replication.broker_loops import BrokerLoops
from mirror_ray.replication.faults import ReplicationFault, contradicted, target_missing
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.retry import RetryTimes
from mirror_ray.replication.sender import RECORD_ERRORS, TRANSIENT

#: What a broker says of a topic that was deleted, and for a moment of one that was just created.
MISSING = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID"})


class Lifecycle:
    """The partitions of one flow in one replicator. ``wake()`` is called when there is something to do about one.

    ``on_event(level, text)`` is for the event log.

    Attributes:
        copies: All partitions that are assigned.
        retries: When each of them is looked at again.
        homeless: Those that nobody fetches, and the broker that was named for them; -1: the leader.
        stale_source: Whether the source's metadata is to be read again.
        stale_target: Whether the target's is.
    """

    def __init__(
        self,
        workers: BrokerLoops,
        *,
        now_s: Callable[[], float],
        wake: Callable[[], None],
        on_changed: Callable[[PartitionReplication], None],
        on_event: Callable[[str, str], None],
    ) -> None:
        self._workers = workers
        self._now_s, self._wake = now_s, wake
        self._on_changed, self._on_event = on_changed, on_event
        self.copies: dict[FlowPartition, PartitionReplication] = {}
        self.retries: dict[PartitionReplication, RetryTimes] = {}
        self.homeless: dict[PartitionReplication, int] = {}
        self.stale_source = self.stale_target = True

    def add(self, copy: PartitionReplication) -> None:
        """A partition was assigned."""
        self.copies[copy.assignment.partition] = copy
        self.retries[copy] = RetryTimes()
        self._on_changed(copy)
        self._wake()

    def remove(self, copy: PartitionReplication) -> None:
        """It is not assigned any more; what is in flight has an unknown outcome from here on."""
        self._detach(copy)
        copy.lost()
        self.copies.pop(copy.assignment.partition, None)
        self.retries.pop(copy, None)
        self._workers.room_made()

    # ---- what fetchers and senders say

    def ready(self, copy: PartitionReplication) -> None:
        """Something was fetched."""
        if copy.reason is None and self._workers.fetches(copy):
            self.retries[copy].moves = 0
        self._workers.schedule(copy)
        if copy.asks_source:
            self._wake()
        self._on_changed(copy)

    def acknowledged(self, copy: PartitionReplication) -> None:
        """The target took a batch."""
        retry = self.retries.get(copy)
        if retry is not None:
            if copy.trouble is retry.contradiction:
                copy.trouble = None
            retry.acknowledged()
        if copy.obstacle is not None and copy.drained:
            self.stop(copy, copy.obstacle)
        elif copy.needs_end or copy.asks_source:
            self._wake()
        self._on_changed(copy)

    def refused(self, copy: PartitionReplication, error: str, message: str | None) -> None:
        """An answer of the target; those behind the first refusal say nothing new."""
        if self._workers.sends(copy):
            self.back_off(copy, error, message)
        elif copy.needs_end:
            self._wake()

    def lost(self, copy: PartitionReplication) -> None:
        """The connection to the target's broker is gone."""
        if not copy.pipeline.in_flight and not self._workers.sends(copy):
            return
        copy.lost()
        self._workers.room_made()
        self.stale_target = True
        if copy.state != "stopped":
            self.again(copy, f"connection to the target broker of {copy.assignment.target} was lost")

    def moved(self, copy: PartitionReplication, broker_id: int) -> None:
        """Fetch from another broker: a follower that the leader names, or (-1) wherever the leader is now."""
        self._workers.stop_fetching(copy)
        if broker_id < 0:
            self.stale_source = True
        self.homeless[copy] = broker_id
        self.retries[copy].moved(self._now_s())
        self._wake()

    # ---- what is done about it

    def back_off(self, copy: PartitionReplication, error: str, message: str | None) -> None:
        """The target's leader refuses, by a Kafka error's name: again soon, or stopped."""
        self.stale_target = True
        target = copy.assignment.target
        text = f"remote topic {target} refuses records: {error}" + (f" ({message})" if message else "")
        if error in MISSING and self.retries[copy].fails_for_long:
            self.stop(copy, ReplicationFault(target_missing(target, error)))
        elif error == "OUT_OF_ORDER_SEQUENCE_NUMBER" and self.retries[copy].contradicted(copy.acknowledged):
            trouble = self.retries[copy].contradiction = contradicted(copy.assignment, copy.acknowledged)
            self.stop(copy, ReplicationFault(trouble))
        elif error in TRANSIENT or error in RECORD_ERRORS:
            self.again(copy, text)
        else:
            self.stop(copy, MirrorError(text))

    def stop(self, copy: PartitionReplication, error: Exception) -> None:
        """The partition alone stops; it is looked at again later."""
        retry = self.retries.get(copy)
        if retry is None:
            return
        reason = str(error) if isinstance(error, MirrorError) else f"{copy.assignment.partition}: {error!r}"
        if retry.told != reason:
            retry.told = reason
            kind = f"{error.trouble.kind}: " if isinstance(error, ReplicationFault) else ""
            self._on_event("error", f"{copy.assignment.partition} stopped, tried again later: {kind}{reason}")
        self._detach(copy)
        copy.rewind("stopped", reason)
        copy.trouble, copy.halted = (error.trouble, None) if isinstance(error, ReplicationFault) else (None, reason)
        retry.stopped(self._now_s())
        self.stale_source = self.stale_target = True
        self._went_back(copy)

    def again(self, copy: PartitionReplication, reason: str) -> None:
        """Something passing: read the target's end soon and go on from there."""
        retry = self.retries.get(copy)
        if retry is None:
            return
        self._detach(copy)
        retry.failed(self._now_s())
        copy.rewind("establishing", reason if retry.fails_for_long else copy.reason)
        self._went_back(copy)

    def unsettled(self, copy: PartitionReplication) -> None:
        """The target's leader holds more than is committed: what of it stays, its in-sync replicas will tell."""
        retry = self.retries[copy]
        retry.not_committed(self._now_s())
        if retry.unsettled_for_long and copy.state == "establishing":
            self.explain(
                copy,
                f"remote topic {copy.assignment.target}: not all that its leader holds is committed; are enough of its "
                "replicas in sync (min.insync.replicas)?",
            )

    def established(self, copy: PartitionReplication) -> None:
        """The target's end is known: somebody has to fetch."""
        self.retries[copy].established(self._now_s())
        copy.trouble = copy.trouble or self.retries[copy].contradiction
        self.homeless[copy] = -1
        self._on_changed(copy)

    def leaderless(self, copy: PartitionReplication, what: str) -> None:
        """Nobody can fetch or send it now."""
        self.stale_source = self.stale_target = True
        self.retries[copy].moved(self._now_s())
        self.explain(copy, f"no leader is known for {what}")

    def establish_again(self, copy: PartitionReplication) -> None:
        """Nothing is wrong, but the target's end is to be read again."""
        self._detach(copy)
        copy.rewind("establishing", copy.reason, wrong=False)

    def explain(self, copy: PartitionReplication, reason: str) -> None:
        """Say in its status what it waits for."""
        if copy.reason != reason:
            copy.reason = reason
            self._on_changed(copy)

    def explain_waiting(self, copies: Iterable[PartitionReplication], reason: str) -> None:
        """Say so of those whose target's end could not be read."""
        for copy in copies:
            if copy.state == "establishing":
                self.explain(copy, reason)

    def _went_back(self, copy: PartitionReplication) -> None:
        self._workers.room_made()
        self._on_changed(copy)
        self._wake()

    def _detach(self, copy: PartitionReplication) -> None:
        self._workers.detach(copy)
        self.homeless.pop(copy, None)
