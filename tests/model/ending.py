"""What must be so once nothing fails any more."""

from __future__ import annotations

from mirror_ray.model.fault import FaultKind
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from tests.model.world import World, each_once

#: What may have been done to a partition that makes a trouble true.
JUSTIFIED: dict[FaultKind, set[str]] = {
    "source_removed": {"source_removed"},
    # Not true in a source that was cleaned while a request of a lost connection was on its way; it stops, aloud.
    "source_truncated": {"source_truncated", "cleaned"},
    "target_truncated": {"target_unclean", "target_recreated"},
    "target_recreated": {"target_recreated"},
    "target_foreign": {"foreign", "late", "wrong"},
    "copy_lost": {
        "late",
        "wrong",
        "foreign",
        "target_unclean",
        "source_truncated",
        "source_removed",
        "target_emptied",
        "target_compacted",
    },
    "record_refused": {"refused"},
    "source_recreated": {"source_recreated"},
}
_ROUNDS = 300
#: So many at least, in which a copy that stopped is looked at again and again.
_LEAST_ROUNDS = 10


def come_to_rest(world: World) -> None:
    """Let everything go on without faults, with one more record in each source, until nothing is left to do."""
    for replicator in list(world.replicators.values()):
        if replicator.frozen:
            world.thaw(replicator)
    for number in world.replicators.keys() & world.buried:
        world.crash(world.replicators[number])
    for source in world.sources:
        while source.open_transactions:
            source.conclude(0, commit=True)
        source.append(1, world.timestamp(old=False))
    if all(
        coordinator.fenced or (coordinator.opened and coordinator.identity != world.state.identity)
        for coordinator in world.coordinators
    ):
        world.start_coordinator()
    for done in range(_ROUNDS):
        if done >= _LEAST_ROUNDS and all(at_rest(world, number) for number in range(len(world.sources))):
            return
        world.now_s += 0.1
        for target in world.targets:
            target.replicate()
        each_once(world.coordinating)
        each_once(world.looks)
        each_once(world.looks)
        for acts in (world.reporting, world.establishing, world.establishing):
            each_once(acts)
        for acts in (lambda: world.reading(5), lambda: world.reading(5), world.sending):
            each_once(acts)
        world.serve()


def at_rest(world: World, number: int) -> bool:
    """Whether all of a partition is copied, or it is stopped or refused."""
    copy = holder(world, number)
    if copy is None:
        return any(number in coordinator.refused for coordinator in world.coordinators if not coordinator.fenced)
    if copy.fault is not None:
        return True
    done = copy.state is CopyState.RUNNING and copy.settled
    return done and copy.acknowledged.source_offset == world.sources[number].end


def holder(world: World, number: int) -> PartitionReplication | None:
    """The copy of the one replicator that has the partition by the last assignment."""
    copies = [replicator.copies[number] for replicator in world.holders(number)]
    return max(copies, key=lambda copy: copy.assignment.epoch, default=None)


def check(world: World) -> None:
    """All is copied, or what stopped it is shown and true."""
    for number in range(len(world.sources)):
        copy, done = holder(world, number), set(world.done[number])
        remembered = copy is not None and copy.assignment.producer_id in world.targets[number].producers
        if remembered and "cleaned" not in done:
            # Its broker could say how much was copied; which records those were, a source that was cleaned could not.
            done -= {"target_emptied", "target_compacted"}
        if number in world.wrongs:
            done.add("wrong")
        assert at_rest(world, number), f"partition {number} neither copied nor stopped: {copy and copy.report()}"
        if copy is None:
            assert done & {"state_lost", "foreign"}, f"partition {number} refused; done were {done}"
        elif copy.fault is not None:
            why = f"{copy.fault.kind}: {copy.fault.text}; done were {done}"
            justified = JUSTIFIED.get(copy.fault.kind, set())
            if copy.transforms is not None and copy.fault.kind == "copy_lost":
                # What they made of a record that was cleaned since can't be told from what they would not make.
                justified = justified | {"cleaned"}
            assert done & justified, why
        else:
            # Among others' records a batch in the wrong place is not told by where it is.
            wrong = world.wrongs.get(number)
            assert world.nature.shared or wrong is None, f"partition {number} went on in silence: {wrong}"
            if wrong is None:
                assert world.judges[number].complete, f"partition {number} is said to be copied"
                world.judges[number].pair(copy.acknowledged)
