"""The interleavings in which a naive version fails, each with what keeps it from failing, and without."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_ray.kafka.produce import FIRST_TOPIC_ID_VERSION
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.target_log import TargetContents, TargetLog
from tests.model.cast import Nature
from tests.model.ending import check, come_to_rest, holder
from tests.model.judge import Wrong
from tests.model.network import NOT_ENOUGH_REPLICAS
from tests.model.replicator import Replicator
from tests.model.sending import Wiring
from tests.model.state_topic import StatePort
from tests.model.world import World, each_once

_established = PartitionReplication.established
naive = pytest.mark.parametrize("naive", [False, True], ids=["ours", "naive"])


def _world(*, copied: int = 3, **nature: Any) -> World:
    """One partition with records of last week; batches of 3, ``copied`` of which are on the target."""
    world = World(Nature(partitions=1, replicators=1, **nature))
    _write(world, copied)
    world.go_on(4 + 2 * copied)
    assert world.targets[0].end == 3 * copied
    return world


def _write(world: World, batches: int) -> None:
    for _ in range(batches):
        world.sources[0].append(3, world.timestamp(old=True))


def _fill(world: World, batches: int) -> None:
    """Let batches wait to be sent."""
    _write(world, batches)
    for _ in range(4):
        each_once(lambda: world.reading(5))
    assert len(_copy(world).pipeline.ready) >= batches


def _forget(world: World) -> None:
    """The brokers' check, which finds that what the producer wrote last is old."""
    world.targets[0].forget(world.now_ms)
    assert not world.targets[0].producers


def _copy(world: World) -> PartitionReplication:
    copy = holder(world, 0)
    assert copy is not None
    return copy


def _send(world: World) -> int:
    """Whatever may be sent goes out; how many requests that is."""
    before = _under_way(world)
    each_once(world.sending)
    return _under_way(world) - before


def _under_way(world: World) -> int:
    return sum(len(connection.sent) for replicator in world.running() for connection in replicator.connections.values())


def _taken_over(world: World) -> tuple[Replicator, Replicator]:
    """Someone else has the partition of a replicator that was given up; both."""
    (before,) = world.holders(0)
    before.frozen = True
    world.give_up(world.coordinators[0], before.number)
    world.spawn()
    world.go_on(1)
    world.now_s += world.terms.takeover_s
    world.go_on(8)
    (after,) = set(world.holders(0)) - {before}
    return before, after


def _all_is_well(world: World) -> None:
    come_to_rest(world)
    check(world)
    assert not world.wrongs
    assert _copy(world).fault is None


@naive
def test_unknown_producer_and_a_pipeline_behind_a_failed_head(naive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that forgot the producer takes what is behind a refused batch: until one is taken, one is sent."""
    if naive:
        monkeypatch.setattr(PartitionReplication, "sendable", property(lambda copy: bool(copy.pipeline.ready)))
    world = _world()
    (replicator,) = world.holders(0)
    world.lose_connection(replicator, 0)
    _forget(world)
    for _ in range(4):
        each_once(world.establishing)
    _fill(world, 2)
    assert (_send(world) > 1) == naive
    world.handling(NOT_ENOUGH_REPLICAS)[0]()
    each_once(world.handling)
    if naive:
        assert "are lost" in world.wrongs[0]
    else:
        _all_is_well(world)


@naive
def test_end_above_the_high_watermark(naive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the leader has appended and its followers have not must be waited for: copied again, it is there twice."""
    world = _world(replicated=True)
    _fill(world, 1)
    _send(world)
    world.serve()
    assert world.targets[0].end > world.targets[0].high_watermark
    (replicator,) = world.holders(0)
    world.lose_connection(replicator, 0)
    _forget(world)
    if naive:
        monkeypatch.setattr(Replicator, "look_at_target", _trust_the_high_watermark)
    each_once(world.establishing)
    assert bool(replicator.ends) == naive
    if naive:
        with pytest.raises(Wrong, match="twice"):
            world.go_on(2)
    else:
        _all_is_well(world)


def _trust_the_high_watermark(replicator: Replicator, number: int) -> None:
    end = replicator.around.targets[number].high_watermark
    replicator.ends[number] = (replicator.copies[number], TargetLog(end=end))


@pytest.mark.parametrize(("naive", "forgotten"), [(False, False), (False, True), (True, True)])
def test_retention_that_ate_the_tail(naive: bool, forgotten: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is empty: its broker says how much was copied; where it has forgotten that, nothing is guessed."""
    if naive:
        monkeypatch.setattr(PartitionReplication, "established", _trust_the_tail)
    world = _world()
    _write(world, 1)
    if forgotten:
        _forget(world)
        world.done[0].add("target_emptied")
    world.targets[0].remove_below(world.targets[0].end)
    world.coordinators[0].flow_state.note_pair(_copy(world).assignment.partition.source, OffsetPair(0, 0))
    world.crash(world.holders(0)[0])
    if naive:
        with pytest.raises(Wrong, match=r"is before it on the target|twice"):
            world.go_on(10)
    elif forgotten:
        come_to_rest(world)
        check(world)
        trouble = _copy(world).fault
        assert trouble is not None
        assert trouble.kind == "copy_lost"
    else:
        _all_is_well(world)


def _trust_the_tail(copy: PartitionReplication, log: TargetLog, contents: TargetContents | None = None) -> None:
    """No batch there, so nothing was copied."""
    _established(copy, log if log.tail else TargetLog(end=copy.acknowledged.target_offset), contents)


@pytest.mark.parametrize("forgotten", [False, True])
def test_frozen_between_lease_check_and_send(forgotten: bool) -> None:
    """The request goes out when the process wakes up: refused; or taken by a broker that forgot, and noticed."""
    world = _world()
    _fill(world, 1)
    (before,) = world.holders(0)
    world.freeze_sending(before, 0)
    _, after = _taken_over(world)
    assert after.copies[0].acknowledged.source_offset == 12
    if forgotten:
        _forget(world)
    world.thaw(before)
    each_once(world.handling)
    assert ("twice" in world.wrongs.get(0, "")) == forgotten
    come_to_rest(world)
    check(world)
    assert (_copy(world).fault is not None) == forgotten


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_late_request_appends_in_its_place_what_is_sent_again(forgotten: bool) -> None:
    """The same producer's sequence refuses the second one; a broker that forgot it appends both, and the copy stops."""
    world = _world()
    _fill(world, 1)
    _send(world)
    (replicator,) = world.holders(0)
    world.lose_connection(replicator, 0)
    for _ in range(4):
        each_once(world.establishing)
    for _ in range(4):
        each_once(lambda: world.reading(5))
    assert _send(world) == 1
    world.handling()[-1]()
    assert world.orphans[-1].handled[-1].parts[0].late
    assert world.targets[0].end > 9
    if forgotten:
        _forget(world)
    each_once(lambda: world.handling(live=True))
    each_once(world.answering)
    assert ("twice" in world.wrongs.get(0, "")) == forgotten
    fault = _copy(world).fault
    assert (fault.kind if fault else None) == ("target_foreign" if forgotten else None)
    come_to_rest(world)
    check(world)


@naive
def test_frozen_and_woken_with_more_to_send(naive: bool) -> None:
    """Whoever wakes up after others took over sends nothing: its lease has run out."""
    world = _world(leased=not naive)
    _fill(world, 1)
    before, _ = _taken_over(world)
    _forget(world)
    world.thaw(before)
    assert bool(_send(world)) == naive
    if naive:
        with pytest.raises(Wrong, match="twice"):
            each_once(world.handling)
    else:
        _all_is_well(world)


@naive
def test_state_topic_lost(naive: bool) -> None:
    """Nothing says what the remote topic holds: it is not copied again."""
    world = _world(careful=not naive)
    world.lose_state()
    world.crash(world.holders(0)[0])
    world.start_coordinator()
    if naive:
        with pytest.raises(Wrong, match=r"is before it on the target|twice"):
            come_to_rest(world)
    else:
        come_to_rest(world)
        assert world.coordinators[-1].refused == {0}
        assert world.targets[0].end == 9


@naive
def test_recreated_target_topic(naive: bool) -> None:
    """A batch that was meant for the topic before is refused by the topic's id, and the partition stops."""
    world = _world(wiring=Wiring(version=FIRST_TOPIC_ID_VERSION - naive))
    _fill(world, 1)
    _send(world)
    world.recreate_target(0)
    if naive:
        with pytest.raises(Wrong, match="are lost"):
            each_once(world.handling)
    else:
        come_to_rest(world)
        check(world)
        trouble = _copy(world).fault
        assert trouble is not None
        assert trouble.kind == "target_recreated"
        assert world.targets[0].end == 0


@pytest.mark.parametrize("kind", ["ours", "unfenced", "unfenced and nameless"])
def test_two_coordinators(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older one is fenced before it hands anything out, and grants name who made them.

    Else two replicators would have the same epoch.
    """
    world = World(Nature(partitions=1, replicators=2))
    world.start_coordinator()
    older, newer = world.coordinators
    older.open()
    newer.open()
    if kind != "ours":
        monkeypatch.setattr(StatePort, "write_state", _unfenced)
    if kind == "unfenced and nameless":
        older.flow_state._owner = newer.flow_state._owner
    orders = [order for order in (newer.grant(0, 1), older.grant(0, 2)) if order is not None]
    assert older.fenced == (kind == "ours")
    for order in orders:
        world.replicators[order.replicator].assign(order.assignment, order.state_id)
    each_once(world.looks)
    each_once(world.looks)
    assert len(world.holders(0)) == (2 if kind == "unfenced and nameless" else 1)


async def _unfenced(port: StatePort, documents: dict[str, object]) -> int:
    port.topic.entries += documents.items()  # type: ignore[arg-type]  # as the flow state gives them
    return port.topic.end - len(documents)
