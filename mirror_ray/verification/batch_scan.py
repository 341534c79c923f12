"""Reads batches of a log as they lie there: whoever wrote them, committed or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from mirror_ray.kafka.partition_reader import read_between
from mirror_ray.model.errors import ClusterUnreachableError, KafkaProtocolError
from mirror_ray.records.batch import RecordBatch
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.uncompared import Span

#: A leader that shows nothing for so long fails the whole.
_PATIENCE_S = 30.0
_AGAIN_S = 0.2


async def batches_in(log: PartitionLog, spans: Iterable[Span]) -> AsyncIterator[RecordBatch]:
    """Batches with records at offsets in ``spans``, in order; what is removed meanwhile is passed over.

    Raises:
        ClusterUnreachableError: The leader does not answer, or does not show what its log holds.
        CorruptBatchError: A batch does not fit its checksum.
    """
    clock = asyncio.get_running_loop().time
    for first, end in spans:
        at, heard_s = first, clock()
        while at < end:
            try:
                async for batches in _read(log, at, end):
                    heard_s = clock()
                    for batch in batches:
                        at = max(at, batch.next_offset)
                        if batch.count and not batch.is_control and batch.next_offset > first:
                            yield batch
                at = end
            except (OSError, TimeoutError, KafkaProtocolError) as error:
                if clock() - heard_s > _PATIENCE_S:
                    alias = log.cluster.settings.alias
                    raise ClusterUnreachableError(f"cluster {alias}: {log.partition} can't be read: {error}") from error
                await asyncio.sleep(_AGAIN_S)
                await log.cluster.refresh([log.partition.topic])
                at = max(at, await log.start())


async def _read(log: PartitionLog, first: int, end: int) -> AsyncIterator[list[RecordBatch]]:
    reading = aiter(read_between(log.cluster, log.partition, log.topic_id, first, end, purpose=log.purpose))
    while True:
        try:
            batches, _ = await asyncio.wait_for(anext(reading), _PATIENCE_S)
        except StopAsyncIteration:
            return
        yield batches
