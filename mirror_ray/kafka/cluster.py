"""A cluster over raw connections: metadata, one connection per broker and purpose, requests to leaders.

Callers back off and retry; here stale metadata is refreshed once.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from kio.index import load_entity_module, load_request_schema
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta
from kio.static.protocol import RequestPayload

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.connection_setup import TCP_USER_TIMEOUT_MS
from mirror_ray.kafka.credential_renewal import CurrentSecurity
from mirror_ray.kafka.errors import (
    LEADER_NOT_AVAILABLE,
    NETWORK_EXCEPTION,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_info,
    no_broker_answers,
    protocol_error,
)
from mirror_ray.kafka.leader_hints import LeaderHint, with_leaders
from mirror_ray.kafka.leader_requests import (
    IsolationLevel,
    LogEnd,
    OffsetAnswer,
    Partitions,
    SizeAnswer,
    list_offsets,
    log_ends,
    replica_sizes,
)
from mirror_ray.kafka.metadata import (
    EMPTY_METADATA,
    BrokerAddress,
    ClusterMetadata,
    PartitionMetadata,
    described,
    merged_metadata,
)
from mirror_ray.kafka.metadata_answers import TOPIC_ANSWERS
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError
from mirror_ray.model.names import TopicPartition

#: The connections for everything but Fetch and Produce.
CONTROL = "control"

_METADATA_KEY, _METADATA_VERSIONS = 3, (9, 12)
_INIT_PRODUCER_ID_KEY, _LAST_INIT_PRODUCER_ID_VERSION = 22, 4

#: After so long without an answer to a request that any broker can answer, another broker is asked.
_METADATA_PATIENCE_S = 5.0
_PRODUCER_ID_RETRY_S = 0.1

_T = TypeVar("_T")
_Answer = TypeVar("_Answer", OffsetAnswer, LogEnd, SizeAnswer)
_AskLeader = Callable[[Connection, Partitions], Awaitable[Mapping[TopicPartition, _Answer]]]


class ClusterConnections:
    """One cluster, for asyncio code of one event loop. Queries raise ClusterUnreachableError if no broker answers."""

    def __init__(
        self, settings: ClusterSettings, client_id: str, *, user_timeout_ms: int = TCP_USER_TIMEOUT_MS
    ) -> None:
        """Prepare to connect; nothing is sent yet. ``user_timeout_ms``: TCP_USER_TIMEOUT of the connections.

        Raises:
            ConfigError: The security settings can't be used; names the key and the file.
        """
        self.settings = settings
        self._security = CurrentSecurity(settings)
        self._client_id = client_id
        self._user_timeout_ms = user_timeout_ms
        self._metadata = EMPTY_METADATA
        self._connections: dict[tuple[int, str], asyncio.Task[Connection]] = {}
        self._bootstrapped: Connection | None = None
        self._bootstrapping = asyncio.Lock()
        self._closed = False
        #: The shortest time in which a broker has answered a new connection; infinite before the first one.
        self.round_trip_s = math.inf

    @property
    def metadata(self) -> ClusterMetadata:
        """What the last :meth:`refresh` left."""
        return self._metadata

    async def refresh(self, topics: Collection[str] | None = None) -> ClusterMetadata:
        """Ask for metadata of these topics, None: of all that there are. No topic is created by asking.

        Returns:
            The metadata of all topics known so far; one that was named and does not exist is there with its error code.
        """
        connection = await self.any_connection()
        version = connection.best_version(_METADATA_KEY, *_METADATA_VERSIONS)
        module: Any = load_entity_module("metadata", version, EntityType.request)
        with_id = {"topic_id": None} if version >= 10 else {}
        options: dict[str, Any] = {"include_topic_authorized_operations": False}
        if version <= 10:
            options["include_cluster_authorized_operations"] = False
        names = None if topics is None else tuple(module.MetadataRequestTopic(name=t, **with_id) for t in topics)
        asked = module.MetadataRequest(topics=names, allow_auto_topic_creation=False, **options)
        if topics is None:
            answer = await self._answered(connection.request_by(asked, partial(TOPIC_ANSWERS.read, type(asked))))
        else:
            answer = described(await self.request(connection, asked))
        self._metadata = merged_metadata(self._metadata, answer, complete=topics is None)
        return self._metadata

    def take_leaders(self, hints: Mapping[TopicPartition, LeaderHint], nodes: list[BrokerAddress]) -> None:
        """Take what a broker said of leaders, where it is newer than the metadata."""
        self._metadata = with_leaders(self._metadata, hints, nodes)

    async def connect(
        self, broker_id: int, purpose: str, *, receive_buffer_bytes: int = -1, send_buffer_bytes: int = -1
    ) -> Connection:
        """The connection to a broker for a purpose: one that is open, or a new one, opened once however many ask.

        The buffer sizes are the kernel's, for a new connection; -1 leaves them to it.

        Raises:
            ConnectionError: The broker is not known (refresh first), or can't be reached.
            AccessDeniedError: It does not accept us.
        """
        key = (broker_id, purpose)
        broker = self._metadata.brokers.get(broker_id)
        if broker is None or self._closed:
            why = "is closed" if self._closed else f"has no broker {broker_id} in its metadata"
            raise ConnectionError(f"cluster {self.settings.alias} {why}")
        opening = self._connections.get(key)
        if opening is None or (opening.done() and not _is_open(opening, broker.host, broker.port)):
            opening = asyncio.create_task(self._open(broker.host, broker.port, receive_buffer_bytes, send_buffer_bytes))
            # The callers may have been cancelled meanwhile: nobody else retrieves the exception.
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._connections[key] = opening
        return await asyncio.shield(opening)

    async def any_connection(self) -> Connection:
        """An open connection to some broker: the last one used so, else brokers known, else the bootstrap servers."""
        async with self._bootstrapping:
            if self._bootstrapped is None or self._bootstrapped.closed:
                self._bootstrapped = await self._bootstrap()
            return self._bootstrapped

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> dict[TopicPartition, OffsetAnswer]:
        """The first offset at or after a timestamp (ms), or LATEST (-1), or EARLIEST (-2), asked of each leader.

        LATEST is the last stable offset under read_committed, else the high watermark. Every partition is answered;
        one whose leader can't be asked has an error code.
        """

        async def ask(connection: Connection, partitions: Partitions) -> Mapping[TopicPartition, OffsetAnswer]:
            return await list_offsets(connection, partitions, timestamps, isolation_level)

        return await self._ask_leaders(timestamps, ask, lambda code: OffsetAnswer(-1, code))

    async def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogEnd]:
        """Where the logs end: the leader's own end (OffsetForLeaderEpoch of its epoch, KIP-320) and the high watermark.

        Every partition is answered; one whose leader can't be asked, or has just changed, has an error code.
        """
        return await self._ask_leaders(
            partitions,
            log_ends,
            lambda code: LogEnd(end_offset=-1, high_watermark=-1, leader_epoch=-1, error_code=code),
        )

    async def leader_sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, SizeAnswer]:
        """Bytes on disk of each partition's leading replica.

        Every partition is answered; one whose leader can't be asked, or does not grant it to us, has an error code.
        """
        return await self._ask_leaders(partitions, replica_sizes, lambda code: SizeAnswer(-1, code))

    async def init_producer_id(self, *, lowest_version: int = 2) -> tuple[int, int]:
        """A new idempotent producer's id and epoch (KIP-98).

        Raises:
            KafkaProtocolError: The broker refuses; UNSUPPORTED_VERSION: it is too old to know ``lowest_version``.
        """
        deadline = asyncio.get_running_loop().time() + self.settings.request_timeout_ms / 1000
        while True:
            answer = await self._ask_for_producer_id(lowest_version)
            if not answer.error_code:
                return answer.producer_id, answer.producer_epoch
            # A broker that needs a new block of ids from its controller answers "load in progress" for a moment.
            late = asyncio.get_running_loop().time() >= deadline
            if late or not error_info(answer.error_code).retriable:
                raise protocol_error(answer.error_code, f"InitProducerId on cluster {self.settings.alias}")
            await asyncio.sleep(_PRODUCER_ID_RETRY_S)

    async def _ask_for_producer_id(self, lowest_version: int) -> Any:
        connection = await self.any_connection()
        version = connection.best_version(_INIT_PRODUCER_ID_KEY, lowest_version, _LAST_INIT_PRODUCER_ID_VERSION)
        schema: Any = load_request_schema(_INIT_PRODUCER_ID_KEY, version)
        timeout = i32Timedelta.parse(dt.timedelta(milliseconds=self.settings.request_timeout_ms))
        return await self.request(connection, schema(transactional_id=None, transaction_timeout=timeout))

    async def request(self, connection: Connection, entity: RequestPayload) -> Any:
        """Send one of kio's request entities over one of this cluster's connections and return the answer.

        Raises:
            ClusterUnreachableError: The connection was lost, or the answer can't be read.
        """
        return await self._answered(connection.request(entity))

    async def _answered(self, answer: Awaitable[_T]) -> _T:
        try:
            return await answer
        except ConnectionError as error:
            raise ClusterUnreachableError(f"cluster {self.settings.alias}: {error}; is the broker up?") from error

    async def close(self) -> None:
        """Close all connections; what is outstanding on them fails."""
        self._closed = True
        openings, self._connections = list(self._connections.values()), {}
        for opening in openings:
            opening.cancel()
        for result in await asyncio.gather(*openings, return_exceptions=True):
            if isinstance(result, Connection):
                result.close()
        if self._bootstrapped is not None:
            self._bootstrapped.close()

    async def _open(
        self,
        host: str,
        port: int,
        receive_buffer_bytes: int = -1,
        send_buffer_bytes: int = -1,
        most_patience_s: float = math.inf,
    ) -> Connection:
        settings = self.settings
        connection = await Connection.open(
            host,
            port,
            security=self._security.now(),
            client_id=self._client_id,
            setup_timeout_s=settings.connection_setup_timeout_ms / 1000,
            request_timeout_s=min(settings.request_timeout_ms / 1000, most_patience_s),
            receive_buffer_bytes=receive_buffer_bytes,
            send_buffer_bytes=send_buffer_bytes,
            user_timeout_ms=self._user_timeout_ms,
        )
        self.round_trip_s = min(self.round_trip_s, connection.round_trip_s)
        return connection

    async def _bootstrap(self) -> Connection:
        if self._closed:
            raise ClusterUnreachableError(f"cluster {self.settings.alias} is closed")
        known = [(broker.host, broker.port) for broker in self._metadata.brokers.values()]
        servers = [host_and_port(server) for server in self.settings.bootstrap_servers]
        problems: list[str] = []
        addresses = dict.fromkeys(random.sample(known, len(known)) + random.sample(servers, len(servers)))
        # The broker that failed last may hang: it is tried after all others.
        failed = self._bootstrapped and (self._bootstrapped.host, self._bootstrapped.port)
        for host, port in sorted(addresses, key=lambda address: address == failed):
            try:
                return await self._open(host, port, most_patience_s=_METADATA_PATIENCE_S)
            except ConnectionError as error:
                problems.append(str(error))
        raise no_broker_answers(self.settings, problems)

    async def _ask_leaders(
        self, partitions: Collection[TopicPartition], ask: _AskLeader[_Answer], failed: Callable[[int], _Answer]
    ) -> dict[TopicPartition, _Answer]:
        """Ask all leaders at once; where metadata may have been stale, once more after a refresh."""
        unknown = {p.topic for p in partitions if self._metadata.partition(p) is None}
        if unknown:
            await self.refresh(unknown)
        answers = await self._ask_once(partitions, ask, failed)
        stale = [p for p, answer in answers.items() if _may_be_stale(answer.error_code)]
        if stale:
            await self.refresh({p.topic for p in stale})
            answers |= await self._ask_once(stale, ask, failed)
        return answers

    async def _ask_once(
        self, partitions: Collection[TopicPartition], ask: _AskLeader[_Answer], failed: Callable[[int], _Answer]
    ) -> dict[TopicPartition, _Answer]:
        answers: dict[TopicPartition, _Answer] = {}
        by_leader: dict[int, dict[TopicPartition, PartitionMetadata]] = defaultdict(dict)
        for key in partitions:
            partition = self._metadata.partition(key)
            if partition is None:
                topic = self._metadata.topics.get(key.topic)
                answers[key] = failed((topic and topic.error_code) or UNKNOWN_TOPIC_OR_PARTITION)
            elif partition.leader < 0:
                answers[key] = failed(partition.error_code or LEADER_NOT_AVAILABLE)
            else:
                by_leader[partition.leader][key] = partition

        async def ask_leader(leader: int, led: Partitions) -> Mapping[TopicPartition, _Answer]:
            try:
                return await ask(await self.connect(leader, CONTROL), led)
            except ConnectionError:
                return {key: failed(NETWORK_EXCEPTION) for key in led}

        for part in await asyncio.gather(*(ask_leader(leader, led) for leader, led in by_leader.items())):
            answers |= part
        return answers


def _may_be_stale(error_code: int) -> bool:
    return error_code == UNKNOWN_LEADER_EPOCH or error_info(error_code).invalid_metadata


def _is_open(opening: asyncio.Task[Connection], host: str, port: int) -> bool:
    if opening.cancelled() or opening.exception() is not None:
        return False
    connection = opening.result()
    return not connection.closed and (connection.host, connection.port) == (host, port)


def host_and_port(server: str) -> tuple[str, int]:
    """Split ``host:port``, also with an IPv6 address in brackets and with a protocol in front, as Kafka takes them.

    Raises:
        ConfigError: There is no port.
    """
    host, colon, port = server.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        raise ConfigError(f"bootstrap.servers: {server!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
