"""Transactions of one transactional id (KIP-98), as clients before transactions v2 (KIP-890) ask for them."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from kio.index import load_entity_module
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import error_info, protocol_error
from mirror_ray.kafka.group_coordinators import GroupError, find_coordinators
from mirror_ray.model.errors import KafkaProtocolError
from mirror_ray.model.names import TopicPartition

#: The error of partitions that are in order, where others in the same request are not.
NOT_ATTEMPTED: Final = "OPERATION_NOT_ATTEMPTED"

_INIT_KEY, _INIT_VERSIONS = 22, (2, 4)
_ADD_KEY, _ADD_VERSIONS = 24, (2, 3)
_END_KEY, _END_VERSIONS = 26, (2, 3)
_TRANSACTION: Final = 1
_PURPOSE: Final = "transactions"

#: The coordinator is another broker, or loads.
_MOVED: Final = frozenset({"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"})
#: The markers of the transaction before are still being written.
_ENDING: Final = "CONCURRENT_TRANSACTIONS"
#: Errors that are answered for each partition, and are about all of them.
_OF_THE_ID: Final = frozenset(
    {
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
        "PRODUCER_FENCED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    }
)
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.001, 0.1


class TransactionalProducer:
    """Adds partitions to transactions and aborts these; the records are sent by others. One call at a time.

    Each call waits for a coordinator that moves, and for the markers of the transaction before, no longer than
    ``request.timeout.ms`` of the cluster. Where it is not known what became of a call, ``begin_session`` goes on.
    """

    def __init__(self, cluster: ClusterConnections, transactional_id: str, *, transaction_timeout_ms: int) -> None:
        """Nothing is sent yet. A transaction that is open for ``transaction_timeout_ms`` is aborted by the broker."""
        self.transactional_id = transactional_id
        #: Producer id and epoch, from ``begin_session`` on.
        self.producer = (-1, -1)
        self._cluster = cluster
        self._timeout_ms = transaction_timeout_ms
        self._coordinator = -1

    async def begin_session(self) -> None:
        """Have the id given to this process: who had it before is fenced, and its open transaction is aborted.

        The markers of that transaction are in the logs when this returns.

        Raises:
            ConnectionError, MirrorError: It is not known whether that was done.
        """

        async def ask(connection: Connection) -> Any:
            module = _requests("init_producer_id", connection.best_version(_INIT_KEY, *_INIT_VERSIONS))
            timeout = i32Timedelta.parse(dt.timedelta(milliseconds=self._timeout_ms))
            return await connection.request(
                module.InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout=timeout)
            )

        answer = await self._answer(ask, lambda found: [int(found.error_code)])
        self._check(int(answer.error_code), "begin a session")
        self.producer = (int(answer.producer_id), int(answer.producer_epoch))

    async def add(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Add partitions to the open transaction, or to a new one.

        Returns:
            Kafka's error of each partition, none if all were added; with one error none of them was.

        Raises:
            ConnectionError: It is not known whether that was done.
            KafkaProtocolError: The coordinator refuses; INVALID_PRODUCER_EPOCH or PRODUCER_FENCED: the id has gone to
                another process.
        """
        numbers: dict[str, list[int]] = defaultdict(list)
        for topic, number in partitions:
            numbers[topic].append(number)

        async def ask(connection: Connection) -> Any:
            module = _requests("add_partitions_to_txn", connection.best_version(_ADD_KEY, *_ADD_VERSIONS))
            topics = tuple(
                module.AddPartitionsToTxnTopic(name=topic, partitions=tuple(chosen))
                for topic, chosen in numbers.items()
            )
            fields = {f"v3_and_below_{name}": value for name, value in {**self._identity(), "topics": topics}.items()}
            return await connection.request(module.AddPartitionsToTxnRequest(**fields))

        answer = await self._answer(ask, lambda found: _added(found).values())
        codes = {partition: code for partition, code in _added(answer).items() if code}
        for code in codes.values():
            if error_info(code).name in _OF_THE_ID:
                self._check(code, "add partitions")
        return {partition: error_info(code).name for partition, code in codes.items()}

    async def abort(self) -> None:
        """Abort the open transaction: its markers will be in the logs soon.

        Raises:
            ConnectionError: It is not known whether that was done.
            KafkaProtocolError: The coordinator refuses.
        """

        async def ask(connection: Connection) -> Any:
            module = _requests("end_txn", connection.best_version(_END_KEY, *_END_VERSIONS))
            return await connection.request(module.EndTxnRequest(**self._identity(), committed=False))

        answer = await self._answer(ask, lambda found: [int(found.error_code)])
        self._check(int(answer.error_code), "abort")

    def _identity(self) -> dict[str, object]:
        producer_id, epoch = self.producer
        return {"transactional_id": self.transactional_id, "producer_id": producer_id, "producer_epoch": epoch}

    def _check(self, error_code: int, what: str) -> None:
        if error_code:
            alias = self._cluster.settings.alias
            raise protocol_error(error_code, f"{what} with transactional id {self.transactional_id} on cluster {alias}")

    async def _answer(
        self, ask: Callable[[Connection], Awaitable[Any]], codes: Callable[[Any], Collection[int]]
    ) -> Any:
        """The coordinator's answer, once no error in it is one that passes by itself; or its last one."""
        loop = asyncio.get_running_loop()
        deadline_s, pause_s = loop.time() + self._cluster.settings.request_timeout_ms / 1000, _FIRST_PAUSE_S
        while True:
            try:
                answer = await ask(await self._connect())
                errors = {error_info(code).name for code in codes(answer)}
            except KafkaProtocolError as error:
                if error.name not in _MOVED or loop.time() > deadline_s:
                    raise
                errors = {error.name}
            else:
                if not errors & (_MOVED | {_ENDING}) or loop.time() > deadline_s:
                    return answer
            if errors & _MOVED:
                self._coordinator, pause_s = -1, _LAST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def _connect(self) -> Connection:
        if self._coordinator < 0:
            key = self.transactional_id
            found = (await find_coordinators(await self._cluster.any_connection(), [key], _TRANSACTION))[key]
            if isinstance(found, GroupError):
                self._check(found.error.code, "find the coordinator")
            elif found not in self._cluster.metadata.brokers:
                await self._cluster.refresh(())
            self._coordinator = int(found)  # type: ignore[arg-type]  # ``_check`` has raised for an error
        try:
            return await self._cluster.connect(self._coordinator, _PURPOSE)
        except ConnectionError:
            self._coordinator = -1
            raise


def _requests(name: str, version: int) -> Any:
    return load_entity_module(name, version, EntityType.request)


def _added(answer: Any) -> dict[TopicPartition, int]:
    """The error code of each partition."""
    return {
        TopicPartition(topic.name, found.partition_index): int(found.partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
        for found in topic.results_by_partition
    }
