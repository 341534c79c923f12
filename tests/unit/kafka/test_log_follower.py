"""Who follows a log notices when it is another one, and believes no leader that does not know what is committed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.log_follower import LogFollower
from mirror_ray.model.errors import CorruptRecordError, KafkaProtocolError, MirrorError
from mirror_ray.records.batch import RecordBatch
from tests.unit.kafka.log_broker import LogBroker, Pairs

ABC: Pairs = [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]
TWO: Pairs = [(b"a", b"2"), (b"b", b"2")]


class Reading:
    """A reader of a log of three records, and what it has read: the keys and values that count."""

    def __init__(self) -> None:
        self.log = LogBroker("mm2-ray-segments.A.internal")
        self.log.append(ABC)
        self.reader = InternalTopicReader(self.log.as_cluster(), self.log.partition.topic)
        self.read: list[tuple[bytes | None, bytes | None]] = []
        self.anew = 0

    async def to_end(self) -> None:
        """As those do who follow a topic."""
        complete = False
        while not complete:
            anew, records, complete = await self.reader.read()
            if anew:
                self.anew += 1
                self.read.clear()
            self.read += [(record.key, record.value) for record in records]


@pytest.fixture
async def reading() -> Reading:
    """Read to its end already."""
    reading = Reading()
    await reading.to_end()
    assert reading.read == [*ABC]
    return reading


async def test_what_comes_is_read_on(reading: Reading) -> None:
    """Each record once."""
    reading.log.append(TWO)
    await reading.to_end()
    assert reading.read == [*ABC, *TWO]
    assert (reading.anew, reading.log.refreshed) == (0, 1)


@pytest.mark.parametrize("filled", [0, 2, 5])
async def test_a_log_that_was_cut_and_filled_again(reading: Reading, filled: int) -> None:
    """What is gone is void, whether the log ends before, at or behind the place that was read to."""
    more: Pairs = [(b"d", b"%d" % number) for number in range(filled)]
    reading.log.elect(end=1)
    reading.log.append(more)
    await _persist(reading)
    assert reading.read == [ABC[0], *more]
    assert reading.anew == 1


async def test_a_topic_that_was_created_anew(reading: Reading) -> None:
    """As above, also where it holds as much as before."""
    reading.log.create_anew()
    reading.log.append(TWO * 2)
    await _persist(reading)
    assert reading.read == [*TWO, *TWO]


async def test_a_topic_that_was_created_anew_as_metadata_says(reading: Reading) -> None:
    """Nothing in the answers tells: it holds more, in the same leader epoch, and topic ids are not spoken."""
    reading.log.create_anew(epoch=1)
    reading.log.append(TWO * 2)
    await reading.log.refresh([])
    await reading.to_end()
    assert reading.read == [*TWO, *TWO]


async def test_pieces_are_complete_at_the_end_only(reading: Reading) -> None:
    """What an answer does not hold comes with the next one."""
    reading.log.most = 2
    reading.log.append(TWO * 2)
    assert not (await reading.reader.read()).complete
    assert (await reading.reader.read()).complete


async def test_a_topic_that_was_deleted(reading: Reading) -> None:
    """An empty one, until there is one again."""
    reading.log.exists = False
    await reading.log.refresh([])
    await reading.to_end()
    assert reading.read == []
    reading.log.exists = True
    reading.log.create_anew()
    reading.log.append(TWO)
    await reading.to_end()
    assert reading.read == [*TWO]


async def test_a_new_leader_that_loses_nothing(reading: Reading) -> None:
    """It is found by its refusal of the former epoch."""
    reading.log.elect()
    reading.log.append(TWO)
    await _persist(reading)
    assert reading.read == [*ABC, *TWO]
    assert reading.anew == 0


async def test_a_new_leader_that_is_behind_is_not_believed(reading: Reading) -> None:
    """What it shows is not all that was committed."""
    reading.log.append(TWO, committed=False)
    reading.log.elect(high_watermark=3)
    for _ in range(3):
        with pytest.raises(KafkaProtocolError, match=r"FENCED_LEADER_EPOCH|OFFSET_NOT_AVAILABLE"):
            await reading.to_end()
    reading.log.high_watermark = 5
    await reading.to_end()
    assert reading.read == [*ABC, *TWO]


async def test_a_place_behind_what_is_committed_is_no_end(reading: Reading) -> None:
    """It is told, and tried again."""
    reading.log.high_watermark = 2
    with pytest.raises(MirrorError, match="was read to 3, and is committed to 2 only"):
        await reading.to_end()


async def test_what_can_not_be_decoded_is_read_again() -> None:
    """Nothing is passed over because nobody understood it."""
    log, broken = LogBroker("t"), [True]
    log.append(ABC)

    def decode(batch: RecordBatch, first: int) -> Iterable[int]:
        if batch.base_offset == 1 and broken:
            broken.pop()
            raise CorruptRecordError("broken")
        return [batch.base_offset] if batch.base_offset >= first else []

    async def start() -> None:
        return None

    follower = LogFollower(log.as_cluster(), log.partition, "test", start, decode)
    with pytest.raises(CorruptRecordError):
        await follower.poll()
    assert (await follower.poll()).records == [0, 1, 2]


async def _persist(reading: Reading) -> None:
    """Until it is read to the end, whatever the brokers refuse meanwhile."""
    for _ in range(5):
        try:
            return await reading.to_end()
        except KafkaProtocolError:
            continue
    raise AssertionError("it can't be read")
