"""What arrived is processed where it belongs, though transforms let others have their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.records.batch import iter_batches
from mirror_ray.replication.fetched_batches import FetchedBatches, chunks
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.target_log import TargetLog
from mirror_ray.transforms.loading import TransformChains
from tests.support.batches import batch
from tests.support.factories import assignment, establish, replication
from tests.support.transforms import suffix, transforms
from tests.unit.replication.recorded_events import RecordedEvents, fetcher_of

#: Three pieces of two batches each.
BATCHES = [batch(first, [(0, b"x" * 40_000)]) for first in range(6)]


def _copy(topic: str, *, with_transforms: bool) -> PartitionReplication:
    copy = replication(assignment(topic))
    chain = TransformChains(transforms(suffix()).steps).chain(topic)
    if with_transforms and chain is not None:
        copy.transforms = PartitionTransforms(chain, copy.source)
    establish(copy, TargetLog(end=0))
    return copy


def _arrived(copy: PartitionReplication) -> FetchedBatches:
    batches = copy.received(memoryview(bytearray(b"".join(BATCHES))))
    return FetchedBatches(copy, batches, [], (copy.fetch_offset, copy.process_offset))


async def _process(copies: list[PartitionReplication], on_fetched: Callable[[PartitionReplication], None]) -> None:
    events = RecordedEvents()
    vars(events)["fetched"] = on_fetched
    cluster = ClusterConnections(ClusterSettings(alias="A", bootstrap_servers=("nowhere:1",)), "test")
    fetcher = fetcher_of(cluster, events)
    try:
        await fetcher._process([_arrived(copy) for copy in copies])
    finally:
        await fetcher.close()
        await cluster.close()


@pytest.mark.parametrize(("size_bytes", "numbers"), [(1, [1] * 6), (50_000, [2, 2, 2]), (1 << 30, [6])])
def test_pieces_are_of_whole_batches(size_bytes: int, numbers: list[int]) -> None:
    """All of them, in order; of nothing there is one, for the end of the source may have been reached."""
    batches = iter_batches(memoryview(bytearray(b"".join(BATCHES))))
    found = list(chunks(batches, size_bytes))
    assert [len(piece) for piece in found] == numbers
    assert [batch for piece in found for batch in piece] == batches
    assert list(chunks([], size_bytes)) == [[]]


async def test_what_is_passed_on_does_not_wait_for_transforms() -> None:
    """It comes first, and the loop has a turn between the pieces of the others."""
    order: list[str] = []
    turns: list[int] = []
    slow, plain = _copy("slow", with_transforms=True), _copy("plain", with_transforms=False)

    async def elsewhere() -> None:
        while True:
            turns.append(len(slow.pipeline.ready))
            await asyncio.sleep(0)

    task = asyncio.create_task(elsewhere())
    await _process([slow, plain], lambda copy: order.append(copy.source.topic))
    task.cancel()
    assert order == ["plain", "slow", "slow", "slow"]
    assert {2, 4} <= set(turns)
    assert len(plain.pipeline.ready) == len(slow.pipeline.ready) == 6


async def test_what_arrived_for_another_place_is_dropped() -> None:
    """A copy that was set back between two pieces would take what lies behind for what comes next."""
    slow = _copy("slow", with_transforms=True)

    begun = asyncio.Event()

    async def set_back() -> None:
        await begun.wait()
        slow.interrupt(None)
        establish(slow, TargetLog(end=0))

    task = asyncio.create_task(set_back())
    await _process([slow], lambda _: begun.set())
    await task
    assert (slow.fetch_offset, slow.process_offset, len(slow.pipeline.ready)) == (0, 0, 0)
