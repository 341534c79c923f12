"""The real sender hands nothing to its connection that the lease does not allow at that moment."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mirror_ray.kafka import produce
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.target_log import TargetLog
from tests.support.batches import batch
from tests.support.factories import assignment, establish, fetched, replication
from tests.unit.replication.recorded_events import RecordedEvents
from tests.unit.replication.scripted_wire import ScriptedLease, Wire, sender_of, turns

P, Q = TopicPartition("p", 0), TopicPartition("q", 0)


class Scene:
    """A sender of two partitions, each with one batch of its name."""

    def __init__(self) -> None:
        self.wire, self.lease, self.events = Wire(produce.HIGHEST_VERSION), ScriptedLease(), RecordedEvents()
        self.sender = sender_of(self.wire, self.lease, self.events, 1 << 20)
        self.copies = {partition: _copy(partition) for partition in (P, Q)}

    async def go(self) -> None:
        """Schedule both, and let it do what it can."""
        for copy in self.copies.values():
            self.sender.schedule(copy)
        await turns()

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
    await turns()
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
