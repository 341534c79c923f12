"""Earlier versions of Apache Kafka as source and as target, through a broker's death.

``make versions`` tries more of them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal

import pytest

from mirror_ray.config.settings import FetchSettings, GroupSettings, MirrorSettings, OffsetSettings, TopicSettings
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import Clusters, WithFiles
from tests.support.groups import commit, committed
from tests.support.kafka import CODECS, Message, create_topic, produce, produce_transactions, sample_messages
from tests.support.kinds import CLEANED_AT_ONCE, LAST_YEAR_MS, compact
from tests.support.local import LocalSystem, aside
from tests.support.old_kafka import OldCluster
from tests.support.reading import assert_equal_copies, read_placed
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


#: The first version that a target may have.
_FIRST_TARGET: Final = (2, 5)


@pytest.fixture(scope="module", params=VERSIONS)
def old(request: pytest.FixtureRequest) -> Iterator[OldCluster]:
    """A broker of an earlier version."""
    with OldCluster(request.param) as cluster:
        yield cluster


class Side:
    """One cluster's topics and its group."""

    def __init__(self, alias: str, cluster: WithFiles, mark: str) -> None:
        self.alias, self.cluster, self.config = alias, cluster, cluster.confluent_config()
        self.topics = {kind: f"{mark}-{alias}-{kind}" for kind in KINDS}
        self.group = f"{mark}-{alias}-group"
        for kind, topic in self.topics.items():
            create_topic(self.config, topic, 2, topic_config=_CONFIGS.get(kind))
        old = [each._replace(timestamp_ms=LAST_YEAR_MS) for each in sample_messages(_FORGOTTEN, partitions=2)]
        produce(self.config, self.topics["forgotten"], old, codec="lz4")
        self.write(0)
        compact(cluster, f"{mark}-{alias}")
        #: Behind a transaction's marker, and in the middle of batches.
        self.positions = {
            (self.topics["transactional"], 0): 20,
            (self.topics["zstd"], 1): 137,
            (self.topics["none"], 0): 5,
        }
        commit(self.cluster, self.group, self.positions)

    def write(self, first: int) -> None:
        """Some hundred records to each topic but the large one, whose records are old."""
        for codec in CODECS:
            produce(self.config, self.topics[codec], sample_messages(600, partitions=2, first=first), codec=codec)
        transactions = [(sample_messages(20, partitions=2, first=first + 20 * n), n % 3 != 1) for n in range(10)]
        produce_transactions(
            self.config, self.topics["transactional"], transactions, transactional_id=f"{self.alias}-{first}"
        )
        keyed = [Message(b"%d" % n, b"key %d" % (n % 7)) for n in range(first, first + 100)]
        produce(self.config, self.topics["compacted"], keyed)
        late = [each._replace(timestamp_ms=LAST_YEAR_MS) for each in sample_messages(600, partitions=2, first=first)]
        produce(self.config, self.topics["forgotten"], late)


def settings(
    sides: tuple[Side, Side], mark: str, mode: Literal["translate", "preserve"] = "translate"
) -> MirrorSettings:
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
        offsets=OffsetSettings(mode=mode),
    )


async def copied(system: LocalSystem) -> int:
    """Positions in all partitions, summed."""
    return sum(line.position for line in await system.coordinator.partitions())


async def test_both_ways_through_a_brokers_death(clusters: Clusters, old: OldCluster) -> None:
    """Every record is on the other side once, in order, and groups stand at their very record."""
    ways = await copied_both_ways(clusters, old, "translate")
    for here, there in ways:
        for topic in here.topics.values():
            assert_equal_copies(here.config, there.config, topic, f"{here.alias}.{topic}")


async def test_offsets_are_preserved_through_a_brokers_death(clusters: Clusters, old: OldCluster) -> None:
    """Every record has its offset on the other side, and groups have those that they have committed."""
    ways = await copied_both_ways(clusters, old, "preserve")
    for here, there in ways:
        for kind, topic in here.topics.items():
            wanted = read_placed(here.config, topic)
            found = read_placed(there.config, f"{here.alias}.{topic}")
            if kind == "compacted":
                # Each side has its own cleaner, which leaves the last record of each key.
                wanted, found = (
                    {number: list({each[1].key: each for each in placed}.values()) for number, placed in side.items()}
                    for side in (wanted, found)
                )
            assert found == wanted, topic


async def copied_both_ways(
    clusters: Clusters, old: OldCluster, mode: Literal["translate", "preserve"]
) -> list[tuple[Side, Side]]:
    """Copy topics of every kind in both directions while the old broker dies and returns; the ways that are taken."""
    mark = uuid.uuid4().hex[:6]
    sides = await aside(lambda: (Side(f"old{mark}", old, mark), Side(f"new{mark}", clusters.a, mark)))
    config = settings(sides, mark, mode)
    ways = [sides, sides[::-1]] if old.number >= _FIRST_TARGET else [sides]
    async with LocalSystem(config, groups=True) as system:

        async def under_way() -> bool:
            return await copied(system) > _FORGOTTEN // 8

        await system.wait(under_way, "some is copied")
        old.kill()
        begun = await copied(system)
        assert begun < _FORGOTTEN * len(ways)
        await aside(lambda: sides[1].write(1000))
        await aside(old.start_again)
        await aside(lambda: sides[0].write(1000))
        wanted = len(KINDS) * 2 * len(ways)

        async def caught_up() -> bool:
            lines = await system.coordinator.partitions()
            done = [each for each in lines if each.state == "copying" and each.lag_records == 0]
            return len(lines) == len(done) == wanted

        await system.wait(caught_up, "everything is copied")
        await assert_groups_are_synced(system, ways, mode)
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


async def assert_groups_are_synced(system: LocalSystem, ways: Sequence[tuple[Side, Side]], mode: str) -> None:
    """On the other side each stands at the record at which it stands here; with preserved offsets at the offset."""
    for here, there in ways:
        for (topic, partition), offset in here.positions.items():
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
