"""A stub in a broker's place: it answers what a replicator asks, and keeps no more of what it is sent than it must.

Where a run's brokers are stubs alone, its processors are left to the replicators. A stub checks neither sequences nor
checksums, so it says nothing of a copy's rightness. It shares no code with what is measured, but kio's schemas of the
requests that are not on the data path. Sources: FetchRequest.json and ProduceRequest.json (both version 13).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import io
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirror_ray.lab.bench.stub_logs import StubTopic

_PRODUCE, _FETCH, _API_VERSIONS = 0, 1, 18
#: By API key: the one version that is spoken, and kio's name of the request.
_SCHEMAS: Final = {
    2: (7, "list_offsets"),
    3: (12, "metadata"),
    22: (4, "init_producer_id"),
    23: (4, "offset_for_leader_epoch"),
}
_SPOKEN: Final = {_PRODUCE: 13, _FETCH: 13, _API_VERSIONS: 0} | {key: version for key, (version, _) in _SCHEMAS.items()}
_UNSUPPORTED_VERSION: Final = 35
_EARLIEST: Final = -2
NOT_THROTTLED: Final = i32Timedelta.parse(dt.timedelta())
_NO_ERROR: Final = ErrorCode.none
#: What a connection's fetch session knows: by topic id and number of a partition, the offset and the limit.
_Session = dict[tuple[bytes, int], tuple[int, int]]


class StubBroker:
    """The brokers of a cluster, all at one address; together they lead all partitions, from an offset of 0 on."""

    def __init__(self, topics: Iterable[StubTopic], *, cluster_id: str = "stub", brokers: int = 1) -> None:
        self._topics: dict[str, StubTopic] = {}
        self._by_id: dict[bytes, StubTopic] = {}
        self._cluster_id, self._brokers = cluster_id, brokers
        self._address = ("127.0.0.1", 0)
        self._grown = asyncio.Event()
        #: The answer about all topics, made once for many who ask.
        self._everything: bytes | None = None
        self.add(topics)

    def add(self, topics: Iterable[StubTopic]) -> None:
        """Have these topics from now on, in place of those of the same names."""
        self._topics |= {topic.name: topic for topic in topics}
        self._by_id = {topic.id.bytes: topic for topic in self._topics.values()}
        self._everything = None

    @property
    def topics(self) -> dict[str, StubTopic]:
        """The topics by their names."""
        return self._topics

    async def start(self) -> tuple[str, int]:
        """Listen on loopback; returns the address."""
        server = await asyncio.start_server(self._serve, *self._address, limit=64 << 20)
        self._address = server.sockets[0].getsockname()
        return self._address

    def grown(self) -> None:
        """Say that a log has grown: whoever waits for records is answered."""
        self._grown.set()
        self._grown = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session: _Session = {}
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, version, correlation, name = struct.unpack_from(">hhih", request)
                at = 10 + max(0, name)
                if key == _API_VERSIONS:
                    head, body = b"", _api_versions(version)
                else:
                    # An answer without tagged fields, to a request without.
                    head, body = b"\0", await self._answer(key, request, at + 1, session)
                writer.write(struct.pack(">ii", 4 + len(head) + len(body), correlation) + head + body)
                await writer.drain()

    async def _answer(self, key: int, request: bytes, at: int, session: _Session) -> bytes:
        if key == _PRODUCE:
            return self._produced(request, at)
        if key == _FETCH:
            return await self._fetched(request, at, session)
        version, name = _SCHEMAS[key]
        asked: Any = load_entity_module(name, version, EntityType.request)
        schema: Any = load_entity_module(name, version, EntityType.response)
        kind = next(getattr(asked, word) for word in dir(asked) if word.endswith("Request") and word != "Request")
        entity, _ = entity_reader(kind)(memoryview(request)[at:], 0)
        of_all = name == "metadata" and entity.topics is None
        if of_all and self._everything is not None:
            return self._everything
        answers: dict[str, Callable[[Any, Any], Any]] = {
            "metadata": self._metadata,
            "list_offsets": self._offsets,
            "offset_for_leader_epoch": self._epoch_ends,
            "init_producer_id": _producer_id,
        }
        answer = answers[name](schema, entity)
        body = io.BytesIO()
        entity_writer(type(answer))(body, answer)
        if of_all:
            self._everything = body.getvalue()
        return body.getvalue()

    def _produced(self, request: bytes, at: int) -> bytes:
        topics, at = _uvarint(request, at + 1 + 2 + 4)
        answer = bytearray(_length(topics - 1))
        for _ in range(topics - 1):
            topic, at = request[at : at + 16], at + 16
            count, at = _uvarint(request, at)
            answer += topic + _length(count - 1)
            for _ in range(count - 1):
                (number,) = struct.unpack_from(">i", request, at)
                size, at = _uvarint(request, at + 4)
                known = self._by_id[topic]
                first = known.logs[number].append(request[at : at + size - 1], kept=known.kept)
                answer += struct.pack(">ihqqq", number, 0, first, -1, 0) + b"\1\0\0"
                at += size
            answer += b"\0"
            at += 1
        self.grown()
        return bytes(answer + bytes(5))

    async def _fetched(self, request: bytes, at: int, session: _Session) -> bytes:
        _, wait_ms, _, most_bytes, _, session_id, epoch = struct.unpack_from(">iiiibii", request, at)
        if epoch <= 0:
            session.clear()
        for key, position in _wanted(request, at + 25, session):
            session[key] = position
        # A session that is new answers for all of its partitions.
        whole = epoch <= 0
        grown = self._grown
        if wait_ms and not self._has_more(session):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(grown.wait(), wait_ms / 1000)
        found = self._records(session, most_bytes, whole=whole)
        answer = struct.pack(">ihi", 0, 0, 0 if epoch < 0 else session_id or 1) + _length(len(found))
        parts = [answer]
        for topic, partitions in found.items():
            parts += [topic, _length(len(partitions)), *partitions, b"\0"]
        return b"".join((*parts, b"\0"))

    def _has_more(self, session: _Session) -> bool:
        return any(self._by_id[topic].logs[number].end > offset for (topic, number), (offset, _) in session.items())

    def _records(self, session: _Session, most_bytes: int, *, whole: bool) -> dict[bytes, list[bytes]]:
        found: dict[bytes, list[bytes]] = {}
        left = most_bytes
        for (topic, number), (offset, limit) in list(session.items()):
            log = self._by_id[topic].logs[number]
            records = log.read(offset, min(limit, left)) if log.end > offset and left > 0 else b""
            if records or whole:
                left -= len(records)
                head = struct.pack(">ihqqq", number, 0, log.end, log.end, 0) + _length(0) + struct.pack(">i", -1)
                found.setdefault(topic, []).append(head + _length(len(records)) + records + b"\0")
            if records:
                # Whoever was answered comes last next time, as at a real broker.
                session[topic, number] = session.pop((topic, number))
        return found

    def _metadata(self, schema: Any, request: Any) -> Any:
        names = [topic.name for topic in request.topics] if request.topics is not None else list(self._topics)
        host, port = self._address
        return schema.MetadataResponse(
            throttle_time=NOT_THROTTLED,
            brokers=tuple(
                schema.MetadataResponseBroker(node_id=1 + number, host=host, port=port, rack=None)
                for number in range(self._brokers)
            ),
            cluster_id=self._cluster_id,
            controller_id=1,
            topics=tuple(self._described(schema, name) for name in names),
        )

    def _described(self, schema: Any, name: str) -> Any:
        topic = self._topics.get(name)
        return schema.MetadataResponseTopic(
            error_code=_NO_ERROR if topic is not None else ErrorCode.unknown_topic_or_partition,
            name=name,
            topic_id=topic.id if topic is not None else None,
            is_internal=False,
            partitions=tuple(
                schema.MetadataResponsePartition(
                    error_code=_NO_ERROR,
                    partition_index=number,
                    leader_id=1 + number % self._brokers,
                    leader_epoch=0,
                    replica_nodes=(1 + number % self._brokers,),
                    isr_nodes=(1 + number % self._brokers,),
                    offline_replicas=(),
                )
                for number in range(len(topic.logs) if topic is not None else 0)
            ),
        )

    def _offsets(self, schema: Any, request: Any) -> Any:
        return schema.ListOffsetsResponse(
            throttle_time=NOT_THROTTLED,
            topics=tuple(
                schema.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        schema.ListOffsetsPartitionResponse(
                            partition_index=asked.partition_index,
                            error_code=_NO_ERROR,
                            timestamp=-1,
                            offset=0 if asked.timestamp == _EARLIEST else self._end(topic.name, asked.partition_index),
                            leader_epoch=0,
                        )
                        for asked in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def _epoch_ends(self, schema: Any, request: Any) -> Any:
        return schema.OffsetForLeaderEpochResponse(
            throttle_time=NOT_THROTTLED,
            topics=tuple(
                schema.OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=tuple(
                        schema.EpochEndOffset(
                            error_code=_NO_ERROR,
                            partition=asked.partition,
                            leader_epoch=0,
                            end_offset=self._end(topic.topic, asked.partition),
                        )
                        for asked in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def _end(self, topic: str, number: int) -> int:
        return self._topics[topic].logs[number].end


def _producer_id(schema: Any, _: Any) -> Any:
    return schema.InitProducerIdResponse(
        throttle_time=NOT_THROTTLED, error_code=_NO_ERROR, producer_id=1, producer_epoch=0
    )


def _api_versions(version: int) -> bytes:
    if version:
        return struct.pack(">hi", _UNSUPPORTED_VERSION, 0)
    spoken = b"".join(struct.pack(">hhh", key, highest, highest) for key, highest in _SPOKEN.items())
    return struct.pack(">hi", 0, len(_SPOKEN)) + spoken


def _wanted(request: bytes, at: int, session: _Session) -> Iterator[tuple[tuple[bytes, int], tuple[int, int]]]:
    """The partitions of a Fetch request, each with its offset and limit; those to be forgotten leave the session."""
    topics, at = _uvarint(request, at)
    for _ in range(topics - 1):
        topic, at = request[at : at + 16], at + 16
        count, at = _uvarint(request, at)
        for _ in range(count - 1):
            number, _, offset, _, _, limit = struct.unpack_from(">iiqiqi", request, at)
            yield (topic, number), (offset, limit)
            at += 33
        at += 1
    topics, at = _uvarint(request, at)
    for _ in range(topics - 1):
        topic, at = request[at : at + 16], at + 16
        count, at = _uvarint(request, at)
        for number in struct.unpack_from(f">{count - 1}i", request, at):
            session.pop((topic, number), None)
        at += 4 * (count - 1) + 1


def _uvarint(buffer: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _length(count: int) -> bytes:
    """The length of an array, or of bytes: one more, in groups of seven bits."""
    value, out = count + 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
