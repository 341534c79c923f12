"""An application that moves from cluster A to cluster B: the flow, and records with gaps of offsets between them."""

from __future__ import annotations

from typing import Literal

from mirror_ray.config.settings import MirrorSettings, OffsetSettings, PolicySettings, TopicSettings
from mirror_ray.model.policy import IDENTITY_POLICY_CLASS
from tests.support.clusters import Clusters
from tests.support.kafka import ConfluentConfig, Message, delete_records, produce, produce_transactions
from tests.support.local import LocalSystem, aside
from tests.support.reading import end_offsets, read_all
from tests.support.systems import settings_of

OffsetMode = Literal["preserve", "translate"]

PARTITIONS = 2
#: Records of one ``fill`` that a consumer with ``read_committed`` sees, in all partitions.
COMMITTED = 270
_OF_TRANSACTION = 10
_TRANSACTIONS = 30
_PLAIN = 60


def settings(clusters: Clusters, topic: str, mode: OffsetMode) -> MirrorSettings:
    """A flow A->B of one topic, which has its own name on B."""
    return settings_of(
        {"A": clusters.a, "B": clusters.b},
        "A->B",
        topics=TopicSettings(include=(topic,), refresh_interval_s=0.5),
        offsets=OffsetSettings(mode=mode),
        policy=PolicySettings(class_name=IDENTITY_POLICY_CLASS),
    )


def fill(config: ConfluentConfig, topic: str, first: int) -> None:
    """Write numbered records from ``first`` on: plain ones between transactions, of which one in three is aborted."""
    numbers = iter(range(first, first + _TRANSACTIONS * _OF_TRANSACTION + _PLAIN))

    def some(count: int) -> list[Message]:
        return [Message(b"%d" % (n := next(numbers)), partition=n // 3 % PARTITIONS) for _ in range(count)]

    for part in range(3):
        transactions = [(some(_OF_TRANSACTION), n % 3 != 1) for n in range(_TRANSACTIONS // 3)]
        produce_transactions(config, topic, transactions, transactional_id=f"{topic}-{first}-{part}")
        produce(config, topic, some(_PLAIN // 3), batch_num_messages=4)


def begin(config: ConfluentConfig, topic: str) -> None:
    """Write the first records, of which retention has taken some."""
    fill(config, topic, 0)
    for partition in range(PARTITIONS):
        delete_records(config, topic, 37, partition)


def written(config: ConfluentConfig, topic: str) -> dict[int, list[int]]:
    """The numbers that are in the topic, by partition, in order."""
    return {
        partition: [int(record.value or b"-1") for record in records]
        for partition, records in read_all(config, topic).items()
    }


async def copied(clusters: Clusters, system: LocalSystem, topic: str) -> None:
    """Wait until B has all that A has now."""
    ends = await aside(lambda: end_offsets(clusters.a.confluent_config(), topic, isolation_level="read_committed"))

    async def done() -> bool:
        lines = [line for line in await system.coordinator.partitions("A->B") if line.topic == topic]
        return len(lines) == PARTITIONS and all(
            line.lag_records == 0 and line.position >= ends[line.partition] for line in lines
        )

    await system.wait(done, f"{topic} is copied")
