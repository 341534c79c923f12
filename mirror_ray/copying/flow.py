"""One flow's data path inside one replicator: its partitions, and the loops that fetch and send for them.

Partitions go round: ``establishing`` (the target's log end is read, in groups) -> ``copying`` (a fetcher of the source
leader and a sender of the target leader have it) -> after anything unexpected ``establishing`` again, with backoff.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordination.state import state_topic
from mirror_ray.copying.backoff import backoff_s
from mirror_ray.copying.establishing import Refused, Seen, look_at_targets
from mirror_ray.copying.fetcher import Fetcher
from mirror_ray.copying.outgoing import Budget
from mirror_ray.copying.partition import PartitionCopy
from mirror_ray.copying.sender import RECORD_ERRORS, TRANSIENT, Sender
from mirror_ray.copying.state_reader import StateReader
from mirror_ray.copying.survey import Survey
from mirror_ray.copying.troubled import Troubled, recreated, target_missing
from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.offsets import EARLIEST, LATEST
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.lease import LeaseTerms
from mirror_ray.model.names import NO_TOPIC_ID, FlowPartition, TopicId, TopicPartition

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LAST_RETRY_S = 0.02, 2.0
_FIRST_STOPPED_RETRY_S, _LAST_STOPPED_RETRY_S = 2.0, 30.0
#: The target's log end and its high watermark usually meet within a fetch round of its followers; they don't while too
#: few of its replicas are in sync.
_FIRST_UNSETTLED_RETRY_S, _LAST_UNSETTLED_RETRY_S = 0.02, 0.5
#: Transient failures in a row after which the partition's status tells of them.
_FAILURES_UNNOTICED = 5
_TROUBLE_PAUSE_S = 0.5
#: A shared remote topic grows without us: an idle copy's anchor follows its end, so that ours is soon found behind it.
_SHARED_REFRESH_S = 60.0
#: What a broker says of a topic that was deleted, and for a moment of one that was just created.
_MISSING = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID"})


@dataclass(slots=True)
class Retry:
    """When a partition is looked at again, and how often in a row that was needed."""

    at_s: float = 0.0
    #: On the target's side, until an acknowledgement.
    failures: int = 0
    #: On the source's side, until something is fetched.
    moves: int = 0
    #: What the event log was told when it stopped, until an acknowledgement.
    told: str | None = None
    #: When the target's end was read last, and how often before it was not committed.
    established_s: float = 0.0
    unsettled: int = 0


class FlowCopier:
    """Copies the partitions that ``assign`` brings until ``remove`` takes them away."""

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: Cluster,
        budget: Budget,
        terms: LeaseTerms,
        *,
        on_changed: Callable[[PartitionCopy], None],
        on_outdated: Callable[[PartitionCopy, int], None],
        on_event: Callable[[str], None],
    ) -> None:
        """``on_outdated(copy, epoch)``: somebody else has the partition, with that epoch; remove it."""
        self._settings = settings
        self._source, self._target = source, target
        self.budget = budget
        self._on_changed, self._on_outdated, self._on_event = on_changed, on_outdated, on_event
        self._copies: dict[FlowPartition, PartitionCopy] = {}
        self._retries: dict[PartitionCopy, Retry] = {}
        self._fetching: dict[PartitionCopy, Fetcher] = {}
        self._sending: dict[PartitionCopy, Sender] = {}
        self._homeless: dict[PartitionCopy, int] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._senders: dict[int, Sender] = {}
        self._stale_source = self._stale_target = True
        self._wake = asyncio.Event()
        name = settings.name
        self._targets, self._sources = (
            Survey(f"flow {name}: {what}", ask, on_done=self._wake.set, on_failed=self._unanswered)
            for what, ask in (("looking at targets", self._establish), ("looking at sources", self._ask_source))
        )
        self._no_lease: str | None = None
        self._lease = StateReader(
            target,
            state_topic(settings.name.source),
            terms,
            on_outdated=self._outdated,
            on_lease=self._lease_changed,
        )
        self._task = asyncio.create_task(self._run(), name=f"flow {settings.name}")

    def assign(self, assignment: Assignment) -> bool:
        """Take over a partition that is not assigned here. Its copy begins where the target's log end says.

        Returns:
            False when a higher epoch is known: somebody else has it by now.
        """
        if not self._lease.assign(assignment):
            return False
        copy = PartitionCopy(
            assignment,
            self.budget,
            buffer_limit_bytes=2 * self._settings.fetch.max_partition_bytes,
            read_committed=self._settings.fetch.isolation_level == "read_committed",
        )
        self._copies[assignment.partition] = copy
        self._retries[copy] = Retry()
        if assignment.partition.topic not in self._source.metadata.topics:
            self._stale_source = True
        if assignment.target.topic not in self._target.metadata.topics:
            self._stale_target = True
        self._on_changed(copy)
        self._wake.set()
        return True

    def copy(self, partition: FlowPartition) -> PartitionCopy | None:
        """The partition's state, if it is assigned here."""
        return self._copies.get(partition)

    @property
    def copies(self) -> Iterable[PartitionCopy]:
        """All partitions of this flow that are assigned here."""
        return self._copies.values()

    def drain(self, copy: PartitionCopy) -> None:
        """Fetch nothing more for the partition; what is buffered still goes out."""
        copy.draining = True
        fetcher = self._fetching.get(copy)
        if fetcher is not None:
            fetcher.touch(copy)

    def remove(self, copy: PartitionCopy) -> None:
        """Forget the partition; what is in flight has an unknown outcome from here on."""
        self._detach(copy)
        copy.lost()
        self._lease.drop(copy.assignment.partition.source)
        self._copies.pop(copy.assignment.partition, None)
        self._retries.pop(copy, None)
        self._room_made()

    async def close(self) -> None:
        """Stop every loop. Partitions should have been drained before."""
        self._task.cancel()
        await asyncio.gather(
            self._task, self._lease.close(), self._targets.close(), self._sources.close(), return_exceptions=True
        )
        await asyncio.gather(*(fetcher.close() for fetcher in self._fetchers.values()))
        await asyncio.gather(*(sender.close() for sender in self._senders.values()))
        await asyncio.gather(self._source.close(), self._target.close())

    # ---- called by the reader of the state topic

    def _outdated(self, source: TopicPartition, epoch: int) -> None:
        copy = self._copies.get(FlowPartition(self._settings.name, source.topic, source.partition))
        if copy is not None:
            self._on_outdated(copy, epoch)

    def _lease_changed(self, problem: str | None) -> None:
        """Nothing may be sent, or everything again.

        Nobody else can have had a partition in between, or a higher epoch would have been seen: what is in flight is
        still answered in order, and the sequences go on as if nothing had been.
        """
        before, self._no_lease = self._no_lease, problem
        if problem is not None and before is None:
            self._on_event(f"flow {self._settings.name}: {problem}")
        elif problem is None and before is not None:
            self._on_event(f"flow {self._settings.name}: the state topic can be read again: copying goes on")
        for copy in self._copies.values():
            if (copy.state == "copying" and problem is not None) or (before is not None and copy.reason == before):
                copy.reason = problem
                self._on_changed(copy)
        if problem is None:
            for sender in self._senders.values():
                sender.wake()

    # ---- called by fetchers and senders

    def _ready(self, copy: PartitionCopy) -> None:
        if copy.reason is None and copy in self._fetching:
            self._retries[copy].moves = 0
        sender = self._sending.get(copy)
        if sender is not None:
            sender.schedule(copy)
        if copy.asks_source:
            self._wake.set()
        self._on_changed(copy)

    def _acknowledged(self, copy: PartitionCopy) -> None:
        retry = self._retries.get(copy)
        if retry is not None:
            retry.failures, retry.told = 0, None
        if copy.obstacle is not None and copy.drained:
            self._stop(copy, copy.obstacle)
        elif copy.needs_end or copy.asks_source:
            self._wake.set()
        self._on_changed(copy)

    def _room_made(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.room_made()

    def _refused(self, copy: PartitionCopy, error: str, message: str | None) -> None:
        """An answer of a sender; those behind the first refusal say nothing new."""
        if copy in self._sending:
            self._back_off(copy, error, message)
        elif copy.needs_end:
            self._wake.set()

    def _back_off(self, copy: PartitionCopy, error: str, message: str | None) -> None:
        self._stale_target = True
        target = copy.assignment.target
        text = f"remote topic {target} refuses records: {error}" + (f" ({message})" if message else "")
        missing = error in _MISSING and self._retries[copy].failures >= _FAILURES_UNNOTICED
        if missing:
            self._stop(copy, Troubled(target_missing(target, error)))
        elif error in TRANSIENT or error in RECORD_ERRORS:
            self._again(copy, text)
        else:
            self._stop(copy, MirrorError(text))

    def _lost(self, copy: PartitionCopy) -> None:
        if not copy.pipeline.in_flight and copy not in self._sending:
            return
        copy.lost()
        self._room_made()
        self._stale_target = True
        if copy.state != "stopped":
            self._again(copy, f"connection to the target broker of {copy.assignment.target} was lost")

    def _stop(self, copy: PartitionCopy, error: Exception) -> None:
        """The partition alone stops; it is looked at again later."""
        retry = self._retries.get(copy)
        if retry is None:
            return
        reason = str(error) if isinstance(error, MirrorError) else f"{copy.assignment.partition}: {error!r}"
        if retry.told != reason:
            retry.told = reason
            self._on_event(f"{copy.assignment.partition} stopped: {reason}")
        self._detach(copy)
        copy.rewind("stopped", reason)
        copy.trouble = error.trouble if isinstance(error, Troubled) else None
        retry.failures += 1
        delay_s = backoff_s(retry.failures - 1, _FIRST_STOPPED_RETRY_S, _LAST_STOPPED_RETRY_S)
        retry.at_s = asyncio.get_running_loop().time() + delay_s
        self._stale_source = self._stale_target = True
        self._room_made()
        self._on_changed(copy)
        self._wake.set()

    def _again(self, copy: PartitionCopy, reason: str) -> None:
        """Something passing: read the target's end soon and go on from there."""
        retry = self._retries.get(copy)
        if retry is None:
            return
        self._detach(copy)
        retry.failures += 1
        copy.rewind("establishing", reason if retry.failures > _FAILURES_UNNOTICED else copy.reason)
        retry.at_s = asyncio.get_running_loop().time() + backoff_s(retry.failures, _FIRST_RETRY_S, _LAST_RETRY_S)
        self._room_made()
        self._on_changed(copy)
        self._wake.set()

    def _moved(self, copy: PartitionCopy, broker_id: int) -> None:
        """Fetch from another broker: a follower that the leader names, or (-1) wherever the leader is now."""
        fetcher = self._fetching.pop(copy, None)
        if fetcher is not None:
            fetcher.remove(copy)
        if broker_id < 0:
            self._stale_source = True
        self._homeless[copy] = broker_id
        self._put_off(copy)
        self._wake.set()

    def _put_off(self, copy: PartitionCopy) -> None:
        """Place it at once if it was fetched from lately, else later each time."""
        retry = self._retries[copy]
        delay_s = backoff_s(retry.moves, _FIRST_RETRY_S, _LAST_RETRY_S) if retry.moves else 0.0
        retry.at_s = asyncio.get_running_loop().time() + delay_s
        retry.moves += 1

    def _detach(self, copy: PartitionCopy) -> None:
        fetcher = self._fetching.pop(copy, None)
        if fetcher is not None:
            fetcher.remove(copy)
        sender = self._sending.pop(copy, None)
        if sender is not None:
            sender.remove(copy)
        self._homeless.pop(copy, None)

    # ---- the loop that puts partitions where they belong

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            try:
                await self._refresh_metadata()
                self._refresh_shared(loop.time())
                now_s = loop.time()
                self._targets.begin(
                    (copy for copy, retry in self._retries.items() if copy.needs_end and retry.at_s <= now_s),
                    lambda copy: self._target.metadata.leader(copy.assignment.target),
                )
                self._sources.begin(
                    (copy for copy in self._copies.values() if copy.asks_source),
                    lambda copy: self._source.metadata.leader(copy.assignment.partition.source),
                )
                self._place(now_s)
            except Exception as error:
                unforeseen = not isinstance(error, OSError | MirrorError)
                log.warning("flow %s: %s", self._settings.name, error, exc_info=unforeseen)
                self._stale_source = self._stale_target = True
                self._note_trouble(self._copies.values(), str(error))
                await asyncio.sleep(_TROUBLE_PAUSE_S)
                continue
            try:
                async with asyncio.timeout(self._pause_s(loop.time())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _pause_s(self, now_s: float) -> float:
        waits = [
            retry.at_s - now_s
            for copy, retry in self._retries.items()
            if (copy.needs_end and copy not in self._targets) or copy in self._homeless
        ]
        return max(0.001, min(waits, default=60.0))

    def _unanswered(self, copies: list[PartitionCopy], text: str) -> None:
        self._stale_source = self._stale_target = True
        for copy in copies:
            if copy.asks_source:
                self._again(copy, text)
            if copy in self._retries:
                self._retries[copy].at_s = asyncio.get_running_loop().time() + _TROUBLE_PAUSE_S
        self._note_trouble(copies, text)

    def _note_trouble(self, copies: Iterable[PartitionCopy], text: str) -> None:
        for copy in copies:
            if copy.state == "establishing" and copy.reason != text:
                copy.reason = text
                self._on_changed(copy)

    async def _refresh_metadata(self) -> None:
        if self._stale_source and self._copies:
            self._stale_source = False
            await self._source.refresh({key.topic for key in self._copies})
        if self._stale_target and self._copies:
            self._stale_target = False
            await self._target.refresh({copy.assignment.target.topic for copy in self._copies.values()})

    async def _establish(self, copies: list[PartitionCopy]) -> None:
        """Read the target's log ends and let the copies go on from there."""
        there: list[PartitionCopy] = []
        for copy in copies:
            assignment = copy.assignment
            found = _another(self._target, assignment.target, assignment.target_topic_id)
            if found is None:
                there.append(copy)
            else:
                topic = assignment.target.topic
                self._stop(copy, Troubled(recreated("remote", topic, found, assignment.target_topic_id)))
        for copy, look in (await look_at_targets(self._target, there)).items():
            if copy not in self._retries:
                continue
            if isinstance(look, Seen):
                self._settle(copy, look)
            elif isinstance(look, Refused):
                self._back_off(copy, look.error, look.what)
            else:
                self._unsettled(copy)

    def _unsettled(self, copy: PartitionCopy) -> None:
        """The target's leader holds more than is committed: what of it stays, its in-sync replicas will tell."""
        retry = self._retries.get(copy)
        if retry is None:
            return
        delay_s = backoff_s(retry.unsettled, _FIRST_UNSETTLED_RETRY_S, _LAST_UNSETTLED_RETRY_S)
        retry.at_s = asyncio.get_running_loop().time() + delay_s
        retry.unsettled += 1
        if retry.unsettled > _FAILURES_UNNOTICED and copy.state == "establishing":
            copy.reason = (
                f"remote topic {copy.assignment.target}: not all that its leader holds is committed; are enough of its "
                "replicas in sync (min.insync.replicas)?"
            )
            self._on_changed(copy)

    def _settle(self, copy: PartitionCopy, seen: Seen) -> None:
        if not copy.needs_end:
            return
        try:
            copy.established(seen.log, seen.contents)
        except MirrorError as error:
            self._stop(copy, error)
            return
        retry = self._retries[copy]
        retry.established_s, retry.unsettled = asyncio.get_running_loop().time(), 0
        self._homeless[copy] = -1
        self._on_changed(copy)

    def _refresh_shared(self, now_s: float) -> None:
        for copy in self._copies.values():
            idle = copy.assignment.shared and copy.state == "copying" and copy.settled
            if idle and now_s - self._retries[copy].established_s > _SHARED_REFRESH_S:
                self._detach(copy)
                copy.rewind("establishing", copy.reason)

    async def _ask_source(self, copies: list[PartitionCopy]) -> None:
        """Where the source's logs begin and end: their leaders' own ends, once committed."""
        by_source = {copy.assignment.partition.source: copy for copy in copies}
        starts = await self._source.list_offsets(dict.fromkeys(by_source, EARLIEST), "read_uncommitted")
        ends = await self._source.log_ends(list(by_source))
        stable = await self._source.list_offsets(dict.fromkeys(by_source, LATEST), self._settings.fetch.isolation_level)
        for source, copy in by_source.items():
            start, end = starts[source], ends[source]
            error = start.error_code or end.error_code or stable[source].error_code
            if not copy.asks_source or copy not in self._retries:
                continue
            if error or end.end_offset != end.high_watermark:
                name = error_info(error).name if error else "not all is committed"
                self._again(copy, f"source partition {source}: {name}")
                continue
            try:
                copy.source_bounds(start.offset, end.end_offset, stable[source].offset)
            except MirrorError as trouble:
                self._stop(copy, trouble)
                continue
            if copy.state == "establishing":
                self._again(copy, f"source partition {source} was cleaned meanwhile")
            elif copy in self._fetching:
                self._fetching[copy].touch(copy)

    def _place(self, now_s: float) -> None:
        """Give each partition without one its fetcher and its sender, by the leaders that the metadata names."""
        for copy, broker_id in list(self._homeless.items()):
            if copy.state != "copying":
                self._homeless.pop(copy)
            elif self._retries[copy].at_s <= now_s and self._is_there(copy):
                source, target = copy.assignment.partition.source, copy.assignment.target
                brokers = self._source.metadata
                reader = broker_id if broker_id in brokers.brokers else brokers.leader(source)
                writer = self._target.metadata.leader(target)
                if reader < 0 or writer < 0:
                    self._leaderless(copy, f"source {source}" if reader < 0 else f"remote {target}")
                    continue
                self._homeless.pop(copy)
                # One that sends already must not change brokers with batches in flight: a refusal will tell it to.
                if copy not in self._sending:
                    self._sending[copy] = self._sender(writer)
                self._sending[copy].schedule(copy)
                self._fetching[copy] = self._fetcher(reader)
                self._fetching[copy].add(copy)

    def _leaderless(self, copy: PartitionCopy, what: str) -> None:
        self._stale_source = self._stale_target = True
        self._put_off(copy)
        copy.reason = f"no leader is known for {what}"
        self._on_changed(copy)

    def _is_there(self, copy: PartitionCopy) -> bool:
        """Whether the source topic is the one that was assigned, as far as metadata tells; stops the copy if not."""
        source = copy.assignment.partition.source
        another = _another(self._source, source, copy.assignment.source_topic_id)
        error = _topic_error(self._source, source)
        if another is not None:
            assigned = copy.assignment.source_topic_id
            self._stop(copy, Troubled(recreated("source", source.topic, another, assigned)))
        elif error is not None and (error not in TRANSIENT or self._retries[copy].moves > _FAILURES_UNNOTICED):
            hint = "; was it deleted?" if error in _MISSING else ""
            self._stop(copy, MirrorError(f"source topic {source.topic} can't be read: {error}{hint}"))
        return copy in self._homeless

    def _fetcher(self, broker_id: int) -> Fetcher:
        if broker_id not in self._fetchers:
            settings = self._settings.fetch
            parameters = fetch.FetchParameters(
                max_wait_ms=settings.max_wait_ms,
                min_bytes=settings.min_bytes,
                max_bytes=settings.max_bytes,
                max_partition_bytes=settings.max_partition_bytes,
                read_committed=settings.isolation_level == "read_committed",
                rack=self._source.settings.client_rack or "",
            )
            self._fetchers[broker_id] = Fetcher(
                self._source,
                broker_id,
                parameters,
                self.budget,
                purpose="fetch",
                receive_buffer_bytes=settings.receive_buffer_bytes,
                on_ready=self._ready,
                on_stopped=self._stop,
                on_again=self._again,
                on_moved=self._moved,
            )
        return self._fetchers[broker_id]

    def _sender(self, broker_id: int) -> Sender:
        if broker_id not in self._senders:
            settings = self._settings.produce
            self._senders[broker_id] = Sender(
                self._target,
                broker_id,
                purpose="produce",
                max_request_bytes=settings.max_request_bytes,
                timeout_ms=settings.request_timeout_ms,
                send_buffer_bytes=settings.send_buffer_bytes,
                lease=self._lease,
                on_answered=self._room_made,
                on_acknowledged=self._acknowledged,
                on_refused=self._refused,
                on_stopped=self._stop,
                on_lost=self._lost,
            )
        return self._senders[broker_id]


def _topic_error(cluster: Cluster, partition: TopicPartition) -> str | None:
    topic = cluster.metadata.topics.get(partition.topic)
    return error_info(topic.error_code).name if topic is not None and topic.error_code else None


def _another(cluster: Cluster, partition: TopicPartition, assigned: TopicId) -> TopicId | None:
    """The id of the topic of that name, where it is not the one that was assigned."""
    topic = cluster.metadata.topics.get(partition.topic)
    if topic is None or NO_TOPIC_ID in {topic.topic_id, assigned} or topic.topic_id == assigned:
        return None
    return topic.topic_id
