"""The real sender against the model's brokers: each way to be answered, and what must not follow from it."""

from __future__ import annotations

import pytest

from mirror_ray.kafka.produce import FIRST_TOPIC_ID_VERSION, HIGHEST_VERSION, LOWEST_VERSION
from mirror_ray.replication.partition import PartitionReplication
from tests.model.cast import Nature
from tests.model.ending import check, come_to_rest
from tests.model.network import NOT_ENOUGH_REPLICAS
from tests.model.replicator import Replicator
from tests.model.requests import Connection, Spoilt
from tests.model.sending import Wiring
from tests.model.world import World, each_once

#: Records in a batch, one of which fits into a message of the target.
_SIZE = 3


class Scene:
    """One replicator that copies; everything that was written is on the target."""

    def __init__(
        self, *, partitions: int = 1, replicated: bool = False, wiring: Wiring | None = None, room: int = 1 << 20
    ) -> None:
        self.world = World(
            Nature(
                partitions=partitions,
                replicators=1,
                replicated=replicated,
                max_message_bytes=room,
                wiring=wiring or Wiring(),
            )
        )
        self.write(1)
        self.world.go_on(8)
        assert all(target.end == _SIZE for target in self.world.targets)

    @property
    def replicator(self) -> Replicator:
        """It has all partitions."""
        (replicator,) = self.world.holders(0)
        return replicator

    @property
    def connection(self) -> Connection:
        """To broker 0."""
        return self.replicator.connections[0]

    @property
    def copy(self) -> PartitionReplication:
        """Of partition 0."""
        return self.replicator.copies[0]

    def write(self, batches: int) -> None:
        """Records of last week, of whose producer a broker forgets at its next check."""
        for source in self.world.sources:
            for _ in range(batches):
                source.append(_SIZE, self.world.timestamp(old=True))

    def send(self, batches: int) -> int:
        """Write so many, and let them go out; how many requests that makes."""
        self.write(batches)
        for _ in range(2 * batches):
            each_once(lambda: self.world.reading(batches))
        each_once(self.world.sending)
        return len(self.connection.sent)

    def forget(self) -> None:
        """The brokers' check."""
        for target in self.world.targets:
            target.forget(self.world.now_ms)
            assert not target.producers

    def all_is_well(self) -> None:
        """Everything is copied in the end, and nothing was wrong on the way."""
        come_to_rest(self.world)
        check(self.world)
        assert not self.world.wrongs
        assert all(copy.fault is None for copy in self.replicator.copies.values())


@pytest.mark.parametrize("version", [LOWEST_VERSION, FIRST_TOPIC_ID_VERSION - 1, HIGHEST_VERSION])
def test_each_version_of_produce(version: int) -> None:
    """A request of two partitions, and its answers."""
    scene = Scene(partitions=2, wiring=Wiring(version=version))
    assert scene.send(1) == 1
    assert {part.number for part in scene.connection.sent[0].parts} == {0, 1}
    scene.world.serve()
    assert [copy.acknowledged.source_offset for copy in scene.replicator.copies.values()] == [2 * _SIZE] * 2
    scene.all_is_well()


def test_a_connection_is_reset_behind_a_refusal() -> None:
    """A broker that forgets the producer meanwhile would take what is behind the refused batch."""
    scene = Scene()
    assert scene.send(3) == 3
    given_up = scene.connection
    scene.world.handling(NOT_ENOUGH_REPLICAS)[0]()
    scene.world.answering()[0]()
    assert given_up.closed
    assert given_up in scene.world.orphans
    assert not scene.copy.pipeline.in_flight
    # What was on its way is thrown away with the connection.
    scene.world.orphans.clear()
    scene.forget()
    scene.all_is_well()


def test_a_connection_outlives_a_refusal_with_nothing_behind_it() -> None:
    """Other partitions' requests go on."""
    scene = Scene()
    assert scene.send(1) == 1
    scene.world.handling(NOT_ENOUGH_REPLICAS)[0]()
    scene.world.answering()[0]()
    assert not scene.connection.closed
    scene.all_is_well()


def test_a_single_batch_on_a_new_connection() -> None:
    """Nothing of the copy was in flight on the old one, so nothing else tells it that the producer may be unknown."""
    scene = Scene()
    assert scene.copy.pipeline.deep
    scene.world.lose_connection(scene.replicator, 0)
    scene.forget()
    assert scene.send(3) == 1
    scene.world.serve()
    assert scene.copy.pipeline.deep
    scene.all_is_well()


def test_what_the_leader_alone_has_is_not_acknowledged() -> None:
    """Its end may be lost with it; the last batch of the group says that all of it is committed."""
    scene = Scene(replicated=True)
    scene.world.targets[0].replicate()
    scene.world.serve()
    assert scene.send(3) == 3
    assert [request.by_all for request in scene.connection.sent] == [False, False, True]
    for _ in range(2):
        scene.world.handling()[0]()
        scene.world.answering()[0]()
    assert len(scene.copy.pipeline.uncommitted) == 2
    assert scene.copy.acknowledged.source_offset == _SIZE
    scene.world.move_leader(0, _SIZE)
    scene.all_is_well()


def test_a_batch_that_is_not_where_it_belongs() -> None:
    """Somebody else has written, and the broker has forgotten the producer: the partition stops."""
    scene = Scene()
    scene.send(1)
    scene.world.targets[0].write([b"foreign"], scene.world.now_ms)
    scene.world.done[0].add("foreign")
    scene.forget()
    scene.world.serve()
    assert scene.copy.fault is not None
    assert scene.copy.fault.kind == "target_foreign"
    come_to_rest(scene.world)
    check(scene.world)


@pytest.mark.parametrize("spoilt", ["corrupt", "incomplete"])
def test_an_answer_that_is_none(spoilt: Spoilt) -> None:
    """What became of its batches is not known: neither they nor what is behind them is awaited any more."""
    scene = Scene(partitions=2)
    assert scene.send(3) == 3
    given_up = scene.connection
    scene.world.handling()[0]()
    scene.world.answering(spoilt)[0]()
    assert given_up.closed
    assert not any(copy.pipeline.in_flight for copy in scene.replicator.copies.values())
    scene.all_is_well()


def test_answers_behind_one_that_lacks_a_partition() -> None:
    """They belong to batches that were given up, and are not taken for answers to those that are sent again."""
    scene = Scene(partitions=2)
    assert scene.send(3) == 3
    scene.world.handling()[0]()
    scene.world.answering("incomplete")[0]()
    scene.write(3)
    for _ in range(20):
        each_once(scene.world.establishing)
        each_once(lambda: scene.world.reading(3))
        each_once(scene.world.sending)
        each_once(scene.world.handling)
        each_once(scene.world.answering)
    assert all(copy.fault is None for copy in scene.replicator.copies.values())
    scene.all_is_well()


def test_one_request_at_a_time_behind_a_broker_that_throttles() -> None:
    """And none before its time is over."""
    scene = Scene()
    scene.send(1)
    scene.world.handling()[0]()
    scene.world.answering(throttle_ms=400)[0]()
    assert scene.connection.silent_s == 0.4
    assert scene.send(3) == 0
    scene.world.now_s += 0.5
    each_once(scene.world.sending)
    each_once(scene.world.sending)
    assert len(scene.connection.sent) == 1
    scene.all_is_well()


@pytest.mark.parametrize("others", [False, True])
def test_stopped_between_composing_and_the_last_check(others: bool) -> None:
    """Its lease runs out meanwhile, and somebody else copies: nothing goes out, and the connection with it."""
    scene = Scene()
    before, world = scene.replicator, scene.world
    scene.write(1)
    for _ in range(4):
        each_once(lambda: world.reading(1))
    assert before.sending.waiting == [0]
    connection = scene.connection

    def meanwhile() -> None:
        if others:
            world.give_up(world.coordinators[0], before.number)
            world.spawn()
            world.go_on(1)
        world.now_s += world.terms.takeover_s
        if others:
            world.go_on(8)
            scene.forget()

    assert world.stall(before, 0, meanwhile)
    assert connection.closed
    assert not connection.sent
    assert not before.copies[0].pipeline.in_flight
    come_to_rest(world)
    check(world)
    assert not world.wrongs
