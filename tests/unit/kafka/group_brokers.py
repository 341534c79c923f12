"""Brokers that coordinate groups, in this process: what they are told is read, and what they say written, by kio."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, cast

from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.group_coordinators import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, GroupCoordinators

FETCH, COMMIT = 9, 8
NO_TIME = i32Timedelta.parse(dt.timedelta(0))


class Fetched(NamedTuple):
    """A partition of an OffsetFetch response."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class FetchedState(NamedTuple):
    """A group of an OffsetFetch response."""

    topics: Mapping[str, Mapping[int, Fetched]] = {}
    error_code: int = 0


def module(name: str, version: int, kind: Literal[EntityType.request, EntityType.response]) -> Any:
    """Kio's entities of a message."""
    return load_entity_module(name, version, kind)


def written(entity: Any) -> bytes:
    """As kio writes it."""
    body = io.BytesIO()
    entity_writer(type(entity))(body, entity)
    return body.getvalue()


def read(entity_type: Any, body: bytes) -> Any:
    """As kio reads it."""
    return entity_reader(entity_type)(memoryview(body), 0)[0]


def encode_fetched(version: int, groups: Mapping[str, FetchedState]) -> bytes:
    """An OffsetFetch response: of one group before version 8."""
    m = module("offset_fetch", version, EntityType.response)
    many = version >= 8
    topic_type = m.OffsetFetchResponseTopics if many else m.OffsetFetchResponseTopic
    partition_type = m.OffsetFetchResponsePartitions if many else m.OffsetFetchResponsePartition

    def fields(state: FetchedState) -> dict[str, Any]:
        topics = tuple(
            topic_type(
                name=name,
                partitions=tuple(
                    partition_type(
                        partition_index=index,
                        committed_offset=p.offset,
                        committed_leader_epoch=p.leader_epoch,
                        metadata=p.metadata,
                        error_code=ErrorCode(p.error_code),
                    )
                    for index, p in partitions.items()
                ),
            )
            for name, partitions in state.topics.items()
        )
        return {"topics": topics, "error_code": ErrorCode(state.error_code)}

    if not many:
        (state,) = groups.values()
        return written(m.OffsetFetchResponse(throttle_time=NO_TIME, **fields(state)))
    entries = tuple(m.OffsetFetchResponseGroup(group_id=group, **fields(state)) for group, state in groups.items())
    return written(m.OffsetFetchResponse(throttle_time=NO_TIME, groups=entries))


@dataclass
class GroupBrokers:
    """Brokers 1..n, who coordinates what, and what was committed; a test breaks them as it likes.

    ``troubles``: called before each group is answered for, with the broker, the API and the group; what it returns is
    the error to answer with. It may raise ConnectionError to lose the connection.
    """

    coordinators: dict[str, int]
    offsets: dict[str, FetchedState] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=lambda: {1, 2})
    silent: set[int] = field(default_factory=set)
    fetch_version: int = 9
    find_version: int = 6
    list_version: int = 5
    trouble: Callable[[int, int, str], int] = lambda _broker, _api, _group: 0
    #: Called when a coordinator is looked up.
    found: Callable[[], None] = lambda: None
    #: Topics that are refused before their coordinator is asked.
    missing: set[str] = field(default_factory=set)
    #: How often each group was asked for, by API.
    asked: Counter[tuple[int, str]] = field(default_factory=Counter)

    def coordinators_of(self, patience_s: float = 10.0) -> GroupCoordinators:
        """The code's own view of them."""
        return GroupCoordinators(cast(ClusterConnections, _Cluster(self)), patience_s=patience_s)


class _Cluster:
    def __init__(self, brokers: GroupBrokers) -> None:
        self._brokers = brokers
        self._connections: dict[int, _Connection] = {}
        self.metadata = SimpleNamespace(brokers={})
        self.settings = SimpleNamespace(alias="A")

    async def refresh(self, topics: Collection[str]) -> SimpleNamespace:
        self.metadata = SimpleNamespace(brokers=dict.fromkeys(self._brokers.brokers))
        return self.metadata

    async def connect(self, broker: int, purpose: str) -> _Connection:
        if broker not in self.metadata.brokers or broker in self._brokers.silent:
            raise ConnectionError(f"broker {broker}: Connection refused")
        if broker not in self._connections or self._connections[broker].closed:
            self._connections[broker] = _Connection(self._brokers, broker)
        return self._connections[broker]

    async def any_connection(self) -> _Connection:
        return _Connection(self._brokers, 0)


class _Connection:
    def __init__(self, brokers: GroupBrokers, broker: int) -> None:
        self.name = f"broker {broker}"
        self.closed = False
        self.stall_timeout_s: float | None = None
        self._brokers = brokers
        self._broker = broker

    def best_version(self, api_key: int, lowest: int, highest: int) -> int:
        theirs = {FETCH: self._brokers.fetch_version, 10: self._brokers.find_version, 16: self._brokers.list_version}
        version = min(theirs.get(api_key, 99), highest)
        if version < lowest:
            raise protocol_error(35, f"API {api_key}")
        return version

    def abort(self, reason: str) -> None:
        self.closed = True

    def expect_silence(self, seconds: float) -> None: ...

    async def request(self, entity: Any) -> Any:
        if type(entity).__name__ == "ListGroupsRequest":
            return self._listed()
        self._brokers.found()
        if self._brokers.find_version < 4:
            return self._coordinator(entity.key)
        return SimpleNamespace(coordinators=[self._coordinator(key) for key in entity.coordinator_keys])

    def _coordinator(self, group: str) -> SimpleNamespace:
        broker = self._brokers.coordinators.get(group, -1)
        code = COORDINATOR_NOT_AVAILABLE if broker < 0 else 0
        return SimpleNamespace(key=group, node_id=broker, error_code=code, error_message=None)

    def _listed(self) -> SimpleNamespace:
        mine = [group for group, broker in self._brokers.coordinators.items() if broker == self._broker]
        groups = [
            SimpleNamespace(group_id=group, protocol_type="consumer", group_state="Empty", group_type="Classic")
            for group in mine
            if group in self._brokers.offsets
        ]
        return SimpleNamespace(error_code=self._brokers.trouble(self._broker, 16, ""), groups=groups)

    def send(self, api_key: int, version: int, flexible: bool, parts: Sequence[bytes]) -> asyncio.Future[memoryview]:
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        body = b"".join(parts)
        try:
            said = self._fetched(version, body) if api_key == FETCH else self._committed(version, body)
            answer.set_result(memoryview(bytearray(said)))
        except ConnectionError as error:
            self.closed = True
            answer.set_exception(error)
            answer.exception()
        return answer

    def _code(self, api_key: int, group: str) -> int:
        if self.closed:
            raise ConnectionError(f"{self.name} was lost")
        self._brokers.asked[api_key, group] += 1
        if code := self._brokers.trouble(self._broker, api_key, group):
            return code
        return NOT_COORDINATOR if self._brokers.coordinators.get(group) != self._broker else 0

    def _fetched(self, version: int, body: bytes) -> bytes:
        request = read(module("offset_fetch", version, EntityType.request).OffsetFetchRequest, body)
        groups = [group.group_id for group in request.groups] if version >= 8 else [request.group_id]
        states: dict[str, FetchedState] = {}
        for group in groups:
            code = self._code(FETCH, group)
            states[group] = FetchedState({}, code) if code else self._brokers.offsets.get(group, FetchedState())
        return encode_fetched(version, states)

    def _committed(self, version: int, body: bytes) -> bytes:
        request = read(module("offset_commit", version, EntityType.request).OffsetCommitRequest, body)
        code = self._code(COMMIT, request.group_id)
        if not code:
            self._brokers.offsets[request.group_id] = FetchedState(
                {
                    t.name: {
                        p.partition_index: Fetched(p.committed_offset, -1, p.committed_metadata) for p in t.partitions
                    }
                    for t in request.topics
                }
            )
        m = module("offset_commit", version, EntityType.response)
        topics = tuple(
            m.OffsetCommitResponseTopic(
                name=t.name,
                partitions=tuple(
                    m.OffsetCommitResponsePartition(
                        partition_index=p.partition_index,
                        error_code=ErrorCode(3 if t.name in self._brokers.missing else code),
                    )
                    for p in t.partitions
                ),
            )
            for t in request.topics
        )
        return written(m.OffsetCommitResponse(throttle_time=NO_TIME, topics=topics))
