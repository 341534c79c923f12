"""Earlier versions of Apache Kafka as source and as target, through a broker's death.

``make versions`` tries more of them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pytest

from mirror_ray.config.settings import FetchSettings, GroupSettings, MirrorSettings, OffsetSettings, TopicSettings
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import Clusters, WithFiles
from tests.support.groups import commit, committed
from tests.support.kafka import CODECS, Message, create_topic, produce, produce_transactions, sample_messages
from tests.support.kinds import CLEANED_AT_ONCE, LAST_YEAR_MS, compact
from tests.support.local import LocalSystem, aside
from tests.support.old_kafka import OldCluster
from tests.support.reading import Record, assert_equal_copies, read_placed
from tests.support.systems import settings_of

pytestmark = pytest.mark.timeout(300)

VERSIONS: Final = os.environ.get("KAFKA_VERSIONS", "2.8.2 3.9.1").split()

#: Names as ``tests.support.kinds`` has them.
KINDS: Final = (*CODECS, "transactional", "compacted", "forgotten")
#: Also records of last year, which brokers would delete, and whose producers they forget.
_CONFIGS: Final = {"compacted": CLEANED_AT_ONCE, "forgotten": {"retention.ms": "-1"}}
#: Many small answers, so that there is always something in flight.
_SMALL: Final = FetchSettings(max_bytes=100_000, max_partition_bytes=25_000)
_FORGOTTEN: Final = 40_000
#: Whose offsets are translated, and whose are preserved.
MODES: Final = ("translate", "preserve")

#: The first version that a target may have.
_FIRST_TARGET: Final = (2, 5)


@pytest.fixture(scope="module", params=VERSIONS)
def old(request: pytest.FixtureRequest) -> Iterator[OldCluster]:
    """A broker of an earlier version."""
    with OldCluster(request.param) as cluster:
        yield cluster


class Side:
    """One cluster's topics, of each kind in each mode, and its group."""

    def __init__(self, alias: str, cluster: WithFiles, mark: str) -> None:
        self.alias, self.cluster, self.config = alias, cluster, cluster.confluent_config()
        self.topics = {(mode, kind): f"{mark}-{alias}-{mode}-{kind}" for mode in MODES for kind in KINDS}
        self.group = f"{mark}-{alias}-group"
        for (_, kind), topic in self.topics.items():
            create_topic(self.config, topic, 2, topic_config=_CONFIGS.get(kind))
        old = [each._replace(timestamp_ms=LAST_YEAR_MS) for each in sample_messages(_FORGOTTEN, partitions=2)]
        for mode in MODES:
            produce(self.config, self.topics[mode, "forgotten"], old, codec="lz4")
        self.write(0)
        for mode in MODES:
            compact(cluster, f"{mark}-{alias}-{mode}")
        #: Behind a transaction's marker, and in the middle of batches.
        self.positions = {
            (mode, self.topics[mode, kind], partition): offset
            for mode in MODES
            for kind, partition, offset in (("transactional", 0, 20), ("zstd", 1, 137), ("none", 0, 5))
        }
        committed_there = {(topic, partition): offset for (_, topic, partition), offset in self.positions.items()}
        commit(self.cluster, self.group, committed_there)

    def write(self, first: int) -> None:
        """Some hundred records to each topic."""
        for mode in MODES:
            self._write(mode, first)

    def _write(self, mode: str, first: int) -> None:
        for codec in CODECS:
            records = sample_messages(600, partitions=2, first=first)
            produce(self.config, self.topics[mode, codec], records, codec=codec)
        transactions = [(sample_messages(20, partitions=2, first=first + 20 * n), n % 3 != 1) for n in range(10)]
        transactional_id = f"{self.alias}-{mode}-{first}"
        topic = self.topics[mode, "transactional"]
        produce_transactions(self.config, topic, transactions, transactional_id=transactional_id)
        keyed = [Message(b"%d" % n, b"key %d" % (n % 7)) for n in range(first, first + 100)]
        produce(self.config, self.topics[mode, "compacted"], keyed)
        late = [each._replace(timestamp_ms=LAST_YEAR_MS) for each in sample_messages(600, partitions=2, first=first)]
        produce(self.config, self.topics[mode, "forgotten"], late)


def settings(sides: tuple[Side, Side], mark: str) -> MirrorSettings:
    """A flow each way."""
    one, other = (side.alias for side in sides)
    return settings_of(
        {side.alias: side.cluster for side in sides},
        f"{one}->{other}",
        f"{other}->{one}",
        topics=TopicSettings(include=(f"{mark}-.*",), refresh_interval_s=1.0),
        groups=GroupSettings(
            include=(f"{mark}-.*",),
            emit_checkpoints_interval_s=0.2,
            sync_offsets_interval_s=0.2,
            refresh_interval_s=0.2,
        ),
        fetch=_SMALL,
        offsets=OffsetSettings(mode="preserve", topics=(f"{mark}-.*-preserve-.*",)),
    )


async def copied(system: LocalSystem) -> int:
    """Positions in all partitions, summed."""
    return sum(line.position for line in await system.coordinator.partitions())


async def test_both_ways_through_a_brokers_death(clusters: Clusters, old: OldCluster) -> None:
    """Every record is on the other side once, in order, and groups stand at their very record.

    Where offsets are preserved, records and groups have the same ones.
    """
    for here, there in await copied_both_ways(clusters, old):
        for (mode, kind), topic in here.topics.items():
            remote = f"{here.alias}.{topic}"
            if mode == "translate":
                assert_equal_copies(here.config, there.config, topic, remote)
            else:
                wanted, found = read_placed(here.config, topic), read_placed(there.config, remote)
                if kind == "compacted":
                    # Each side has its own cleaner, which leaves the last record of each key.
                    wanted, found = _last_of_each_key(wanted), _last_of_each_key(found)
                assert found == wanted, topic


def _last_of_each_key(placed: Mapping[int, Sequence[tuple[int, Record]]]) -> dict[int, list[tuple[int, Record]]]:
    return {number: list({each[1].key: each for each in records}.values()) for number, records in placed.items()}


async def copied_both_ways(clusters: Clusters, old: OldCluster) -> list[tuple[Side, Side]]:
    """Copy topics of every kind in both directions while the old broker dies and returns; the ways that are taken."""
    mark = uuid.uuid4().hex[:6]
    sides = await aside(lambda: (Side(f"old{mark}", old, mark), Side(f"new{mark}", clusters.a, mark)))
    ways = [sides, sides[::-1]] if old.number >= _FIRST_TARGET else [sides]
    async with LocalSystem(settings(sides, mark), groups=True) as system:

        async def under_way() -> bool:
            return await copied(system) > _FORGOTTEN // 8

        await system.wait(under_way, "some is copied")
        old.kill()
        begun = await copied(system)
        assert begun < _FORGOTTEN * len(ways) * len(MODES)
        await aside(lambda: sides[1].write(1000))
        await aside(old.start_again)
        await aside(lambda: sides[0].write(1000))
        wanted = len(KINDS) * len(MODES) * 2 * len(ways)

        async def caught_up() -> bool:
            lines = await system.coordinator.partitions()
            done = [each for each in lines if each.state == "copying" and each.lag_records == 0]
            return len(lines) == len(done) == wanted

        await system.wait(caught_up, "everything is copied")
        await assert_groups_are_synced(system, ways)
        if len(ways) == 1:
            await assert_refused(system, sides[1].alias)
    return ways


def place_of(here: Side, there: Side, topic: str, partition: int, offset: int) -> int:
    """Where the first record at or behind ``offset`` is on the other side, by what both hold."""
    records = read_placed(here.config, topic)[partition]
    copies = read_placed(there.config, f"{here.alias}.{topic}")[partition]
    return copies[next(number for number, (at, _) in enumerate(records) if at >= offset)][0]


async def assert_refused(system: LocalSystem, source: str) -> None:
    """The flow to the broker of the earlier version says why it does not begin."""
    (flow,) = (each for each in (await system.coordinator.status()).flows if each.flow.startswith(source))
    assert any("older than Kafka 2.5" in problem for problem in flow.problems), flow


async def assert_groups_are_synced(system: LocalSystem, ways: Sequence[tuple[Side, Side]]) -> None:
    """On the other side each stands at the record at which it stands here; with preserved offsets at the offset."""
    for here, there in ways:
        for (mode, topic, partition), offset in here.positions.items():
            remote = f"{here.alias}.{topic}"
            place = offset
            if mode == "translate":
                place = await aside(partial(place_of, here, there, topic, partition, offset))
            await system.wait(
                partial(stands, there, here.group, TopicPartition(remote, partition), place),
                f"group {here.group} stands at {place} in {remote}",
            )


async def stands(side: Side, group: str, partition: TopicPartition, place: int) -> bool:
    """Whether the group has committed just that there."""
    found = await aside(lambda: committed(side.cluster, group, partition.topic, 2))
    return found[partition.partition] == place
