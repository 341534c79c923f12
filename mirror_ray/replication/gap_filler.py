"""Fills offset gaps on a flow's target, of many partitions together.

Short ones by markers that are written to the leaders. Where that is not allowed, and for long ones, by one aborted
transaction after the other: its id is this replicator's own, and is asked for anew after anything unexpected, before
the log ends are read: what was under way is aborted then (docs/decisions/0012).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.leader_requests import LogEnd
from mirror_ray.kafka.produce_batch import produce_batch
from mirror_ray.kafka.transaction_markers import NOT_AUTHORIZED
from mirror_ray.kafka.transactions import NOT_ATTEMPTED, TransactionalProducer
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.records.batch import rewrite
from mirror_ray.records.filler import filler_batch, most_fillers
from mirror_ray.replication.marker_writer import MarkerWriter
from mirror_ray.replication.offset_gaps import SPARE_OFFSETS, OffsetGap, fillers_of
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.sender import Lease
from mirror_ray.replication.supervision import log_failure

log = logging.getLogger(__name__)

_PURPOSE: Final = "fillers"
#: The broker aborts a transaction that nobody ends.
_TRANSACTION_TIMEOUT_MS: Final = 30_000
#: Of a transaction: the requests and answers grow with them.
_MOST_PARTITIONS: Final = 1_000
#: Written at once: brokers take some thousand in a second.
_MOST_MARKERS: Final = 1_000
#: Of a gap, where each marker takes a transaction.
_MOST_TRANSACTIONS: Final = 16
_FIRST_POLL_S, _LAST_POLL_S = 0.001, 0.1

#: What a gap was filled to; None: what became of it is not known.
Filled = Callable[[PartitionReplication, int | None, str], None]


class GapFiller:
    """Runs until ``close``. ``on_filled(partition, end, why)`` is called for each ``request``.

    Guarantees: markers and fillers are inside the gap that was asked for, whatever fails and whenever this process
    ends; and no transaction is begun for a partition without its lease.
    """

    def __init__(
        self,
        target: ClusterConnections,
        transactional_id: str,
        *,
        most_markers: int,
        lease: Lease,
        on_filled: Filled,
        on_event: Callable[[str, str], None],
    ) -> None:
        """``on_event(level, text)`` is for the event log."""
        self._target, self._lease, self._on_filled, self._on_event = target, lease, on_filled, on_event
        self._most_markers = most_markers
        self._markers = MarkerWriter(target)
        #: Whether markers may be written to the leaders, as far as is known.
        self._may_mark = True
        self._producer = TransactionalProducer(target, transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS)
        #: Whether nothing is under way that ``_one_by_one`` does not know of.
        self._in_session = False
        #: Held while a transaction is open, and until its markers are in the logs.
        self._one_by_one = asyncio.Lock()
        self._waiting: dict[PartitionReplication, OffsetGap] = {}
        #: The next sequence of our fillers in each partition, within the producer's epoch.
        self._sequences: dict[TopicPartition, int] = {}
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"filling gaps as {transactional_id}")

    def request(self, copy: PartitionReplication, gap: OffsetGap) -> None:
        """Fill a gap, or a part of it, as soon as can be."""
        self._waiting[copy] = gap
        self._wake.set()

    def forget(self, copy: PartitionReplication) -> None:
        """The partition is not assigned here any more."""
        self._waiting.pop(copy, None)
        self._markers.forget(copy)

    async def settle(self) -> None:
        """Return once no marker or filler of this id is on its way: log ends may be read then.

        Raises:
            OSError, MirrorError: One may be.
        """
        async with self._one_by_one:
            await self._begin_session()

    async def _begin_session(self) -> None:
        if not self._in_session:
            await self._producer.begin_session()
            self._sequences.clear()
            self._in_session = True

    async def close(self) -> None:
        """End the loop. A transaction that is open is aborted by the broker, or by who takes the partitions over."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            if not self._waiting:
                await self._wake.wait()
            chosen = dict(list(self._waiting.items())[:_MOST_PARTITIONS])
            for copy in chosen:
                del self._waiting[copy]
            async with self._one_by_one:
                await self._fill(chosen)

    async def _fill(self, gaps: dict[PartitionReplication, OffsetGap]) -> None:
        left = dict(gaps)
        why = "its lease has run out"
        try:
            await self._begin_session()
            held = {copy: gap for copy, gap in left.items() if copy.state.sends and self._lease.holds(copy.source)}
            short = {copy: gap for copy, gap in held.items() if self._may_mark and not self._fillers(copy, gap)}
            if short:
                await self._mark(left, short)
            held = {copy: gap for copy, gap in held.items() if copy not in short}
            if held and (refused := await self._producer.add([copy.assignment.target for copy in held])):
                await self._give_up_refused(left, held, refused)
                return
            if held:
                await self._fill_and_abort(left, held)
        except Exception as error:  # noqa: BLE001 - whatever it is, the partitions read their log ends again
            self._in_session = False
            why = str(error)
            log_failure(f"filling gaps as {self._producer.transactional_id}", error)
        for copy in left:
            self._on_filled(copy, None, why)

    async def _mark(
        self, left: dict[PartitionReplication, OffsetGap], short: dict[PartitionReplication, OffsetGap]
    ) -> None:
        """Write markers to the leaders; take what was filled, or is asked for again, out of ``left``."""
        counts: dict[PartitionReplication, int] = {}
        room = _MOST_MARKERS
        for copy, gap in short.items():
            if room:
                counts[copy] = min(gap.length, room)
                room -= counts[copy]
            else:
                self.request(copy, left.pop(copy))
        for copy, error in (await self._markers.write(counts)).items():
            del counts[copy]
            await self._not_marked(copy, left.pop(copy), error)
        await self._wait_for({copy: short[copy].start + count for copy, count in counts.items()}, left)

    async def _not_marked(self, copy: PartitionReplication, gap: OffsetGap, error: str) -> None:
        partition = copy.assignment.target
        if error != NOT_AUTHORIZED:
            await self._target.refresh([partition.topic])
            self._on_filled(copy, None, f"remote topic {partition} takes no markers: {error}")
            return
        if self._may_mark:
            self._may_mark = False
            self._on_event(
                "warning",
                "gaps of offsets are filled by transactions, one for each offset: grant ALTER on the cluster "
                f"{self._target.settings.alias}, so that markers are written without (docs/decisions/0012)",
            )
        self.request(copy, gap)

    async def _give_up_refused(
        self,
        left: dict[PartitionReplication, OffsetGap],
        held: dict[PartitionReplication, OffsetGap],
        refused: dict[TopicPartition, str],
    ) -> None:
        """None was added: those that are in order are asked for again."""
        for copy in list(left):
            error = refused.get(copy.assignment.target, NOT_ATTEMPTED)
            if error == NOT_ATTEMPTED and copy in held:
                self.request(copy, left[copy])
            else:
                self._on_filled(copy, None, f"a transaction can't have {copy.assignment.target}: {error}")

    async def _fill_and_abort(
        self, left: dict[PartitionReplication, OffsetGap], held: dict[PartitionReplication, OffsetGap]
    ) -> None:
        """Take those that were filled out of ``left``."""
        fillers = {copy: count for copy, gap in held.items() if (count := self._fillers(copy, gap))}
        failed = await asyncio.gather(*(self._send_fillers(copy, count) for copy, count in fillers.items()))
        await self._producer.abort()
        ends = {copy: gap.start + fillers.get(copy, 0) + 1 for copy, gap in held.items()}
        for copy, why in zip(fillers, failed, strict=True):
            if why is not None:
                del ends[copy], left[copy]
                self._on_filled(copy, None, why)
        await self._wait_for(ends, left)

    def _fillers(self, copy: PartitionReplication, gap: OffsetGap) -> int:
        most = self._most_markers if self._may_mark else min(self._most_markers, _MOST_TRANSACTIONS)
        count = fillers_of(gap, most, SPARE_OFFSETS if self._may_mark else 0)
        return most_fillers(copy.assignment.max_message_bytes, count) if count else 0

    async def _send_fillers(self, copy: PartitionReplication, count: int) -> str | None:
        """Why a partition did not take its fillers; None: it has."""
        partition = copy.assignment.target
        sequence = self._sequences.get(partition, 0)
        batch = filler_batch(count, _timestamp_ms(copy), marked=True)
        rewrite(batch, *self._producer.producer, sequence, transactional=True)
        transactional_id = self._producer.transactional_id
        answer = await produce_batch(
            self._target, partition, batch.view, purpose=_PURPOSE, transactional_id=transactional_id
        )
        if answer.error_code:
            return f"remote topic {partition} refuses fillers: {error_info(answer.error_code).name}"
        self._sequences[partition] = (sequence + count) % SEQUENCE_MODULUS
        return None

    async def _wait_for(
        self, ends: dict[PartitionReplication, int], left: dict[PartitionReplication, OffsetGap]
    ) -> None:
        """Wait until the logs have come to these ends, and that is committed."""
        deadline_s = time.monotonic() + self._target.settings.request_timeout_ms / 1000
        pause_s = _FIRST_POLL_S
        while ends:
            logs = await self._target.log_ends({copy.assignment.target for copy in ends})
            for copy, end in list(ends.items()):
                found = logs[copy.assignment.target]
                if not found.error_code and found.end_offset >= end and found.high_watermark >= found.end_offset:
                    del ends[copy], left[copy]
                    why = _why_uncertain(copy, found, end)
                    self._on_filled(copy, None if why else end, why)
            if ends and time.monotonic() > deadline_s:
                raise MirrorError(f"markers of {self._producer.transactional_id} are not in the logs in time")
            if ends:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_POLL_S)


def _why_uncertain(copy: PartitionReplication, found: LogEnd, end: int) -> str:
    """Why the log has to be looked at, which has come to the ``end`` of what was written; empty: it need not be.

    Under another leader it may have lost what lies before that; and an epoch from before it would not cover the end.
    """
    target = copy.assignment.target
    if found.end_offset > end:
        return f"{target} has grown meanwhile"
    if copy.acknowledged.is_of_earlier_leader(found.leader_epoch):
        return f"{target} got another leader meanwhile"
    return ""


def _timestamp_ms(copy: PartitionReplication) -> int:
    """A neighbour's, so that retention treats fillers as the records around them."""
    neighbour_ms = copy.pipeline.ready[0].max_timestamp if copy.pipeline.ready else copy.progress.last_timestamp_ms
    return neighbour_ms if neighbour_ms >= 0 else time.time_ns() // 1_000_000
