"""One fault after another, each pair of them: each is answered by somebody, in every way, and then all is copied.

The machine draws such worlds too, with everything else that can happen; here none is left to chance.
"""

from __future__ import annotations

from itertools import product

import pytest

from tests.model.cast import Nature
from tests.model.ending import check, come_to_rest
from tests.model.test_machine import FAULTS
from tests.model.world import World

#: How deep each fault goes, where its depth says whether it happens at all.
_DEPTHS = {"recreated": 0, "source_recreated": 0, "foreign": 11, "emptied": 0, "truncated": 60}
_ANSWERS = 3


def _write(world: World) -> None:
    """Enough for each kind of record, some of last week."""
    for source in world.sources:
        for size in (3, 1, 5, 4, 2):
            source.append(size, world.timestamp(old=size != 4))


def _until_all_is_well(world: World, which: int) -> None:
    """Whatever stops the partition is told, and true; it is answered until all is copied."""
    for _ in range(_ANSWERS):
        come_to_rest(world)
        check(world)
        if not world.resolve(0, which):
            return


def _happen(world: World, *faults: str, forgotten: bool) -> None:
    """Something is copied that nobody persists, somebody else writes, and then they happen before anybody looks."""
    _write(world)
    world.go_on(5)
    if world.nature.shared:
        world.targets[0].write([b"another's"] * 2, world.now_ms)
    if forgotten:
        world.targets[0].producers.clear()
    for fault in faults:
        world.harm(fault, 0, _DEPTHS.get(fault, 4))
    if world.nature.shared:
        world.targets[0].write([b"another's"] * 9, world.now_ms)
    for replicator in list(world.replicators.values()):
        world.crash(replicator)
    _write(world)
    _write(world)


@pytest.mark.parametrize("first", FAULTS)
@pytest.mark.parametrize("second", FAULTS)
def test_each_pair_of_faults_and_each_answer(first: str, second: str) -> None:
    """What is noted of a log when the first is answered does not outlive that log."""
    for which, shared, forgotten, together in product((0, 1), (False, True), (False, True), (False, True)):
        if shared and "state" in (first, second):
            continue
        keys = 5 if "cleaned" in (first, second) else None
        world = World(Nature(partitions=1, replicators=1, keys=keys, shared=shared))
        for faults in [(first, second)] if together else [(first,), (second,)]:
            _happen(world, *faults, forgotten=forgotten)
            _until_all_is_well(world, which)
