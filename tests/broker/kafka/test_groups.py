"""Consumer groups of real brokers: which there are, what they have committed, and commits in their name."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientTopicPartition
from confluent_kafka.admin import AdminClient
from kio.index import load_entity_module
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import CONTROL, ClusterConnections
from mirror_ray.kafka.errors import ErrorInfo, error_info
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import list_groups
from mirror_ray.kafka.group_offsets import ACTIVE, OffsetReader, send_commits
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from tests.support.clusters import TopicMaker
from tests.support.kafka import produce, sample_messages
from tests.support.waiting import wait_until_async

PATIENCE_S = 60.0


@pytest.fixture
async def coordinators(source: DevCluster) -> AsyncIterator[GroupCoordinators]:
    """Those of cluster A's groups."""
    cluster = ClusterConnections(ClusterSettings(alias="A", bootstrap_servers=(source.bootstrap,)), "test")
    yield GroupCoordinators(cluster, patience_s=PATIENCE_S)
    await cluster.close()


@pytest.fixture
def group() -> str:
    """A group that no other test uses."""
    return f"group-{uuid.uuid4().hex[:10]}"


async def _commit(
    coordinators: GroupCoordinators, group: str, offsets: dict[TopicPartition, int]
) -> set[ErrorInfo | None]:
    """What all partitions were answered with."""
    commit = {partition: (offset, "by us") for partition, offset in offsets.items()}
    return set((await send_commits(coordinators, {group: commit}))[group].values())


async def _offsets(coordinators: GroupCoordinators, group: str) -> dict[TopicPartition, CommittedOffset]:
    return (await OffsetReader(coordinators).read([group])).changed[group].offsets


async def _kind(coordinators: GroupCoordinators, group: str) -> tuple[str, str] | None:
    listed = (await list_groups(coordinators)).groups.get(group)
    return (listed.kind, listed.state) if listed else None


def _delete(cluster: DevCluster, group: str) -> None:
    admin = AdminClient(cluster.confluent_config())
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)


def _consume(config: dict[str, Any], topic: str, count: int) -> tuple[Consumer, int]:
    """A member of the group that has read so many records and committed; and the first one's offset."""
    consumer = Consumer({"auto.offset.reset": "earliest", "enable.auto.commit": False, **config})
    consumer.subscribe([topic])
    offsets: list[int] = []
    while len(offsets) < count:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            offsets.append(message.offset() or 0)
    consumer.commit(asynchronous=False)
    return consumer, offsets[0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_go_on_from_our_commit_and_keep_us_out(
    source: DevCluster, coordinators: GroupCoordinators, make_topic: TopicMaker, group: str, protocol: str
) -> None:
    """A group made by our commit is taken on by consumers of either protocol; while they are there, we are refused."""
    topic = make_topic(source)
    partition = TopicPartition(topic, 0)
    produce(source.confluent_config(), topic, sample_messages(20))
    assert await _commit(coordinators, group, {partition: 5}) == {None}
    before = await list_groups(coordinators)
    assert (before.groups[group].kind, before.groups[group].protocol_type) == ("classic", "")

    config = {**source.confluent_config(), "group.id": group, "group.protocol": protocol}
    consumer, first = await asyncio.to_thread(_consume, config, topic, 10)
    assert first == 5
    assert await _commit(coordinators, group, {partition: 1}) == {ACTIVE}
    assert await _kind(coordinators, group) == (protocol, "Stable")
    assert (await _offsets(coordinators, group))[partition].offset == 15
    await asyncio.to_thread(consumer.close)

    async def left() -> bool:
        return await _commit(coordinators, group, {partition: 7}) == {None}

    await wait_until_async(left, PATIENCE_S, "the group is empty")
    assert await _kind(coordinators, group) == (protocol, "Empty")
    assert await _offsets(coordinators, group) == {partition: CommittedOffset(7, -1, "by us")}

    await asyncio.to_thread(_delete, source, group)
    assert await _offsets(coordinators, group) == {}
    after = await list_groups(coordinators, before)
    assert group not in after.groups | after.unknown


async def test_only_groups_that_have_changed_are_told_again(
    source: DevCluster, coordinators: GroupCoordinators, make_topic: TopicMaker, group: str
) -> None:
    """Three hundred groups, in several requests; whatever changes about one is seen, and nothing of the others."""
    topic = make_topic(source, 3)
    partitions = [TopicPartition(topic, number) for number in range(3)]
    groups = [f"{group}-{number}" for number in range(300)]
    commits = {name: dict.fromkeys(partitions, (number, "")) for number, name in enumerate(groups)}
    answers = await send_commits(coordinators, commits)
    assert answers == {name: dict.fromkeys(partitions) for name in groups}
    reader = OffsetReader(coordinators)
    first = await reader.read(groups)
    assert {name: found.offsets for name, found in first.changed.items()} == {
        name: dict.fromkeys(partitions, CommittedOffset(number)) for number, name in enumerate(groups)
    }
    again = await reader.read(groups)
    assert (again.unchanged, again.changed, again.failed) == (set(groups), {}, {})

    await _commit(coordinators, groups[7], {partitions[1]: 6})
    await asyncio.to_thread(_delete, source, groups[299])
    third = await reader.read(groups)
    assert {name: found.offsets for name, found in third.changed.items()} == {
        groups[7]: {**dict.fromkeys(partitions, CommittedOffset(7)), partitions[1]: CommittedOffset(6, -1, "by us")},
        groups[299]: {},
    }


async def test_offsets_of_an_open_transaction_are_not_seen(
    source: DevCluster, coordinators: GroupCoordinators, make_topic: TopicMaker, group: str
) -> None:
    """What was committed before is read meanwhile, without an error; the new offset once the transaction is done."""
    partition = TopicPartition(make_topic(source), 0)
    assert await _commit(coordinators, group, {partition: 5}) == {None}
    producer = Producer({**source.confluent_config(), "transactional.id": group})
    member = Consumer({**source.confluent_config(), "group.id": group})
    await asyncio.to_thread(producer.init_transactions, PATIENCE_S)
    producer.begin_transaction()
    offsets = [ClientTopicPartition(partition.topic, partition.partition, 9)]
    await asyncio.to_thread(producer.send_offsets_to_transaction, offsets, member.consumer_group_metadata(), PATIENCE_S)
    reader = OffsetReader(coordinators)
    assert (await reader.read([group])).changed[group].offsets[partition].offset == 5
    await asyncio.to_thread(producer.commit_transaction, PATIENCE_S)

    async def committed() -> bool:
        done = await reader.read([group])
        return group in done.changed and done.changed[group].offsets[partition].offset == 9

    await wait_until_async(committed, PATIENCE_S, "the transaction's offset")
    member.close()


async def test_refused_partitions_are_named(
    source: DevCluster, coordinators: GroupCoordinators, make_topic: TopicMaker, group: str
) -> None:
    """A topic that is not there, and metadata that is too long, are refused alone."""
    there, missing, long = (TopicPartition(make_topic(source, 2), 0), TopicPartition(f"no-{group}", 0), "x" * 5000)
    answers = await send_commits(
        coordinators, {group: {there: (1, ""), missing: (1, ""), TopicPartition(there.topic, 1): (1, long)}}
    )
    assert {str(partition): error and error.name for partition, error in answers[group].items()} == {
        str(there): None,
        str(missing): "UNKNOWN_TOPIC_OR_PARTITION",
        f"{there.topic}-1": "OFFSET_METADATA_TOO_LARGE",
    }


async def _ask(coordinators: GroupCoordinators, name: str, build: Callable[[Any], Any]) -> Any:
    """A request of version 0 to the only broker."""
    await coordinators.cluster.refresh(())
    connection = await coordinators.cluster.connect(1, CONTROL)
    return await connection.request(build(load_entity_module(name, 0, EntityType.request)))


async def test_share_groups_commit_nothing(
    source: DevCluster, coordinators: GroupCoordinators, make_topic: TopicMaker, group: str
) -> None:
    """A share group is listed as one; OffsetFetch knows nothing of it, and a commit is refused."""
    partition = TopicPartition(make_topic(source), 0)

    def start_offset(m: Any) -> Any:
        at = m.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
        topic = m.AlterShareGroupOffsetsRequestTopic(topic_name=partition.topic, partitions=(at,))
        return m.AlterShareGroupOffsetsRequest(group_id=group, topics=(topic,))

    async def altered() -> bool:
        return not (await _ask(coordinators, "alter_share_group_offsets", start_offset)).error_code

    await coordinators.find([group])
    await wait_until_async(altered, PATIENCE_S, "a share group")
    listed = (await list_groups(coordinators)).groups[group]
    assert (listed.kind, listed.state) == ("share", "Empty")
    assert "share group" in (listed.why_without_offsets or "")
    assert await _offsets(coordinators, group) == {}
    assert await _commit(coordinators, group, {partition: 1}) == {error_info(69)}


async def test_streams_groups_are_committed_for_while_nobody_is_there(
    source: DevCluster, coordinators: GroupCoordinators, make_topic: TopicMaker, group: str
) -> None:
    """A streams group (KIP-1071) is read and committed for as any other, and refuses us while it has members."""
    partition = TopicPartition(make_topic(source), 0)
    assert await _commit(coordinators, group, {partition: 5}) == {None}
    member, away = str(uuid.uuid4()), i32Timedelta.parse(dt.timedelta(milliseconds=-1))

    def heartbeat(member_epoch: int, **told: Any) -> Callable[[Any], Any]:
        nothing = dict.fromkeys(
            ["process_id", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "client_tags"]
        )

        def build(m: Any) -> Any:
            telling = {key: value(m) for key, value in told.items()}
            return m.StreamsGroupHeartbeatRequest(
                group_id=group,
                member_id=member,
                member_epoch=member_epoch,
                endpoint_information_epoch=0,
                task_offsets=None,
                task_end_offsets=None,
                **{**nothing, "rebalance_timeout": away, **telling},
            )

        return build

    def topology(m: Any) -> Any:
        nothing = ("source_topic_regex", "state_changelog_topics", "repartition_sink_topics")
        empty: dict[str, Any] = dict.fromkeys((*nothing, "repartition_source_topics", "copartition_groups"), ())
        subtopology = m.Subtopology(subtopology_id="0", source_topics=(partition.topic,), **empty)
        return m.Topology(epoch=0, subtopologies=(subtopology,))

    joining = {
        "process_id": lambda _: "p",
        "topology": topology,
        "rebalance_timeout": lambda _: i32Timedelta.parse(dt.timedelta(seconds=30)),
        **dict.fromkeys(["active_tasks", "standby_tasks", "warmup_tasks", "client_tags"], lambda _: ()),
    }
    joined = await _ask(coordinators, "streams_group_heartbeat", heartbeat(0, **joining))
    assert (int(joined.error_code), joined.error_message) == (0, None)
    kind = await _kind(coordinators, group)
    assert kind is not None
    assert kind[0] == "streams"
    assert await _commit(coordinators, group, {partition: 6}) == {ACTIVE}
    await _ask(coordinators, "streams_group_heartbeat", heartbeat(-1))
    assert await _commit(coordinators, group, {partition: 7}) == {None}
    assert await _offsets(coordinators, group) == {partition: CommittedOffset(7, -1, "by us")}
