"""Requests between replicators and target brokers: in order on a connection, late, lost, or never answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.kafka.produce import FIRST_TOPIC_ID_VERSION
from tests.model.broker import Answer
from tests.model.cast import Act, Cast
from tests.model.replicator import Replicator
from tests.model.requests import Connection, Part, Spoilt

_NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"
#: Of a broker, while the number of in-sync replicas is too small.
NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"


class Network(Cast):
    """What is on its way, and what brokers do with it.

    A batch is late where a broker gets it though the copy's right to write, or its knowledge of the log, had ended: its
    lease had run out before it was sent, its connection was lost, a batch before it was refused, or the leader moved.
    """

    def sending(self, stall_s: float = 0.0) -> list[Act]:
        """Letting senders hand to the kernel what they have; between composing and sending ``stall_s`` pass."""
        acts: list[Act] = []
        for replicator in self.running():
            replicator.sending.step()
            acts += [partial(self._send, replicator, broker, stall_s) for broker in replicator.sending.waiting]
        return acts

    def _send(self, replicator: Replicator, broker: int, stall_s: float) -> None:
        self.stall(replicator, broker, partial(self._pass, stall_s))

    def _pass(self, seconds: float) -> None:
        self.now_s += seconds

    def answering(self, spoilt: Spoilt | None = None, throttle_ms: int = 0) -> list[Act]:
        """Answers that have arrived: perhaps ``spoilt`` ones, or of a broker that throttles."""
        return [
            partial(replicator.answered, broker, spoilt, throttle_ms)
            for replicator in self.running()
            for broker, connection in replicator.connections.items()
            if len(connection.handled) > 1 or (connection.handled and not self._waits(connection))
        ]

    def handling(self, error: str | None = None, *, live: bool = False) -> list[Act]:
        """Handling the oldest request of a connection, of a ``live`` one: refusing its first batch with ``error``."""
        connections = [c for replicator in self.replicators.values() for c in replicator.connections.values()]
        return [
            partial(self._handle, connection, error)
            for connection in (*connections, *([] if live else self.orphans))
            if connection.sent and not connection.broken and not self._waits(connection)
        ]

    def _waits(self, connection: Connection) -> bool:
        """Whether the broker waits for followers before it answers, and goes on with the connection."""
        if not connection.handled or not connection.handled[-1].by_all:
            return False
        return any(
            part.answer is not None and part.answer.end > self.targets[part.number].high_watermark
            for part in connection.handled[-1].parts
        )

    def _handle(self, connection: Connection, error: str | None) -> None:
        request = connection.sent.popleft()
        current = {copy for replicator in self.replicators.values() for copy in replicator.copies.values()}
        delayed = connection in self.orphans or self.now_s - request.sent_s > self.terms.kernel_ms / 1000
        for part in request.parts:
            moved = part.leader_epoch != self.targets[part.number].leader_epoch
            part.late = part.late or delayed or moved or part.copy not in current or connection.refused(part.copy)
            part.answer = self._answer(connection, part, error)
            error = None
        connection.handled.append(request)

    def _answer(self, connection: Connection, part: Part, error: str | None) -> Answer:
        target = self.targets[part.number]
        if self.nature.wiring.version >= FIRST_TOPIC_ID_VERSION and topic_id_bytes(target.topic_id) != part.topic:
            return Answer("UNKNOWN_TOPIC_ID")
        if target.leader != connection.broker:
            return Answer(_NOT_LEADER)
        if error is not None:
            return Answer(error)
        self.handling_now = part
        return target.produce(part.data)

    # ---- what fails

    def crash(self, replicator: Replicator) -> None:
        """Killed: all is forgotten; what its kernel had sent may still be handled."""
        replicator.dead = True
        self.orphans += replicator.connections.values()
        del self.replicators[replicator.number]
        self.spawn()

    def lose_connection(self, replicator: Replicator, broker: int) -> None:
        """A connection breaks; what the broker has of it, it may still handle."""
        self.orphans.append(replicator.sending.lose(broker))

    def stall(self, replicator: Replicator, broker: int, meanwhile: Act) -> bool:
        """Stopped between composing and the lease's last check, and ``meanwhile`` happens; whether it came so far."""
        replicator.meanwhile = meanwhile
        replicator.sending.let_send(broker)
        happened, replicator.meanwhile = replicator.meanwhile is None, None
        self._notice(replicator)
        return happened

    def freeze_sending(self, replicator: Replicator, broker: int) -> None:
        """Stopped between the lease's check and the send, if it has something to send."""
        if broker in replicator.sending.waiting:
            replicator.sending.stops = True
            replicator.sending.let_send(broker)
            replicator.sending.stops = False
        replicator.frozen = True

    def thaw(self, replicator: Replicator) -> None:
        """It goes on where it was stopped, and does not know how long that took."""
        replicator.frozen = False
        self._notice(replicator)
        for connection in replicator.connections.values():
            for request in connection.unsent:
                request.sent_s = self.now_s
                for part in request.parts:
                    part.late = not replicator.book.holds(part.copy.assignment.partition.source, self.now_s)
            connection.sent += connection.unsent
            connection.unsent.clear()
        replicator.sending.step()

    def _notice(self, replicator: Replicator) -> None:
        """See which connections have gone."""
        for broker in [broker for broker, connection in replicator.connections.items() if connection.broken]:
            replicator.sending.lose(broker)

    def restart_broker(self, broker: int) -> None:
        """Killed and started again: connections are gone, requests with them, producers loaded from the logs."""
        for replicator in self.replicators.values():
            connection = replicator.connections.get(broker)
            if connection is not None and replicator.frozen:
                connection.broken = True
            elif connection is not None:
                replicator.sending.lose(broker)
        self.orphans = [connection for connection in self.orphans if connection.broker != broker]
        for target in self.targets:
            if target.leader == broker:
                target.load(self.now_ms)

    def move_leader(self, number: int, cut: int, *, unclean: bool = False) -> None:
        """Another broker leads a target partition: nothing committed is lost, unless it is ``unclean``."""
        target = self.targets[number]
        if unclean and cut < target.high_watermark:
            self.done[number].add("target_unclean")
        for part in self._waiting(target.leader):
            if part.number == number and part.answer is not None:
                committed = part.answer.end <= target.high_watermark
                part.answer = replace(part.answer, end=-1) if committed else Answer(_NOT_LEADER)
        end = cut if unclean else max(cut, target.high_watermark)
        target.move(1 - target.leader, end, self.now_ms)

    def _waiting(self, broker: int) -> Iterator[Part]:
        """Batches that a broker has appended, and whose followers it waits for."""
        for replicator in self.replicators.values():
            connection = replicator.connections.get(broker)
            if connection is not None and connection.handled and connection.handled[-1].by_all:
                yield from connection.handled[-1].parts
