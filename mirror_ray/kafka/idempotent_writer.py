"""Appends to a topic of ours in which a record must not be twice: by an idempotent producer of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.errors import KafkaProtocolError
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS
from mirror_ray.records.batch import rewrite
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode

#: The broker does not know our producer, or not as we do: the next one begins at sequence 0.
_FORGOTTEN: Final = frozenset(
    {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"}
)
_NO_RIGHT: Final = frozenset({"CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"})
_NO_PRODUCER: Final = (-1, -1)


class IdempotentWriter(InternalTopicWriter):
    """Appends with ``acks=all``, in order. One call at a time.

    Guarantees: what one instance was given is not appended twice, whatever becomes of connections and brokers; where
    the target grants no producer id, it may be after an answer that was lost.
    """

    _producer: tuple[int, int] | None = None
    _sequence: int = 0

    async def append_once(self, records: Sequence[KeyedRecord]) -> None:
        """Append all records as one batch: no more than fit into the topic's ``max.message.bytes``.

        Raises:
            OSError, MirrorError: They may not be there: give the same ones again before any others.
        """
        if self._producer is None:
            self._producer, self._sequence = await self._new_producer(), 0
        now_ms = time.time_ns() // 1_000_000
        tails = [record_tail(each.key, each.value, each.headers) for each in records]
        batch = encode([DecodedRecord(number, now_ms, tail) for number, tail in enumerate(tails)], "zstd")
        rewrite(batch, *self._producer, self._sequence if self._producer != _NO_PRODUCER else -1)
        try:
            await self._produce(batch.view)
        except KafkaProtocolError as error:
            if error.name in _FORGOTTEN:
                self._producer = None
            if error.name != "DUPLICATE_SEQUENCE_NUMBER":
                raise
        self._sequence = (self._sequence + len(records)) % SEQUENCE_MODULUS

    async def _new_producer(self) -> tuple[int, int]:
        try:
            return await self._cluster.init_producer_id()
        except KafkaProtocolError as error:
            if error.name in _NO_RIGHT:
                return _NO_PRODUCER
            raise
