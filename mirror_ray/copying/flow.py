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
from mirror_ray.copying.fetcher import Fetcher
from mirror_ray.copying.partition import Budget, PartitionCopy
from mirror_ray.copying.sender import TRANSIENT, Sender
from mirror_ray.copying.tails import read_tails
from mirror_ray.kafka import fetch
from mirror_ray.kafka.cluster import Cluster
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.offsets import LogEnd
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowPartition, TopicPartition
from mirror_ray.records.batch import Batch

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LAST_RETRY_S = 0.02, 2.0
_FIRST_STOPPED_RETRY_S, _LAST_STOPPED_RETRY_S = 2.0, 30.0
#: The target's log end and its high watermark usually meet within a fetch round of its followers.
_HIGH_WATERMARK_RETRY_S = 0.02
#: Transient failures in a row after which the partition's status tells of them.
_FAILURES_UNNOTICED = 5
_METADATA_PAUSE_S = 0.1


@dataclass(slots=True)
class Retry:
    """When a partition is looked at again, and how often in a row that was needed."""

    at_s: float = 0.0
    failures: int = 0


class FlowCopier:
    """Copies the partitions that ``assign`` brings until ``remove`` takes them away."""

    def __init__(
        self,
        settings: FlowSettings,
        source: Cluster,
        target: Cluster,
        budget: Budget,
        *,
        on_changed: Callable[[PartitionCopy], None],
        on_event: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._source, self._target = source, target
        self._budget = budget
        self._on_changed, self._on_event = on_changed, on_event
        self._copies: dict[FlowPartition, PartitionCopy] = {}
        self._retries: dict[PartitionCopy, Retry] = {}
        self._fetching: dict[PartitionCopy, Fetcher] = {}
        self._sending: dict[PartitionCopy, Sender] = {}
        self._homeless: dict[PartitionCopy, int] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._senders: dict[int, Sender] = {}
        self._homeless_rounds = 0
        self._stale_source = self._stale_target = True
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"flow {settings.name}")

    def assign(self, assignment: Assignment) -> None:
        """Take a partition over. Its copy begins where the target's log end says."""
        if assignment.partition in self._copies:
            self._detach(self._copies[assignment.partition])
        copy = PartitionCopy(
            assignment,
            self._budget,
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
        self._copies.pop(copy.assignment.partition, None)
        self._retries.pop(copy, None)

    async def close(self) -> None:
        """Stop every loop. Partitions should have been drained before."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(fetcher.close() for fetcher in self._fetchers.values()))
        await asyncio.gather(*(sender.close() for sender in self._senders.values()))
        await asyncio.gather(self._source.close(), self._target.close())

    # ---- called by fetchers and senders

    def _ready(self, copy: PartitionCopy) -> None:
        sender = self._sending.get(copy)
        if sender is not None:
            sender.schedule(copy)
        self._on_changed(copy)

    def _acknowledged(self, copy: PartitionCopy) -> None:
        retry = self._retries.get(copy)
        if retry is not None:
            retry.failures = 0
        if copy.needs_end:
            self._wake.set()
        self._on_changed(copy)

    def _answered(self) -> None:
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
        text = f"remote topic {copy.assignment.target} refuses records: {error}" + (f" ({message})" if message else "")
        if error in TRANSIENT:
            self._again(copy, text)
        else:
            self._stop(copy, text)

    def _lost(self, copy: PartitionCopy) -> None:
        if not copy.in_flight and copy not in self._sending:
            return
        copy.lost()
        self._stale_target = True
        self._again(copy, f"connection to the target broker of {copy.assignment.target} was lost")

    def _stop(self, copy: PartitionCopy, reason: str) -> None:
        """The partition alone stops; it is looked at again later."""
        retry = self._retries.get(copy)
        if retry is None:
            return
        if copy.reason != reason:
            self._on_event(f"{copy.assignment.partition} stopped: {reason}")
        self._detach(copy)
        copy.rewind("stopped", reason)
        retry.failures += 1
        delay_s = min(_FIRST_STOPPED_RETRY_S * 2 ** (retry.failures - 1), _LAST_STOPPED_RETRY_S)
        retry.at_s = asyncio.get_running_loop().time() + delay_s
        self._stale_source = self._stale_target = True
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
        delay_s = min(_FIRST_RETRY_S * 2 ** min(retry.failures, 10), _LAST_RETRY_S)
        retry.at_s = asyncio.get_running_loop().time() + delay_s
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
        self._wake.set()

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
                due = [copy for copy, retry in self._retries.items() if copy.needs_end and retry.at_s <= loop.time()]
                if due:
                    await self._establish(due)
                self._place()
            except (OSError, TimeoutError, MirrorError) as error:
                log.warning("flow %s: %s", self._settings.name, error)
                self._note_trouble(str(error))
                await asyncio.sleep(_METADATA_PAUSE_S * 5)
                continue
            try:
                async with asyncio.timeout(self._pause_s(loop.time())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _pause_s(self, now_s: float) -> float:
        if self._homeless:
            self._homeless_rounds += 1
            return float(min(_METADATA_PAUSE_S * 2**self._homeless_rounds, _LAST_RETRY_S))
        self._homeless_rounds = 0
        waits = [retry.at_s - now_s for copy, retry in self._retries.items() if copy.needs_end]
        return max(0.001, min(waits, default=60.0))

    def _note_trouble(self, text: str) -> None:
        for copy in self._copies.values():
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
        by_target = {copy.assignment.target: copy for copy in copies}
        ends = await self._target.log_ends(list(by_target))
        settled: dict[TopicPartition, LogEnd] = {}
        for target, end in ends.items():
            copy = by_target[target]
            if end.error_code:
                self._back_off(copy, error_info(end.error_code).name, None)
            elif end.end_offset != end.high_watermark:
                self._retries[copy].at_s = asyncio.get_running_loop().time() + _HIGH_WATERMARK_RETRY_S
            else:
                settled[target] = end
        wanted = {t: e.end_offset for t, e in settled.items() if by_target[t].needs_tail(e.end_offset)}
        tails = await read_tails(self._target, {t: by_target[t].assignment.target_topic_id for t in wanted}, wanted)
        for target, end in settled.items():
            if target in tails.errors:
                self._back_off(by_target[target], error_info(tails.errors[target]).name, "reading its last batch")
            else:
                self._settle(by_target[target], end.end_offset, tails.batches.get(target))

    def _settle(self, copy: PartitionCopy, end: int, tail: Batch | None) -> None:
        if not copy.needs_end:
            return
        try:
            copy.established(end, tail)
        except MirrorError as stopped:
            self._stop(copy, str(stopped))
            return
        self._homeless[copy] = -1
        self._on_changed(copy)

    def _place(self) -> None:
        """Give each partition without one its fetcher and its sender, by the leaders that the metadata names."""
        for copy, broker_id in list(self._homeless.items()):
            if copy.state != "copying":
                self._homeless.pop(copy)
                continue
            partition, target = copy.assignment.partition, copy.assignment.target
            reader = (
                broker_id if broker_id in self._source.metadata.brokers else _leader(self._source, partition.source)
            )
            writer = _leader(self._target, target)
            if reader < 0 or writer < 0:
                self._stale_source, self._stale_target = reader < 0, writer < 0
                copy.reason = (
                    f"no leader is known for {f'source {partition.source}' if reader < 0 else f'remote {target}'}"
                )
                self._on_changed(copy)
                continue
            self._homeless.pop(copy)
            self._sending[copy] = self._sender(writer)
            self._sending[copy].schedule(copy)
            self._fetching[copy] = self._fetcher(reader)
            self._fetching[copy].add(copy)

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
                purpose="fetch",
                on_ready=self._ready,
                on_stopped=self._stop,
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
                on_answered=self._answered,
                on_acknowledged=self._acknowledged,
                on_refused=self._refused,
                on_stopped=self._stop,
                on_lost=self._lost,
            )
        return self._senders[broker_id]


def _leader(cluster: Cluster, partition: TopicPartition) -> int:
    topic = cluster.metadata.topics.get(partition.topic)
    found = topic.partitions.get(partition.partition) if topic is not None else None
    return found.leader if found is not None else -1
