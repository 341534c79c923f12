"""The real sender over a scripted connection: what goes out, what counts as committed, what each answer leads to."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.target_log import TargetLog
from tests.support.batches import batch
from tests.support.factories import assignment, establish, fetched, replication
from tests.unit.replication.recorded_events import RecordedEvents
from tests.unit.replication.scripted_wire import ScriptedLease, Wire, sender_of, turns

NOT_LEADER, TOO_LARGE = 6, 10


class Scene:
    """A sender, and what it tells."""

    def __init__(self) -> None:
        self.wire, self.events = Wire(), RecordedEvents()
        self.sender = sender_of(self.wire, ScriptedLease(), self.events, 1)

    async def send(self, *copies: PartitionReplication) -> None:
        """Schedule them, and let it do what it can."""
        for copy in copies:
            self.sender.schedule(copy)
        await turns()

    async def answer(self, number: int, *partitions: bytes, throttle_ms: int = 0) -> None:
        """Answer a request."""
        body = struct.pack(">i", len(partitions)) + b"".join(partitions) + struct.pack(">i", throttle_ms)
        self.wire.answers[number].set_result(memoryview(bytearray(body)))
        await turns()

    def acks(self) -> list[int]:
        """Of each request that was sent."""
        return [int(struct.unpack_from(">h", body, 2)[0]) for body in self.wire.sent]


def of(topic: str, base_offset: int = 0, error: int = 0) -> bytes:
    """What an answer says of partition 0 of a topic."""
    name = topic.encode()
    said = struct.pack(">ihqqq", 0, error, base_offset, -1, 0) + struct.pack(">ih", 0, -1)
    return struct.pack(">h", len(name)) + name + struct.pack(">i", 1) + said


def copy_of(topic: str, *values: bytes, target: str = "", shared: bool = False) -> PartitionReplication:
    """A copy that stands at its begin, with one batch for each value."""
    target = target or f"A.{topic}"
    anchor = OffsetPair(0, 0, 0 if shared else None)
    copy = replication(assignment(topic, target=TopicPartition(target, 0), anchor=anchor, shared=shared))
    establish(copy, TargetLog(end=0))
    more(copy, *values)
    return copy


def more(copy: PartitionReplication, *values: bytes) -> None:
    """The source has gone on."""
    first = copy.process_offset
    fetched(copy, *(batch(first + number, [(0, value)]) for number, value in enumerate(values)))


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """That has not begun."""
    scene = Scene()
    yield scene
    await scene.sender.close()


async def deep(scene: Scene, copy: PartitionReplication, *values: bytes) -> None:
    """One batch was acknowledged; these follow at once, in one group."""
    await scene.send(copy)
    await scene.answer(0, of("A.p", 0))
    assert copy.pipeline.deep
    more(copy, *values)
    await scene.send(copy)


async def test_one_batch_until_one_is_acknowledged(scene: Scene) -> None:
    """Then those that follow are sent without waiting, and the last one of the group waits for all replicas."""
    copy = copy_of("p", b"1", b"2", b"3")
    await scene.send(copy)
    assert scene.acks() == [-1]
    await scene.answer(0, of("A.p", 0))
    assert scene.acks() == [-1, 1, -1]


async def test_what_the_leader_alone_has_is_not_committed(scene: Scene) -> None:
    """The last answer of the group commits those before it."""
    copy = copy_of("p", b"1")
    await deep(scene, copy, b"2", b"3")
    assert scene.acks() == [-1, 1, -1]
    scene.events.committed.clear()
    await scene.answer(1, of("A.p", 1))
    assert (copy.acknowledged, scene.events.committed) == (OffsetPair(1, 1), [])
    await scene.answer(2, of("A.p", 2))
    assert (copy.acknowledged, scene.events.committed) == (OffsetPair(3, 3), [copy])


async def test_nothing_behind_a_refusal_is_carried_out(scene: Scene) -> None:
    """The connection is reset: what failed may succeed the next moment, and the producer be forgotten by then."""
    copy = copy_of("p", b"1")
    await deep(scene, copy, b"2", b"3")
    await scene.answer(1, of("A.p", -1, NOT_LEADER))
    assert scene.wire.aborted == ["A.p-0 was refused with more behind it"]
    assert scene.events.refusals == [(copy, "NOT_LEADER_OR_FOLLOWER")]
    assert (copy.acknowledged, copy.state) == (OffsetPair(1, 1), CopyState.REFUSED)


async def test_a_refusal_with_nothing_behind_it_leaves_the_connection(scene: Scene) -> None:
    """Other partitions' requests are on it."""
    copy = copy_of("p", b"1")
    await scene.send(copy)
    await scene.answer(0, of("A.p", -1, NOT_LEADER))
    assert not scene.wire.aborted
    assert copy.acknowledged == OffsetPair(0, 0)


async def test_only_a_records_error_stops_for_a_record(scene: Scene) -> None:
    """What passes is tried again; a batch of one record that is too large is not."""
    passing, large = copy_of("p", b"1"), copy_of("q", b"1")
    await scene.send(passing, large)
    await scene.answer(0, of("A.p", -1, NOT_LEADER))
    assert not scene.events.failures
    await scene.answer(1, of("A.q", -1, TOO_LARGE))
    ((stopped, error),) = scene.events.failures
    assert stopped is large
    assert isinstance(error, ReplicationFault)
    assert error.fault.kind == "record_refused"


async def test_a_batch_in_another_place_stops_its_partition(scene: Scene) -> None:
    """Somebody else writes there."""
    copy = copy_of("p", b"1")
    await scene.send(copy)
    await scene.answer(0, of("A.p", 7))
    ((stopped, error),) = scene.events.failures
    assert stopped is copy
    assert isinstance(error, ReplicationFault)
    assert error.fault.kind == "target_foreign"
    assert not scene.events.committed


async def test_a_new_connection_begins_with_single_batches(scene: Scene) -> None:
    """What the broker knew of the producer on the last one is nothing to go by."""
    copy, other = copy_of("p", b"1"), copy_of("q", b"1")
    await scene.send(other)
    await scene.answer(0, of("A.q", 0))
    assert other.pipeline.deep
    await scene.send(copy)
    scene.wire.abort("lost")
    await turns()
    more(other, b"2", b"3")
    scene.wire.sent.clear()
    await scene.send(other)
    assert scene.wire.connections == 2
    assert len(scene.wire.sent) == 1


@pytest.mark.parametrize("how", ["failed", "unreadable", "left out"])
async def test_a_batch_without_an_answer_is_lost(scene: Scene, how: str) -> None:
    """Its outcome is looked up; nothing behind an answer that is none is awaited on that connection."""
    copy = copy_of("p", b"1")
    await scene.send(copy)
    if how == "failed":
        scene.wire.answers[0].set_exception(ConnectionError("gone"))
    elif how == "unreadable":
        scene.wire.answers[0].set_result(memoryview(b"\0"))
    else:
        await scene.answer(0)
    await turns()
    assert scene.events.losses == [copy]
    assert bool(scene.wire.aborted) == (how != "failed")


async def test_a_broker_that_stands_still_is_left(scene: Scene) -> None:
    """Before its session ends: what waits in its socket is not to be carried out when it wakes up."""
    await scene.send(copy_of("p", b"1"))
    assert scene.wire.stall_timeout_s is not None
    assert scene.wire.stall_timeout_s < 9


async def test_a_request_holds_one_batch_of_a_remote_partition(scene: Scene) -> None:
    """Though two source partitions go there."""
    scene.sender._max_request_bytes = 1 << 20
    one, two = (copy_of(topic, topic.encode() * 20, target="both", shared=True) for topic in "pq")
    await scene.send(one, two)
    assert [b"p" * 20 in body for body in scene.wire.sent] == [True, False]
    assert [b"q" * 20 in body for body in scene.wire.sent] == [False, True]


async def test_a_broker_that_throttles_has_one_request_at_a_time(scene: Scene) -> None:
    """What waits in the kernel while it reads nothing is given up before the lease ends."""
    copies = [copy_of(topic, b"1") for topic in "pqrs"]
    await scene.send(copies[0])
    await scene.answer(0, of("A.p", 0), throttle_ms=1)
    await asyncio.sleep(0.01)
    await scene.send(*copies[1:])
    await asyncio.sleep(0.01)
    assert scene.events.throttled == [0.001]
    assert len(scene.wire.sent) == 2


async def test_as_many_requests_are_in_flight_as_are_allowed(scene: Scene) -> None:
    """One that is answered makes room for one."""
    scene.sender._allowed_requests = scene.sender._most_requests = 2
    await scene.send(copy_of("p", b"1"))
    await scene.send(*(copy_of(topic, b"1") for topic in "qrs"))
    assert len(scene.wire.sent) == 2
    await scene.answer(0, of("A.p", 0))
    assert len(scene.wire.sent) == 3


async def test_what_was_removed_is_not_sent(scene: Scene) -> None:
    """It is somebody else's by now."""
    copy = copy_of("p", b"1")
    scene.sender.schedule(copy)
    scene.sender.remove(copy)
    await turns()
    assert not scene.wire.sent
