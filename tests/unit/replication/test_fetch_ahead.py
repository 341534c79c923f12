"""What is asked for ahead is taken where it continues what was read, and nowhere else."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.kafka.fetch import FetchParameters, PartitionKey
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.fetch_ahead import FetchAhead
from mirror_ray.replication.fetcher import Fetcher
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.pipeline import BufferBudget
from mirror_ray.replication.target_log import TargetLog
from mirror_ray.replication.throttle import FetchThrottle
from tests.support.factories import assignment, establish, replication
from tests.unit.kafka.fetch_leader import ORDERS
from tests.unit.replication.recorded_events import RecordedEvents
from tests.unit.replication.session_broker import SessionBroker, log_of, parsed

KEY = PartitionKey(b"orders", 0)
LIMIT = 4000
EVEN = log_of([(2, 100, 0)] * 400)


class Scene:
    """A fetcher of such a broker with one copy, and what came of it."""

    def __init__(self, broker: SessionBroker, *, budget_bytes: int = 1 << 30) -> None:
        self.broker, self.events = broker, RecordedEvents()
        self.budget = BufferBudget(budget_bytes)
        self.copy: PartitionReplication = replication(assignment(ORDERS.topic, anchor=OffsetPair(0, 0)))
        self.copy.budget = self.copy.pipeline.budget = self.budget
        self.copy.buffer_limit_bytes = 2 * LIMIT
        establish(self.copy, TargetLog(end=0))
        self.copied: list[tuple[int, int, bytes]] = []

    async def run(self, until: int, *, drains: bool = True) -> None:
        """Fetch until that offset was processed, or nothing happens any more; what is ready is acknowledged."""
        parameters = FetchParameters(
            max_wait_ms=0, min_bytes=1, max_bytes=2 * LIMIT, max_partition_bytes=LIMIT, read_committed=True, rack=""
        )
        fetcher = Fetcher(
            self.broker.as_cluster(),
            1,
            parameters,
            self.budget,
            purpose="test",
            receive_buffer_bytes=-1,
            throttle=FetchThrottle(),
            events=self.events,
        )
        fetcher._interest.by_id = False
        fetcher.add(self.copy)
        for _ in range(3000):
            await asyncio.sleep(0)
            if drains:
                self.drain()
                fetcher.room_made()
            if self.copy.process_offset >= until or not self.copy.state.fetches:
                break
        await fetcher.close()
        self.drain()
        assert self.budget.reserved_bytes == 0

    def drain(self) -> None:
        pipeline = self.copy.pipeline
        while pipeline.ready:
            outgoing = pipeline.take()
            payload = bytes(outgoing.batch.view[61:])
            self.copied.append((outgoing.source_first, outgoing.count, payload))
            pipeline.appended(pipeline.answered())
            self.copy._commit()


def contents(log: list[bytes]) -> list[tuple[int, int, bytes]]:
    """First offset, count and payload of each batch."""
    return [(entry.base_offset, entry.count, bytes(entry.view[61:])) for entry in parsed(log)]


sizes = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from([10, 100, 300, 2500]), st.sampled_from([0, 0, 0, 1, 40])), min_size=40
)


def test_a_long_link_has_several_requests_under_way() -> None:
    """All in one session, and what they bring is the log."""
    scene = Scene(SessionBroker(EVEN))
    asyncio.run(scene.run(800))
    assert scene.broker.most_waiting > 3
    assert scene.copied == contents(EVEN)
    assert (scene.events.moved, scene.events.failures, scene.events.interruptions) == ([], [], [])


def test_a_short_link_has_one() -> None:
    """There is nothing to gain."""
    scene = Scene(SessionBroker(EVEN))
    scene.broker.round_trip_s = 0.001
    asyncio.run(scene.run(800))
    assert scene.broker.most_waiting == 1
    assert scene.copied == contents(EVEN)


def test_memory_bounds_what_is_under_way() -> None:
    """Room is made for what is asked for, before it is."""
    scene = Scene(SessionBroker(EVEN), budget_bytes=3 * LIMIT)
    asyncio.run(scene.run(800))
    assert 1 < scene.broker.most_waiting <= 4
    assert scene.copied == contents(EVEN)


def test_without_room_nothing_is_asked_ahead() -> None:
    """The target takes nothing: what was asked for comes, and no more than that."""
    scene = Scene(SessionBroker(EVEN), budget_bytes=3 * LIMIT)
    asyncio.run(scene.run(800, drains=False))
    assert scene.copied == contents(EVEN)[: len(scene.copied)]
    assert sum(len(payload) for *_, payload in scene.copied) < 5 * LIMIT


def test_a_broker_that_loses_the_session_is_asked_one_at_a_time() -> None:
    """It does not handle requests in order."""
    scene = Scene(SessionBroker(EVEN))
    scene.broker.in_order = False
    asyncio.run(scene.run(800))
    assert scene.copied == contents(EVEN)


@settings(max_examples=25, deadline=None)
@given(sizes)
def test_whatever_the_batches_are_like_all_is_copied_once(shapes: list[tuple[int, int, int]]) -> None:
    """In order: guesses that miss cost time alone."""
    log = log_of(shapes)
    scene = Scene(SessionBroker(log))
    asyncio.run(scene.run(parsed(log)[-1].next_offset))
    assert scene.copied == contents(log)
    assert scene.events.failures == []


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(0, 399))
def test_another_log_is_not_put_behind_what_was_read(request: int, kept: int) -> None:
    """Between two answers of one connection the broker has lost a part of its log, and got another one."""
    replaced = EVEN[:kept] + log_of([(2, 100, 0)] * (400 - kept), first=2 * kept, epoch=1, fill=b"y")
    scene = Scene(SessionBroker(EVEN, changes={request: replaced}))
    asyncio.run(scene.run(800))
    number = len(scene.copied)
    assert scene.copied in (contents(EVEN)[:number], contents(replaced)[:number])


@pytest.mark.parametrize("round_trip_s", [0.001, 0.1])
def test_nothing_is_guessed_of_what_is_not_known(round_trip_s: float) -> None:
    """Neither at first, nor beyond the end."""
    ahead = FetchAhead(round_trip_s)
    assert not ahead.ready
    ahead.received(KEY, parsed(EVEN[:20]), full=True)
    ahead.asked(KEY, 0, LIMIT)
    assert ahead.ready == (round_trip_s > 0.01)
    assert ahead.guesses({KEY: 60}, LIMIT) == {}
    assert ahead.guesses({KEY: 800, PartitionKey(b"other", 0): 800}, LIMIT) == {}


def test_a_guess_lies_within_the_answer_before() -> None:
    """By some batches, or by a share of it, and the next one within that."""
    ahead = FetchAhead(0.1)
    ahead.received(KEY, parsed(EVEN[:20]), full=True)
    ahead.asked(KEY, 40, LIMIT)
    per_answer = LIMIT * 40 / sum(map(len, EVEN[:20]))
    guess = ahead.guesses({KEY: 800}, LIMIT)[KEY]
    assert 40 + per_answer / 2 < guess < 40 + per_answer - 4
    ahead.asked(KEY, guess, LIMIT)
    assert ahead.guesses({KEY: 800}, LIMIT)[KEY] > guess


def test_batches_too_large_for_it_are_not_guessed() -> None:
    """Most of an answer would be read twice: there, answers become larger."""
    log = log_of([(1, 1500, 0)] * 200)
    scene = Scene(SessionBroker(log))
    asyncio.run(scene.run(200))
    assert scene.copied == contents(log)
    assert scene.broker.most_waiting == 1
    assert scene.broker.limit_bytes > 4 * LIMIT
    ahead = FetchAhead(0.1)
    ahead.received(KEY, parsed(log[:3]), full=True)
    ahead.asked(KEY, 3, LIMIT)
    assert ahead.guesses({KEY: 1000}, LIMIT) == {}


def test_one_miss_ends_guessing_until_the_next_request_from_where_it_is() -> None:
    """All that was guessed behind it begins too far on."""
    ahead = FetchAhead(0.1)
    ahead.received(KEY, parsed(EVEN[:20]), full=True)
    assert not ahead.continues(KEY, 40, memoryview(b"".join(EVEN[20:40])))
    assert not ahead.ready
    ahead.begin_anew()
    assert ahead.ready
    assert ahead.continues(KEY, 40, memoryview(b"".join(EVEN[18:40])))
    assert not ahead.continues(KEY, 38, memoryview(b"".join(EVEN[18:40])))
    ahead.begin_anew()
    ahead.give_up()
    assert not ahead.ready
