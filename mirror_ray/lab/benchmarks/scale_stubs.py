"""What stands in for the world around a coordinator of many partitions, in processes of their own.

``serve_clusters``: stub brokers that answer at the wire. ``serve_fleet``: replicators that copy nothing and report as
real ones do, pickled, as Ray passes them on. Both take orders over a Unix socket.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_ray.coordinator.ports import ReplicatorGoneError, ReplicatorLostError
from mirror_ray.lab.bench.stub_broker import StubBroker
from mirror_ray.lab.bench.stub_logs import StubLog, StubTopic
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.names import FlowName, FlowPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.replicator_health import ReplicatorHealth

_SIZE: Final = struct.Struct(">I")
#: How many records a partition that is written to gets between two reports, and their bytes.
_RECORDS, _RECORD_BYTES = 50, 500
#: A replicator's process is up after so long.
_START_S: Final = 2.0
BROKERS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleShape:
    """A full mesh of clusters: a flow from each to each other, which copies all topics that are the source's own."""

    partitions: int
    clusters: int = 5
    topics: int = 50
    #: Of all partitions: so many replicators share them.
    replicators: int
    #: Share of the partitions that are written to.
    busy: float = 0.01

    @property
    def aliases(self) -> str:
        """The clusters' names."""
        return "ABCDEFGHIJ"[: self.clusters]

    @property
    def flows(self) -> list[FlowName]:
        """Every ordered pair."""
        return [FlowName(*pair) for pair in itertools.permutations(self.aliases, 2)]

    @property
    def each(self) -> int:
        """Partitions of one topic."""
        return self.partitions // (len(self.flows) * self.topics)

    def topic(self, number: int) -> str:
        """The name of a topic."""
        return f"topic-{number:04}"


async def serve_calls(path: str, answer: Callable[[Any], Awaitable[Any]]) -> None:
    """Answer what comes over a Unix socket, for ever: pickled, one after the other of each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                try:
                    said: object = await answer(pickle.loads(await reader.readexactly(size)))  # noqa: S301 - our own
                except (ReplicatorGoneError, ReplicatorLostError) as error:
                    said = error
                blob = pickle.dumps(said)
                writer.write(_SIZE.pack(len(blob)) + blob)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_unix_server(serve, path, limit=1 << 26)
    await server.serve_forever()


class Caller:
    """One connection to ``serve_calls``; one call at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lock = asyncio.Lock()

    async def call(self, *message: object) -> Any:
        """The answer to a message; raises the error that was answered."""
        async with self._lock:
            # Where the caller does not wait for the answer, nobody takes it for that of the next call.
            (reader, writer), self._open = self._open or await self._connect(), None
            blob = pickle.dumps(message)
            writer.write(_SIZE.pack(len(blob)) + blob)
            await writer.drain()
            (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
            answer = pickle.loads(await reader.readexactly(size))  # noqa: S301 - our own
            self._open = reader, writer
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._path, limit=1 << 26)


def ask(path: str, *message: object) -> Any:
    """The answer to one message, for code without an event loop."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        stream = connection.makefile("rwb")
        blob = pickle.dumps(message)
        stream.write(_SIZE.pack(len(blob)) + blob)
        stream.flush()
        (size,) = _SIZE.unpack(stream.read(_SIZE.size))
        return pickle.loads(stream.read(size))  # noqa: S301 - our own


def serve_clusters(ready: Any, path: str, shape: ScaleShape) -> None:
    """Be the brokers of all clusters; says where each listens."""
    asyncio.run(_serve_clusters(ready, path, shape))


async def _serve_clusters(ready: Any, path: str, shape: ScaleShape) -> None:
    topics = [shape.topic(number) for number in range(shape.topics)]
    brokers = {
        alias: StubBroker((_topic(name, shape.each) for name in topics), cluster_id=f"stub-{alias}", brokers=BROKERS)
        for alias in shape.aliases
    }

    states: dict[str, dict[bytes, bytes]] = {}

    async def answer(message: tuple[str, str, Any]) -> object:
        """Create topics (partitions by name), or keep and read a flow's state."""
        match message:
            case ("create", alias, wanted):
                brokers[alias].add(_topic(name, partitions) for name, partitions in wanted.items())
            case ("write", flow, records):
                kept = states.setdefault(flow, {}) | records
                states[flow] = {key: value for key, value in kept.items() if value is not None}
            case ("read", flow):
                return states.get(flow, {})
        return None

    ready.send({alias: "{}:{}".format(*await broker.start()) for alias, broker in brokers.items()})
    await serve_calls(path, answer)


def _topic(name: str, partitions: int) -> StubTopic:
    return StubTopic(name, tuple(StubLog() for _ in range(partitions)))


@dataclass(slots=True)
class _Held:
    """A partition that a stub replicator has."""

    assignment: Assignment
    copied: int = 0

    def report(self) -> PartitionReport:
        anchor = self.assignment.anchor
        at = OffsetPair(anchor.source_offset + self.copied, anchor.target_offset + self.copied)
        return PartitionReport(
            partition=self.assignment.partition,
            epoch=self.assignment.epoch,
            state="copying",
            reason=None,
            anchor=at,
            source_end=at.source_offset,
            high_watermark=at.source_offset,
            records=self.copied,
            bytes=self.copied * _RECORD_BYTES,
            last_timestamp_ms=time.time_ns() // 1_000_000 if self.copied else -1,
            bytes_per_record=float(_RECORD_BYTES) if self.copied else 0.0,
        )


@dataclass(slots=True)
class StubReplicator:
    """Takes assignments, lets some of its partitions advance, and reports what has changed."""

    name: str
    number: int
    busy: float
    node: str = ""
    fingerprint: str = ""
    up_s: float = field(default_factory=lambda: time.monotonic() + _START_S)
    lost: bool = False
    held: dict[FlowPartition, _Held] = field(default_factory=dict)
    changed: set[FlowPartition] = field(default_factory=set)

    async def answer(self, method: str, *args: Any) -> object:
        """What a method of the replicator's actor returns."""
        if self.lost:
            raise ReplicatorLostError("its node is lost")
        match method:
            case "health":
                await asyncio.sleep(max(0.0, self.up_s - time.monotonic()))
                return ReplicatorHealth(fingerprint=self.fingerprint, node_id=self.node, pid=self.number)
            case "configure":
                self.fingerprint = args[0]
            case "exchange":
                return self._exchange(*args)
            case "release":
                return self._release(*args)
        return None

    def _exchange(self, assignments: Sequence[Assignment], full: bool) -> ReplicatorReport:
        for assignment in assignments:
            self.held[assignment.partition] = _Held(assignment)
            self.changed.add(assignment.partition)
        for partition in self._written_to():
            self.held[partition].copied += _RECORDS
            self.changed.add(partition)
        reported = list(self.held) if full else [partition for partition in self.changed if partition in self.held]
        self.changed.clear()
        records = sum(held.copied for held in self.held.values())
        return ReplicatorReport(
            replicator=self.name,
            node=self.node,
            pid=self.number,
            cpu_seconds=0.1 * time.monotonic(),
            memory_bytes=200_000_000,
            buffered_bytes=0,
            records=records,
            bytes=records * _RECORD_BYTES,
            partitions=tuple(self.held[partition].report() for partition in reported),
            assigned=len(self.held),
        )

    def _written_to(self) -> Iterator[FlowPartition]:
        return itertools.islice(self.held, round(self.busy * len(self.held)))

    def _release(self, partitions: Collection[FlowPartition]) -> list[PartitionReport]:
        return [self.held.pop(partition).report() for partition in partitions if partition in self.held]


def serve_fleet(ready: Any, path: str, busy: float) -> None:
    """Be the replicators of a system."""
    asyncio.run(_serve_fleet(ready, path, busy))


async def _serve_fleet(ready: Any, path: str, busy: float) -> None:
    fleet: dict[int, StubReplicator] = {}

    async def answer(message: tuple[Any, ...]) -> object:
        match message:
            case ("spawn", int(number), str(name), str(fingerprint)):
                if number not in fleet or fleet[number].lost:
                    fleet[number] = StubReplicator(name, number, busy, f"node-{number}", fingerprint)
            case ("living",):
                return [number for number, replicator in fleet.items() if not replicator.lost]
            case ("lose", int(count)):
                lost = sorted(number for number, replicator in fleet.items() if not replicator.lost)[:count]
                for number in lost:
                    fleet[number].lost = True
                return [fleet[number].name for number in lost]
            case ("held",):
                return sum(len(replicator.held) for replicator in fleet.values() if not replicator.lost)
            case ("end", int(number)):
                fleet.pop(number, None)
            case (int(number), str(method), *args):
                if number not in fleet:
                    raise ReplicatorGoneError("its process has ended")
                return await fleet[number].answer(method, *args)
        return None

    ready.send("ready")
    await serve_calls(path, answer)
