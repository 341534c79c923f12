"""A piece of a partition is read whole: over a quota, and where old messages end behind it."""

from __future__ import annotations

import pytest

from mirror_ray.kafka.partition_reader import read_between
from mirror_ray.model.errors import KafkaProtocolError
from mirror_ray.model.names import NO_TOPIC_ID
from mirror_ray.records.batch import CODECS
from mirror_ray.records.codecs import compress
from mirror_ray.records.decode import records_of
from tests.unit.kafka.fetch_leader import ORDERS, Leader, Said
from tests.unit.records.strategies import Plain, batch_bytes, message


def batch(first: int, count: int) -> bytes:
    """Of records of these offsets."""
    records = [Plain(offset=first + i, timestamp=0, key=None, value=b"v") for i in range(count)]
    return bytes(batch_bytes(records, base_offset=first))


def wrapper(first: int, count: int) -> bytes:
    """Of messages of magic 1: its own offset is that of the last of them."""
    inner = b"".join(message(1, i, b"v", timestamp=0) for i in range(count))
    return message(1, first + count - 1, compress("gzip", inner), timestamp=0, attributes=CODECS.index("gzip"))


async def offsets_between(leader: Leader, start: int, end: int) -> list[int]:
    """Of the records in what is read."""
    pieces = [piece async for piece, _ in read_between(leader.as_cluster(), ORDERS, NO_TOPIC_ID, start, end)]
    return [record.offset for piece in pieces for batch in piece for record in records_of(batch)]


async def test_over_a_quota_the_broker_is_asked_again_when_it_says() -> None:
    """It answers without any partition then, and says for how long."""
    throttled = Said(throttle_ms=1, absent=True)
    leader = Leader([throttled, Said(batch(0, 3)), throttled, Said(batch(3, 2))])
    assert await offsets_between(leader, 0, 5) == [0, 1, 2, 3, 4]
    assert leader.asked == [0, 0, 3, 3]


@pytest.mark.parametrize("code", [0, 71])
async def test_an_answer_without_the_partition_is_an_error(code: int) -> None:
    """Unless it names a quota."""
    with pytest.raises(KafkaProtocolError, match="orders") as raised:
        await offsets_between(Leader([Said(error_code=code, absent=True)]), 0, 5)
    assert raised.value.code == code


async def test_old_messages_are_told_apart_by_the_offsets_inside() -> None:
    """A compressed message whose own offset is behind the end holds records before it."""
    leader = Leader([Said(batch(95, 5) + wrapper(100, 100) + batch(200, 5))])
    assert await offsets_between(leader, 95, 150) == [*range(95, 200)]


async def test_batches_behind_the_end_are_left_out() -> None:
    """They were fetched with the others."""
    assert await offsets_between(Leader([Said(batch(0, 3) + batch(3, 3))]), 0, 3) == [0, 1, 2]
