"""Leases by what brokers answer: a new leader that is behind, a state topic that has lost records."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mirror_ray.model.errors import MirrorError
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import TopicPartition
from mirror_ray.replication import state_topic_reader
from mirror_ray.replication.leases import Tenure
from mirror_ray.replication.state_topic_reader import StateReader
from mirror_ray.state.schema import GRANT
from tests.support.factories import assignment, parsed
from tests.support.waiting import wait_until_async
from tests.unit.kafka.log_broker import LogBroker, Pairs
from tests.unit.records.strategies import Plain, compressed_bytes

#: Short enough to see leases end.
TERMS = LeaseTerms(400)
P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)


def grant(epoch: int, partition: TopicPartition = P, **more: str) -> Pairs:
    """As a coordinator writes it, with what an older version does not write."""
    document = {"epoch": epoch, "lease_ms": 400, **more}
    return [(GRANT.key(partition).encode(), json.dumps(document).encode())]


#: A record of another kind.
POSITION: Pairs = [(b"partition/orders/0", b"{}")]


class Watch:
    """A reader, and what it has told."""

    def __init__(self) -> None:
        self.log = LogBroker("mm2-ray-state.A.internal")
        self.outdated: list[str] = []
        self.problems: list[str | None] = []
        self.reader = StateReader(
            self.log.as_cluster(),
            self.log.partition.topic,
            TERMS,
            on_outdated=lambda _, why: self.outdated.append(str(why)),
            on_lease=self.problems.append,
        )

    def assign(self, epoch: int, state_offset: int, partition: TopicPartition = P, **more: Any) -> bool:
        """Hand P out, or another one."""
        return self.reader.assign(assignment(*partition, epoch=epoch, state_offset=state_offset, **more))

    def holds(self) -> bool:
        """Whether P may be written to."""
        return self.reader.holds(P)

    async def held(self) -> None:
        """Wait until it is."""
        await _until(self.holds, "held")

    async def not_held(self) -> None:
        """Wait until a lease that was not renewed would have ended."""
        await asyncio.sleep(1.5 * TERMS.sending_s)
        assert not self.holds()


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    """Of a topic that begins with other records."""
    watch = Watch()
    watch.log.append(POSITION)
    yield watch
    await watch.reader.close()


async def _until(condition: object, what: str) -> None:
    async def holds() -> bool:
        assert callable(condition)
        return bool(condition())

    await wait_until_async(holds, 10, what)


async def test_a_lease_is_renewed(watch: Watch) -> None:
    """As long as the topic can be read and shows nothing else."""
    watch.assign(5, watch.log.append(grant(5)))
    await watch.held()
    await asyncio.sleep(2 * TERMS.sending_s)
    assert watch.holds()
    watch.log.append(grant(6))
    await _until(lambda: watch.outdated, "outdated")
    assert not watch.holds()


async def test_a_read_that_began_too_late_in_the_log_is_given_up(watch: Watch) -> None:
    """An assignment came meanwhile that wants more to be read, though its own grant was seen already."""
    watch.log.append(grant(6, Q))
    offset = watch.log.append(grant(5))
    watch.log.append(grant(5, Q))
    watch.assign(5, offset)
    await watch.held()
    held: list[bool] = []

    def assign() -> None:
        watch.assign(5, 1, Q)
        watch.log.meanwhile = lambda: held.append(watch.reader.holds(Q))

    watch.log.meanwhile = assign
    await _until(lambda: watch.outdated, "outdated")
    assert held == [False]


async def test_a_new_leader_that_is_behind_renews_nothing(watch: Watch) -> None:
    """It holds the grant of somebody else, and does not know yet that it is committed."""
    watch.assign(5, watch.log.append(grant(5)))
    await watch.held()
    watch.log.append(grant(6), committed=False)
    watch.log.elect(high_watermark=2)
    await watch.not_held()
    assert not watch.outdated
    watch.log.high_watermark = len(watch.log.log)
    await _until(lambda: watch.outdated, "outdated")


async def test_a_leader_that_comes_again_is_asked_anew(watch: Watch) -> None:
    """The same broker, on the same connection, in another epoch."""
    watch.assign(5, watch.log.append(grant(5)))
    await watch.held()
    watch.log.append(grant(6), committed=False)
    watch.log.elect(high_watermark=2)
    watch.log.elect(high_watermark=2)
    await watch.not_held()


async def test_a_place_behind_what_is_committed_is_no_whole_read(watch: Watch) -> None:
    """Of who takes over by a grant that the new leader does not show."""
    offset = watch.log.append(grant(6))
    watch.log.append(POSITION * 3)
    watch.log.high_watermark = offset
    watch.assign(6, offset + 2)
    await watch.not_held()
    watch.log.high_watermark = len(watch.log.log)


@pytest.mark.parametrize("filled", [0, 1, 5])
async def test_a_grant_in_the_place_of_a_lost_one_is_seen(watch: Watch, filled: int) -> None:
    """The end of the log was lost and written again, to before, at and behind the place that was read to."""
    watch.assign(5, watch.log.append(grant(5)))
    watch.log.append(POSITION * 2)
    await watch.held()
    await _until(lambda: watch.log.asked[-1] == 4, "read to the end")
    watch.log.elect(end=2)
    watch.log.append(grant(6))
    watch.log.append(POSITION * filled)
    await _until(lambda: watch.outdated, "outdated")
    assert not watch.holds()


@pytest.mark.parametrize("filled", [0, 5])
async def test_a_grant_that_was_lost_is_given_up(watch: Watch, filled: int) -> None:
    """Whoever reads the state now may hand out the same epoch."""
    watch.assign(5, watch.log.append(grant(5)))
    await watch.held()
    watch.log.elect(end=1)
    watch.log.append(POSITION * filled)
    await _until(lambda: watch.outdated, "given up")
    assert watch.outdated == ["the state topic does not hold its grant any more"]
    assert watch.assign(5, watch.log.append(grant(5, owner="b")), owner="b")
    await watch.held()


async def test_a_log_that_lost_something_else_is_read_again(watch: Watch) -> None:
    """The lease goes on."""
    watch.assign(5, watch.log.append(grant(5)))
    watch.log.append(POSITION * 3)
    await watch.held()
    await _until(lambda: watch.log.asked[-1] == 5, "read to the end")
    watch.log.elect(end=3)
    watch.log.append(POSITION * 4)
    await _until(lambda: watch.log.asked[-1] == 7, "read again")
    await watch.held()
    assert watch.log.asked.count(0) == 1
    assert not watch.outdated


async def test_a_topic_that_was_created_anew(watch: Watch) -> None:
    """It is read from its start, not from where the assignment said, and knows of nobody."""
    watch.assign(5, watch.log.append(grant(5)))
    await watch.held()
    watch.log.create_anew()
    watch.log.append(grant(5, owner="b"))
    watch.log.append(POSITION * 5)
    await _until(lambda: watch.outdated, "given up")
    assert not watch.holds()


async def test_one_epoch_of_two_coordinators(watch: Watch) -> None:
    """The one was fenced too late; neither's is good."""
    watch.assign(5, watch.log.append(grant(5, owner="a")), owner="a")
    await watch.held()
    watch.log.append(grant(5, owner="b"))
    await _until(lambda: watch.outdated, "outdated")
    assert watch.outdated == ["another coordinator has handed it out, too, with epoch 5"]
    assert not watch.assign(5, 1, owner="a")


async def test_a_grant_that_can_not_be_read_is_not_passed_over(watch: Watch) -> None:
    """Nothing may be sent until it is mended."""
    watch.assign(5, watch.log.append(grant(5)))
    await watch.held()
    watch.log.append([(GRANT.key(P).encode(), b"?")])
    watch.log.append(POSITION)
    await watch.not_held()


async def _by_hand(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """It looks only when it is told to; the seconds of its clock."""
    watch.reader._task.cancel()
    clock = [100.0]
    monkeypatch.setattr(state_topic_reader, "_now_s", lambda: clock[0])
    return clock


async def test_a_part_of_the_log_is_no_whole_read(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes with a later answer may be somebody else's grant."""
    await _by_hand(watch, monkeypatch)
    watch.log.most = 1
    offset = watch.log.append(grant(5))
    watch.log.append(POSITION)
    watch.log.append(grant(6))
    watch.assign(5, offset)
    held: list[bool] = []
    while not watch.outdated:
        await watch.reader._read()
        held.append(watch.holds())
    assert len(held) > 1
    assert not any(held)


async def test_a_look_counts_from_when_it_was_asked(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happened while its answer was on the way it may not show."""
    clock = await _by_hand(watch, monkeypatch)
    watch.assign(5, watch.log.append(grant(5)))
    while not watch.log.asked:
        watch.log.meanwhile = lambda: clock.append(clock.pop() + TERMS.sending_s - 0.01)
        await watch.reader._read()
    assert watch.holds()
    clock[0] = 100.0 + TERMS.sending_s
    assert not watch.holds()


async def test_the_clock_runs_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others' clocks do."""
    monkeypatch.setattr(time, "clock_gettime", float)
    assert state_topic_reader._now_s() == getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


async def test_a_topic_that_is_gone_renews_nothing(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows no higher epoch, and nothing else either."""
    await _by_hand(watch, monkeypatch)
    watch.assign(5, 1)
    watch.log.exists = False
    with pytest.raises(MirrorError, match="find topic"):
        await watch.reader._read()
    assert not watch.holds()


async def test_grants_are_found_in_compressed_batches() -> None:
    """A broker may compress what it is sent, by the topic's config."""
    key, value = grant(7, owner="a")[0]
    data = compressed_bytes([Plain(offset=3, timestamp=0, key=key, value=value)], "gzip")
    assert list(state_topic_reader._grants(parsed(data), 0)) == [(P, Tenure(7, "a"))]
