"""A cluster over raw connections to real brokers: metadata, leaders, offsets, log ends, producer ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import CONTROL, ClusterConnections
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, LogEnd, OffsetAnswer
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import ClusterUnreachableError
from mirror_ray.model.names import NO_TOPIC_ID, TopicPartition

RECORDS = 100
ORDERS = TopicPartition("orders", 0)
OPEN = TopicPartition("open", 0)
NOWHERE = TopicPartition("nowhere", 0)


@pytest.fixture(scope="module")
def brokers(trio: DevCluster) -> DevCluster:
    """Three brokers; ``orders`` has 100 records in each of two partitions, ``open`` as many of an open transaction."""
    config: dict[str, str | int | float | bool] = {"bootstrap.servers": trio.bootstrap}
    admin = AdminClient(config)
    for done in admin.create_topics([NewTopic("orders", 2, 3), NewTopic("open", 1, 1)]).values():
        done.result()
    producer = Producer(config)
    for number in range(2 * RECORDS):
        producer.produce("orders", b"x", partition=number % 2)
    producer.flush()
    transactional = Producer(config | {"transactional.id": "t"})
    transactional.init_transactions()
    transactional.begin_transaction()
    for _ in range(RECORDS):
        transactional.produce("open", b"x", partition=0)
    transactional.flush()
    return trio


@pytest.fixture
async def cluster(brokers: DevCluster) -> AsyncIterator[ClusterConnections]:
    """A cluster one of whose bootstrap servers is not there."""
    servers = ("127.0.0.1:1", *brokers.bootstrap.split(","))
    cluster = ClusterConnections(ClusterSettings(alias="A", bootstrap_servers=servers), "test")
    yield cluster
    await cluster.close()


async def test_metadata_names_brokers_topics_and_leaders(brokers: DevCluster, cluster: ClusterConnections) -> None:
    """All topics, or those that are named; one that does not exist is there with its error and is not created."""
    metadata = await cluster.refresh()
    assert metadata.cluster_id == brokers.cluster_id
    assert set(metadata.brokers) == {1, 2, 3}
    orders = metadata.topics["orders"]
    assert orders.topic_id != NO_TOPIC_ID
    assert {p.leader for p in orders.partitions.values()} <= {1, 2, 3}
    assert (await cluster.refresh(["nowhere"])).topics["nowhere"].error_code == 3
    assert "nowhere" not in (await cluster.refresh()).topics


async def test_connection_is_opened_once_and_again_when_lost(cluster: ClusterConnections) -> None:
    """All who ask at the same time share one connection per purpose; after a loss a new one is opened."""
    await cluster.refresh()
    first, second = await asyncio.gather(cluster.connect(1, "fetch"), cluster.connect(1, "fetch"))
    assert first is second
    assert await cluster.connect(1, CONTROL) is not first
    first.abort("lost")
    assert await cluster.connect(1, "fetch") is not first


async def test_asker_that_is_cancelled_does_not_spoil_the_opening(cluster: ClusterConnections) -> None:
    """One waiter's cancellation leaves the opening to the others."""
    await cluster.refresh()
    impatient = asyncio.create_task(cluster.connect(2, "fetch"))
    patient = asyncio.create_task(cluster.connect(2, "fetch"))
    await asyncio.sleep(0)
    impatient.cancel()
    assert not (await patient).closed


async def test_offsets_are_asked_of_each_leader(cluster: ClusterConnections) -> None:
    """First and last offsets; an open transaction holds back read_committed only; what is unknown has a code."""
    latest = dict.fromkeys((ORDERS, OPEN, NOWHERE), LATEST)
    committed = await cluster.list_offsets(latest, "read_committed")
    assert committed == {ORDERS: OffsetAnswer(RECORDS, 0), OPEN: OffsetAnswer(0, 0), NOWHERE: OffsetAnswer(-1, 3)}
    assert (await cluster.list_offsets({OPEN: LATEST}, "read_uncommitted"))[OPEN].offset == RECORDS
    assert (await cluster.list_offsets({ORDERS: EARLIEST}, "read_committed"))[ORDERS].offset == 0


async def test_log_ends_are_the_leaders_own(cluster: ClusterConnections) -> None:
    """Each partition's end by its leader's epoch, beside the high watermark."""
    partitions = [TopicPartition("orders", 0), TopicPartition("orders", 1), NOWHERE]
    ends = await cluster.log_ends(partitions)
    for partition in partitions[:2]:
        assert (ends[partition].end_offset, ends[partition].high_watermark) == (RECORDS, RECORDS)
    assert ends[NOWHERE] == LogEnd(end_offset=-1, high_watermark=-1, leader_epoch=-1, error_code=3)


async def test_each_producer_id_is_new(cluster: ClusterConnections) -> None:
    """Two idempotent producers never share an id, and start at epoch 0."""
    (first, epoch), (second, _) = await cluster.init_producer_id(), await cluster.init_producer_id()
    assert first != second
    assert epoch == 0


async def test_moved_leader_is_found_after_one_refresh(brokers: DevCluster, cluster: ClusterConnections) -> None:
    """Offsets asked with yesterday's metadata come from today's leader; bootstrap falls back to who lives."""
    await cluster.refresh()
    leader = cluster.metadata.topics["orders"].partitions[0].leader
    old = brokers.broker(leader)
    old.stop()
    try:
        async with asyncio.timeout(30):
            while (await cluster.log_ends([ORDERS]))[ORDERS].error_code:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        assert cluster.metadata.topics["orders"].partitions[0].leader != leader
    finally:
        old.start()


async def test_every_servers_error_is_named() -> None:
    """Nobody answers: the error names the cluster, each server and why, and what to check."""
    cluster = ClusterConnections(ClusterSettings(alias="A", bootstrap_servers=("127.0.0.1:1", "127.0.0.1:2")), "test")
    with pytest.raises(ClusterUnreachableError) as unreachable:
        await cluster.refresh()
    for part in (
        "cluster A",
        "127.0.0.1:1: Connection refused",
        "127.0.0.1:2: Connection refused",
        "bootstrap.servers",
    ):
        assert part in str(unreachable.value)
