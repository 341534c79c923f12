"""The least that a program must do to write and read batches: one blocking socket, no checks, nothing decoded.

It writes the data fast, and it is the baseline of the benchmark. It shares no code with what is measured. Sources:
Kafka's ProduceRequest.json (version 8), FetchRequest.json (11), FindCoordinatorRequest.json (1),
InitProducerIdRequest.json, AddPartitionsToTxnRequest.json and EndTxnRequest.json (0), ListOffsetsRequest.json (2).
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

from mirror_ray.model.errors import MirrorError

_PRODUCE, _FETCH, _FIND_COORDINATOR, _INIT_PRODUCER_ID, _ADD_PARTITIONS, _END = 0, 1, 10, 22, 24, 26
_LIST_OFFSETS: Final = 2
_IN_FLIGHT: Final = 5
_BUFFER_BYTES: Final = 4 << 20
_TIMEOUT_S: Final = 60.0
_AGAIN_S: Final = 0.2
#: Answers while the transaction coordinator's topic is being created, on the first request for it.
_NOT_YET: Final = frozenset({14, 15, 16, 51})
_CLIENT: Final = b"bench"


class RawConnection:
    """A connection to a broker that leads all partitions that are asked for. A context manager."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)), _TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def begin(self, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        """A producer id and epoch for a transactional id, whose coordinator must be this broker."""
        name = _text(transactional_id)
        self._request(_FIND_COORDINATOR, 1, name + b"\x01", error_at=4)
        answer = self._request(_INIT_PRODUCER_ID, 0, name + struct.pack(">i", timeout_ms), error_at=4)
        producer_id, epoch = struct.unpack_from(">qh", answer, 6)
        return producer_id, epoch

    def add_partitions(self, transactional_id: str, producer: tuple[int, int], topic: str, partitions: int) -> None:
        """Add every partition of a topic to the transaction."""
        numbers = struct.pack(f">{partitions + 1}i", partitions, *range(partitions))
        body = _text(transactional_id) + struct.pack(">qhi", *producer, 1) + _text(topic) + numbers
        # Throttle time, one topic, its name, one answer for each partition: the first one's error speaks for all.
        self._request(_ADD_PARTITIONS, 0, body, error_at=4 + 4 + len(_text(topic)) + 4 + 4)

    def commit(self, transactional_id: str, producer: tuple[int, int]) -> None:
        """Commit the transaction."""
        self._request(_END, 0, _text(transactional_id) + struct.pack(">qhb", *producer, 1), error_at=4)

    def produce(
        self, topic: str, rounds: Iterable[Mapping[int, bytes | bytearray]], transactional_id: str | None = None
    ) -> None:
        """Write batches, at most one for each partition in a request. Raises MirrorError if the broker refuses one."""
        waiting = 0
        id_field = b"\xff\xff" if transactional_id is None else _text(transactional_id)
        for batches in rounds:
            parts: list[bytes | bytearray] = [
                id_field + struct.pack(">hii", -1, 30_000, 1) + _text(topic) + struct.pack(">i", len(batches))
            ]
            for partition, batch in batches.items():
                parts += (struct.pack(">ii", partition, len(batch)), batch)
            self._send(_PRODUCE, 8, parts)
            waiting += 1
            if waiting == _IN_FLIGHT:
                _check_produced(self._receive(), topic)
                waiting -= 1
        for _ in range(waiting):
            _check_produced(self._receive(), topic)

    def fetch(self, topic: str, ends: Sequence[int]) -> Iterator[tuple[int, memoryview]]:
        """Every batch before these ends (by partition) with its partition, in the order of the partition."""
        positions = [0] * len(ends)
        while any(position < end for position, end in zip(positions, ends, strict=True)):
            partitions = b"".join(
                struct.pack(">iiqqi", number, -1, position, -1, 8 << 20) for number, position in enumerate(positions)
            )
            head = struct.pack(">iiiibiii", -1, 200, 1, 64 << 20, 0, 0, -1, 1) + _text(topic)
            self._send(_FETCH, 11, [head + struct.pack(">i", len(ends)) + partitions + b"\0" * 6])
            for number, records in _fetched(self._receive()):
                for batch in _batches(records):
                    base, last = struct.unpack_from(">q", batch)[0], struct.unpack_from(">i", batch, 23)[0]
                    positions[number] = base + last + 1
                    yield number, batch

    def total(self, topic: str, partitions: int) -> int:
        """The sum of the last stable offsets of those partitions that exist and that the broker leads, as of now.

        Kafka's own client asks anew for a topic that was missing only when some time has passed, up to a second.
        """
        asked = b"".join(struct.pack(">iq", number, -1) for number in range(partitions))
        self._send(
            _LIST_OFFSETS, 2, [struct.pack(">ibi", -1, 1, 1) + _text(topic) + struct.pack(">i", partitions) + asked]
        )
        answer = self._receive()
        found = struct.iter_unpack(">ihqq", answer[4 + 4 + len(_text(topic)) + 4 :])
        return sum(offset for _, error, _, offset in found if error == 0)

    def _request(self, api: int, version: int, body: bytes, *, error_at: int) -> bytearray:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            self._send(api, version, [body])
            answer = self._receive()
            (error,) = struct.unpack_from(">h", answer, error_at)
            if error == 0:
                return answer
            if error not in _NOT_YET or time.monotonic() > deadline_s:
                raise MirrorError(f"the broker refused request {api} with error {error}")
            time.sleep(_AGAIN_S)

    def _send(self, api: int, version: int, parts: Sequence[bytes | bytearray]) -> None:
        size = 10 + len(_CLIENT) + sum(map(len, parts))
        head = struct.pack(">ihhih", size, api, version, 0, len(_CLIENT)) + _CLIENT
        self._socket.sendall(b"".join((head, *parts)))

    def _receive(self) -> bytearray:
        """The body of the next response."""
        size = int.from_bytes(self._read(4), "big")
        return self._read(size)[4:]

    def _read(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise MirrorError("the broker closed the connection")
            view = view[count:]
        return buffer


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _check_produced(answer: bytearray, topic: str) -> None:
    at = 4 + len(_text(topic))
    (partitions,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(partitions):
        number, error = struct.unpack_from(">ih", answer, at)
        if error:
            raise MirrorError(f"{topic}-{number}: the broker refused a batch with error {error}")
        # Success has neither errors of single records nor a message.
        at += 4 + 2 + 8 + 8 + 8 + 4 + 2


def _fetched(answer: bytearray) -> Iterator[tuple[int, memoryview]]:
    view = memoryview(answer)
    at = 4 + 2 + 4 + 4
    (length,) = struct.unpack_from(">h", view, at)
    at += 2 + length
    (partitions,) = struct.unpack_from(">i", view, at)
    at += 4
    for _ in range(partitions):
        number, error, aborted = struct.unpack_from(">ih24xi", view, at)
        if error:
            raise MirrorError(f"partition {number}: the broker refused a fetch with error {error}")
        at += 34 + 16 * max(aborted, 0) + 4
        (size,) = struct.unpack_from(">i", view, at)
        at += 4
        yield number, view[at : at + size]
        at += size


def _batches(records: memoryview) -> Iterator[memoryview]:
    at = 0
    while at + 61 <= len(records):
        size = 12 + struct.unpack_from(">i", records, at + 8)[0]
        if at + size > len(records):
            return
        yield records[at : at + size]
        at += size
