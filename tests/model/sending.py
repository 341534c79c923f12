"""The real senders of one replicator, on an event loop of its own, and their connections to target brokers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from mirror_ray.kafka import produce
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.replication.commit_groups import GROUP_BYTES
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_events import PartitionEvents
from mirror_ray.replication.sender import Lease, Sender
from tests.model.requests import Connection, Part
from tests.model.stepped import SteppedLoop
from tests.model.wire import Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How senders are set up, and the highest version of Produce that the brokers speak."""

    version: int = produce.HIGHEST_VERSION
    group_bytes: int = GROUP_BYTES
    most_requests: int = sys.maxsize
    max_request_bytes: int = 1 << 20


class Owner(Lease, PartitionEvents, Protocol):
    """The replicator: its leases, and what becomes of its partitions."""

    #: Where each copy is sent to.
    leaders: dict[PartitionReplication, int]

    @property
    def runs(self) -> bool:
        """Whether it does anything."""

    def part(self, written: Written) -> Part:
        """Whose batch it is."""

    def reset(self, connection: Connection) -> None:
        """A sender has given the connection up."""


class Sending:
    """One sender for each broker, made when the first copy needs it, as ``replication/broker_loops.py`` does it."""

    def __init__(self, owner: Owner, wiring: Wiring, now_s: Callable[[], float]) -> None:
        self.loop = SteppedLoop(now_s)  # type: ignore[abstract]  # what no sender asks of a loop is not there
        self.connections: dict[int, Connection] = {}
        #: Brokers that the next attempt does not reach.
        self.unreachable: set[int] = set()
        #: It is stopped when it sends next, before its kernel gets that.
        self.stops = False
        self._owner, self._wiring = owner, wiring
        self._senders: dict[int, Sender] = {}

    # ---- what the flow does with its senders

    def attach(self, copy: PartitionReplication, broker: int) -> None:
        """Send what the copy has to that broker."""
        if broker not in self._senders:
            with self.loop.inside():
                self._senders[broker] = self._new_sender(broker)
        self._senders[broker].schedule(copy)

    def schedule(self, copy: PartitionReplication) -> None:
        """The copy has something to send."""
        broker = self._owner.leaders.get(copy)
        if broker is not None:
            self._senders[broker].schedule(copy)

    def detach(self, copy: PartitionReplication, broker: int) -> None:
        """Send nothing more of it."""
        self._senders[broker].remove(copy)

    def wake(self) -> None:
        """Leases hold again."""
        for sender in self._senders.values():
            sender.wake()

    def step(self) -> None:
        """Let them do what they can do now."""
        self.loop.run(lambda: self._owner.runs)
        for sender in self._senders.values():
            if sender._task.done():
                sender._task.result()

    # ---- what the world does with them

    @property
    def waiting(self) -> list[int]:
        """Brokers that something waits to be sent to."""
        return [broker for broker, connection in self.connections.items() if connection.waits]

    def let_send(self, broker: int) -> None:
        """The sender goes on from where it waits for its kernel."""
        self.connections[broker].let_send()
        self.step()

    def lose(self, broker: int) -> Connection:
        """The connection is lost; what the broker has of it, it may still handle."""
        connection = self.connections.pop(broker)
        connection.fail("lost")
        self.step()
        return connection

    def _new_sender(self, broker: int) -> Sender:
        owner, wiring = self._owner, self._wiring
        return Sender(
            cast("ClusterConnections", self),
            broker,
            purpose="produce",
            max_request_bytes=wiring.max_request_bytes,
            timeout_ms=1000,
            send_buffer_bytes=-1,
            lease=owner,
            group_bytes=wiring.group_bytes,
            most_requests=wiring.most_requests,
            events=owner,
        )

    # ---- what senders and connections call

    async def connect(self, broker: int, purpose: str, *, send_buffer_bytes: int) -> Connection:
        """Of ``ClusterConnections``: a connection to the broker."""
        if broker in self.unreachable:
            self.unreachable.remove(broker)
            raise ConnectionError("not reached")
        assert broker not in self.connections, "a sender has one connection at a time"
        connection = self.connections[broker] = Connection(broker, self, self._wiring.version)
        return connection

    def may_send(self, broker: int) -> bool:
        """Whether something waits to be sent there."""
        return any(copy.sendable for copy, leader in self._owner.leaders.items() if leader == broker)

    def part(self, written: Written) -> Part:
        """Whose batch it is."""
        return self._owner.part(written)

    def stops_sending(self) -> bool:
        """Whether the process is stopped right here."""
        stops, self.stops = self.stops, False
        return stops

    def reset(self, connection: Connection) -> None:
        """A sender has given the connection up."""
        del self.connections[connection.broker]
        self._owner.reset(connection)
