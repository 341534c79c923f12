"""The real sender hands nothing to its connection that the lease does not allow at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Answer
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.sender import Sender
from mirror_ray.replication.target_log import TargetLog
from tests.support.batches import batch
from tests.support.factories import assignment, establish, fetched, replication
from tests.unit.replication.recorded_events import RecordedEvents

P, Q = TopicPartition("p", 0), TopicPartition("q", 0)


class Wire:
    """A connection, and its cluster: what was sent, by the values of the records."""

    name, stall_timeout_s = "broker 1", None

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False
        self.aborted: list[str] = []
        #: What happens while what was sent before goes to the kernel.
        self.draining: Callable[[], object] = bool

    async def connect(self, broker: int, purpose: str, **_: int) -> Wire:
        self.closed = False
        return self

    def best_version(self, api_key: int, lowest: int, highest: int) -> int:
        return highest

    async def drain(self) -> None:
        await asyncio.sleep(0)
        self.draining()

    def send_together(self, key: int, version: int, flexible: bool, bodies: Sequence[Sequence[Any]]) -> list[Answer]:
        """See ``Connection``; nothing is ever answered."""
        self.sent += [b"".join(parts) for parts in bodies]
        return [asyncio.get_running_loop().create_future() for _ in bodies]

    def abort(self, reason: str) -> None:
        self.closed = True
        self.aborted.append(reason)


class Terms:
    """A lease as a test says."""

    def __init__(self) -> None:
        self.held = {P, Q}
        self.lasting = True

    def holds(self, partition: TopicPartition) -> bool:
        return partition in self.held

    def lasts(self) -> bool:
        return self.lasting


class Scene:
    """A sender of two partitions, each with one batch of its name."""

    def __init__(self) -> None:
        self.wire, self.lease = Wire(), Terms()
        self.events = RecordedEvents()
        self.sender = Sender(
            cast("ClusterConnections", self.wire),
            1,
            purpose="produce",
            max_request_bytes=1 << 20,
            timeout_ms=1000,
            send_buffer_bytes=-1,
            lease=self.lease,
            events=self.events,
        )
        self.copies = {partition: _copy(partition) for partition in (P, Q)}

    async def go(self) -> None:
        """Schedule both, and let it do what it can."""
        for copy in self.copies.values():
            self.sender.schedule(copy)
        await _turns()

    @property
    def sent(self) -> set[TopicPartition]:
        """Whose batches went out."""
        return {
            partition for partition in (P, Q) if any(partition.topic.encode() * 20 in body for body in self.wire.sent)
        }


def _copy(partition: TopicPartition) -> PartitionReplication:
    topic_id = TopicId("AAAAAAAAAAAAAAAAAAAAA" + ("Q" if partition == P else "g"))
    copy = replication(assignment(partition.topic, target_topic_id=topic_id))
    establish(copy, TargetLog(end=0))
    fetched(copy, batch(0, [(0, partition.topic.encode() * 20)]))
    return copy


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """That has not begun."""
    scene = Scene()
    yield scene
    await scene.sender.close()


async def test_what_is_held_is_sent(scene: Scene) -> None:
    """Both partitions, and nothing is lost."""
    await scene.go()
    assert scene.sent == {P, Q}
    assert not scene.events.losses


async def test_a_partition_that_is_not_held_waits(scene: Scene) -> None:
    """The other one goes out, though leases last; it follows when it is held, and the sender is told."""
    scene.lease.held = {Q}
    await scene.go()
    assert scene.sent == {Q}
    assert not scene.events.losses
    scene.lease.held = {P, Q}
    scene.sender.wake()
    await _turns()
    assert scene.sent == {P, Q}


async def test_a_lease_that_runs_out_between_composing_and_sending(scene: Scene) -> None:
    """As in a process that was stopped there: the connection goes, and the outcome is looked up."""
    scene.lease.lasting = False
    await scene.go()
    assert scene.wire.sent == []
    assert scene.wire.aborted == ["the lease ran out before a request was sent"]
    assert set(scene.events.losses) == set(scene.copies.values())


@pytest.mark.parametrize("what", ["held", "lasting"])
async def test_a_lease_that_runs_out_while_earlier_requests_leave(scene: Scene, what: str) -> None:
    """It is looked at when all that was sent before has gone."""
    scene.wire.draining = lambda: setattr(scene.lease, what, set() if what == "held" else False)
    await scene.go()
    assert scene.wire.sent == []
