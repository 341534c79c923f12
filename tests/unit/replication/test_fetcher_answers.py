"""What the fetcher takes of an answer: what was asked for, by the log that it was asked of, and all that it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace

import pytest

from mirror_ray.kafka.fetch import FetchedPartition, FetchPosition, PartitionKey
from mirror_ray.kafka.leader_hints import LeaderHint
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicId
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.fetched_batches import FetchedBatches
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.target_log import TargetLog
from tests.support.batches import batch
from tests.support.factories import assignment, establish, replication
from tests.unit.kafka.fetch_leader import ORDERS, Leader, Said
from tests.unit.replication.recorded_events import RecordedEvents, fetcher_of

KEY = PartitionKey(ORDERS.topic.encode(), ORDERS.partition)
ONE = batch(0, [(0, b"a")])
LOST_SESSION, NOT_LEADER, OUT_OF_RANGE, FORBIDDEN = 70, 6, 1, 29


class Broker(Leader):
    """A leader whose connection is for a fetcher; once all was said it says nothing any more."""

    round_trip_s = 0.0

    async def connect(self, broker: int, purpose: str, **_: int) -> Broker:
        return self

    async def send(self, api_key: int, version: int, flexible: bool, parts: Sequence[bytes]) -> memoryview:
        if len(self.asked) >= len(self.says):
            await asyncio.Event().wait()
        return await super().send(api_key, version, flexible, parts)


class Scene:
    """A fetcher with one copy, and what it tells."""

    def __init__(self, *says: Said) -> None:
        self.broker = Broker(says=says)
        self.events = RecordedEvents()
        self.fetcher = fetcher_of(self.broker.as_cluster(), self.events)
        self.fetcher._interest.by_id = False
        anchor, topic_id = OffsetPair(0, 0, source_epoch=3), TopicId("AAAAAAAAAAAAAAAAAAAAAQ")
        self.copy = replication(assignment(ORDERS.topic, source_topic_id=topic_id, anchor=anchor))
        establish(self.copy, TargetLog(end=0))

    def asked(self) -> None:
        """A request for the copy has gone out."""
        self.fetcher.add(self.copy)
        self.fetcher._interest.update_session(0.0)

    def receive(self, fetched: FetchedPartition) -> list[FetchedBatches]:
        """The answer."""
        return self.fetcher._receive([fetched], 1 << 20)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """Of which the fetcher has asked, and nothing was answered."""
    scene = Scene()
    scene.asked()
    yield scene
    await scene.fetcher.close()


def answer(
    records: bytes = ONE,
    *,
    error: int = 0,
    diverging_from: int = -1,
    stable: int = 1,
    high_watermark: int = 1,
    aborted: Sequence[tuple[int, int]] = (),
) -> FetchedPartition:
    """Of the one partition."""
    return FetchedPartition(
        key=KEY,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=stable,
        log_start_offset=0,
        aborted=list(aborted),
        preferred_read_replica=-1,
        records=memoryview(bytearray(records)),
        diverging_from=diverging_from,
    )


@pytest.mark.parametrize(("known_epoch", "moved_to"), [(5, 2), (6, -1)])
async def test_a_leader_that_the_broker_names_is_fetched_from(scene: Scene, known_epoch: int, moved_to: int) -> None:
    """Where the metadata has it; else the leader is looked up."""
    leader = SimpleNamespace(leader=2, leader_epoch=known_epoch)
    scene.broker.metadata = SimpleNamespace(partition=lambda _partition: leader)
    refused = answer(b"", error=NOT_LEADER)
    refused.leader = LeaderHint(2, 5)
    assert scene.receive(refused) == []
    assert scene.events.moved == [moved_to]


async def test_it_asks_with_the_epoch_of_what_was_read(scene: Scene) -> None:
    """So that the broker says when its log is another one."""
    assert scene.fetcher._interest.session.position(KEY) == FetchPosition(0, 3)


async def test_what_was_asked_for_is_taken(scene: Scene) -> None:
    """With its aborted transactions; the source ends, for a copy of what is committed, where that is stable."""
    (arrived,) = scene.receive(answer(stable=1, high_watermark=9, aborted=[(7, 0)]))
    assert (arrived.copy, arrived.aborted, len(arrived.batches)) == (scene.copy, [(7, 0)], 1)
    assert (scene.copy.source_end, scene.copy.high_watermark) == (1, 9)


async def test_an_answer_for_another_position_is_left(scene: Scene) -> None:
    """The copy has gone elsewhere since it was asked."""
    scene.copy.fetch_offset = 5
    assert scene.receive(answer()) == []
    assert scene.copy.fetch_offset == 5


async def test_an_answer_for_a_copy_that_is_not_fetched_is_left(scene: Scene) -> None:
    """It waits for what its target says."""
    scene.copy.interrupt(None)
    assert scene.receive(answer()) == []


async def test_a_log_that_is_another_one_is_not_read_on(scene: Scene) -> None:
    """All that was taken of it is there, and the log has lost it."""
    assert scene.receive(answer(diverging_from=0)) == []
    ((_, error),) = scene.events.failures
    assert isinstance(error, ReplicationFault)
    assert error.fault.kind == "source_truncated"


async def test_errors_of_a_partition(scene: Scene) -> None:
    """Where it is led, and whether it has the position, is looked up; what it may not is said."""
    assert scene.receive(answer(error=OUT_OF_RANGE)) == []
    assert scene.copy.state is CopyState.ASKING_SOURCE
    scene.copy.source_bounds(0, 9, 9)
    assert scene.receive(answer(error=NOT_LEADER)) == []
    assert scene.events.moved == [-1]
    assert scene.receive(answer(error=FORBIDDEN)) == []
    assert [type(error) for _, error in scene.events.failures] == [MirrorError]


async def test_nothing_is_taken_behind_a_corrupt_batch(scene: Scene) -> None:
    """What is before it goes out; then the partition stops."""
    rotten = batch(1, [(0, b"b")])
    arrived = scene.receive(answer(ONE + rotten[:-1] + b"!" + batch(2, [(0, b"c")])))
    await scene.fetcher._process(arrived)
    assert scene.copy.state is CopyState.BLOCKED
    assert [batch.source_first for batch in scene.copy.pipeline.ready] == [0]


async def test_what_arrived_is_not_processed_by_a_copy_that_went_back(scene: Scene) -> None:
    """It would be taken for what its target's end says is next."""
    arrived = scene.receive(answer())
    scene.copy.interrupt(None)
    await scene.fetcher._process(arrived)
    assert not scene.copy.pipeline.ready


async def test_a_lost_session_is_begun_anew() -> None:
    """From where the copy has come to, and nothing is taken twice."""
    scene = Scene(Said(ONE, shown=1), Said(absent=True, error_code=LOST_SESSION), Said(shown=1))
    scene.fetcher._interest.by_id = True
    scene.fetcher.add(scene.copy)
    for _ in range(50):
        await asyncio.sleep(0)
    await scene.fetcher.close()
    assert scene.broker.asked == [0, 1, 1]
    assert [batch.source_first for batch in scene.copy.pipeline.ready] == [0]
    assert (scene.events.moved, scene.events.failures) == ([], [])
