"""Spark translates every group's offsets as the checkpoint actor does, row by row, on copies made by the real flows."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from mirror_ray.config.settings import GroupSettings, MirrorSettings, TopicSettings
from mirror_ray.failover.bulk_translation import BulkOrder, BulkRow, MakeAnswer
from mirror_ray.groups.bulk import LocalMaps
from mirror_ray.mirror import Mirror
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.groups import GroupPartitionStatus
from mirror_ray.spark.translation import SparkMaps
from tests.support.clusters import Clusters
from tests.support.group_sync import commit_many
from tests.support.kafka import Message, create_topic, produce, produce_transactions
from tests.support.reading import end_offsets
from tests.support.systems import run, settings_of, wait_caught_up
from tests.support.unrecorded import translate_in_bulk as carry_out
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

FLOW = FlowName("A", "B")
PARTITIONS = 3
GROUPS = 300


class Topics(NamedTuple):
    """On A; the last one came from B."""

    plain: str
    transactional: str
    empty: str
    from_target: str


class Row(NamedTuple):
    """What both say of one group and one partition."""

    target: TopicPartition
    offset: int | None
    exact: bool
    reason: str | None


def test_every_row_is_the_checkpoint_actors(spark: SparkSession, clusters: Clusters, system: str) -> None:
    """Holes by transactions, groups beyond the copy, an empty partition, topics that came from the target."""
    mark = f"bulk-{uuid.uuid4().hex[:6]}"
    topics = Topics(f"{mark}-plain", f"{mark}-transactional", f"{mark}-empty", f"B.{mark}-there")
    groups = GroupSettings(include=(f"{mark}-.*",), sync_offsets_enabled=False)
    settings = settings_of(
        {"A": clusters.a, "B": clusters.b},
        "A->B",
        "B->A",
        topics=TopicSettings(include=(f"{mark}-.*",), refresh_interval_s=1.0),
        groups=groups,
    )
    _fill(clusters, topics)
    with run(system, settings) as mirror:
        wait_caught_up(mirror, {("A->B", name): PARTITIONS for name in topics[:3]}, 120)
        wait_caught_up(mirror, {("B->A", topics.from_target.removeprefix("B.")): PARTITIONS}, 120)
        committed = _commit(clusters, mark, topics)
        expected = _by_the_actor(mirror, committed)
        by_spark = _by(settings, partial(SparkMaps, spark))
        assert by_spark == expected
        assert _by(settings, LocalMaps) == expected
    reasons = {row.reason.split(" ")[0] for row in expected.values() if row.reason}
    assert reasons == {"it", "no"}
    assert sum(row.exact and row.offset is not None for row in expected.values()) > GROUPS * PARTITIONS


def _fill(clusters: Clusters, topics: Topics) -> None:
    config = clusters.a.confluent_config()
    for name in topics[:3]:
        create_topic(config, name, PARTITIONS)
    produce(config, topics.plain, [Message(b"%d" % n, partition=n % PARTITIONS) for n in range(3000)])
    transactions = [
        ([Message(b"%d" % n, partition=n % PARTITIONS) for n in range(5 + step % 7)], step % 3 > 0)
        for step in range(120)
    ]
    produce_transactions(config, topics.transactional, transactions, transactional_id=topics.transactional)
    there = topics.from_target.removeprefix("B.")
    create_topic(clusters.b.confluent_config(), there, PARTITIONS)
    produce(clusters.b.confluent_config(), there, [Message(b"%d" % n, partition=n % PARTITIONS) for n in range(600)])
    # Its copy then begins behind a hole, and has others.
    produce_transactions(clusters.b.confluent_config(), there, [([Message(b"x")], True)] * 10, transactional_id=there)


def _commit(clusters: Clusters, mark: str, topics: Topics) -> dict[tuple[str, TopicPartition], int]:
    """Anywhere in the logs, at their ends, and far behind them."""
    dice = random.Random(7)
    groups: dict[str, dict[TopicPartition, int]] = {f"{mark}-{number}": {} for number in range(GROUPS)}
    for name in topics:
        for partition, end in end_offsets(clusters.a.confluent_config(), name).items():
            for number, offsets in enumerate(groups.values()):
                if number % 4 == 3 and name != topics.plain:
                    continue
                beyond = 1000 if number % 50 == 0 else 0
                offsets[TopicPartition(name, partition)] = dice.choice([dice.randint(0, end), end]) + beyond
    asyncio.run(commit_many(clusters.a, groups))
    return {(group, place): offset for group, offsets in groups.items() for place, offset in offsets.items()}


def _by_the_actor(
    mirror: Mirror, committed: Mapping[tuple[str, TopicPartition], int]
) -> dict[tuple[str, TopicPartition, int], Row]:
    """When it has seen all of them."""
    found: dict[tuple[str, TopicPartition], GroupPartitionStatus] = {}

    def seen() -> bool:
        found.clear()
        for status in mirror.groups("A->B"):
            for partition in status.partitions:
                found[status.group, TopicPartition(partition.topic, partition.partition)] = partition
        return {key: partition.source_offset for key, partition in found.items()} == committed

    assert mirror.settle_groups()
    wait_until(seen, 60, "the checkpoint actor has seen all commits")
    assert mirror.settle_groups()
    assert seen()
    return {
        (*key, partition.source_offset): Row(
            TopicPartition(partition.remote_topic, partition.partition),
            partition.target_offset,
            partition.exact,
            partition.reason,
        )
        for key, partition in found.items()
    }


def _by(settings: MirrorSettings, make_find: MakeAnswer) -> dict[tuple[str, TopicPartition, int], Row]:
    rows: list[BulkRow] = asyncio.run(carry_out(settings, BulkOrder(flow=FLOW), make_find))
    assert {row.outcome for row in rows} == {None}
    found = [row.translated for row in rows]
    return {
        (row.group, row.origin, row.origin_offset or 0): Row(
            row.destination or row.origin, row.translation.offset, row.translation.exact, row.translation.reason
        )
        for row in found
    }
