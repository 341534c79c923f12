"""All groups translated and committed at once, on real brokers: what is left and why, and what was of the past."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from typing import Any

from mirror_ray.config.settings import GroupSettings, MirrorSettings
from mirror_ray.failover.bulk_translation import BulkOrder
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.groups.bulk import LocalMaps
from mirror_ray.groups.commit_rules import ACTIVE
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.offsets.translation import Translation
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.transforms.loading import TransformChains
from tests.support.clusters import Clusters, TopicMaker, cluster_settings
from tests.support.group_sync import SEGMENTS, group_sync, internal_topics
from tests.support.groups import commit, committed, member
from tests.support.kafka import Message, create_topic, delete_records, produce, produce_transactions
from tests.support.replicated import Replicated
from tests.support.systems import settings_of
from tests.support.transforms import THIRD, of_the_third, transforms
from tests.support.unrecorded import translate_in_bulk as carry_out

FLOW = FlowName("A", "B")


def settings(clusters: Clusters, prefix: str) -> MirrorSettings:
    """The flow A->B, and the groups that begin so."""
    pair = {"A": clusters.a, "B": clusters.b}
    return settings_of(pair, "A->B", topics=f"{prefix}.*|topic-.*", groups=GroupSettings(include=(f"{prefix}.*",)))


async def outcomes(configured: MirrorSettings, **order: Any) -> dict[str, tuple[int | None, bool, str | None]]:
    """By group: target offset, exact, and what became of it; each has one partition."""
    rows = await carry_out(configured, BulkOrder(flow=FLOW, **order), LocalMaps)
    found = ((row.translated.group, row.translated.translation, row.outcome) for row in rows)
    return {group: (translation.offset, translation.exact, outcome) for group, translation, outcome in found}


async def copied(clusters: Clusters, topic: str, count: int = 100) -> None:
    """So many records, and their copy."""
    internal_topics(clusters)
    produce(clusters.a.confluent_config(), topic, [Message(b"%d" % number) for number in range(count)])
    async with Replicated(clusters.a, clusters.b) as flow:
        flow.remote(topic)
        await flow.copy([topic])


def stands(clusters: Clusters, topic: str, groups: Mapping[str, object]) -> dict[str, int]:
    """Committed on B; -1001: nothing."""
    return {group: committed(clusters.b, group, f"A.{topic}", 1)[0] for group in groups}


async def test_what_is_committed_and_what_is_left(clusters: Clusters, make_topic: TopicMaker) -> None:
    """By the rules of the group sync; --force replaces what others committed, and nothing disturbs an active group."""
    topic, prefix = make_topic(clusters.a), uuid.uuid4().hex[:6]
    await copied(clusters, topic)
    new, ours, theirs, active, beyond = (f"{prefix}-{kind}" for kind in ("new", "ours", "theirs", "active", "beyond"))
    configured = settings(clusters, prefix)
    commit(clusters.a, ours, {(topic, 0): 10})
    async with group_sync(clusters, f"{prefix}.*") as carrying:
        await carrying.round()
    groups = {new: 20, ours: 30, theirs: 40, active: 50, beyond: 120}
    for group, offset in groups.items():
        commit(clusters.a, group, {(topic, 0): offset})
    commit(clusters.b, theirs, {(f"A.{topic}", 0): 77})
    with member(clusters.b, active, f"A.{topic}"):
        nobody = "offset 77 on the target was committed there by somebody else"
        expected = {
            new: (20, True, "committed"),
            ours: (30, True, "committed"),
            theirs: (40, True, f"left: {nobody}"),
            active: (50, True, f"left: {ACTIVE}"),
            beyond: (100, False, "committed"),
        }
        would = {"committed": "would be committed"}
        dry = {group: (place, exact, would.get(what, what)) for group, (place, exact, what) in expected.items()}
        assert await outcomes(configured, commit=True, dry=True) == dry
        assert stands(clusters, topic, groups) == {new: -1001, ours: 10, theirs: 77, active: -1001, beyond: -1001}
        assert await outcomes(configured) == {group: (*outcome[:2], None) for group, outcome in expected.items()}
        assert await outcomes(configured, commit=True) == expected
        assert stands(clusters, topic, groups) == {new: 20, ours: 30, theirs: 77, active: -1001, beyond: 100}
        again = await outcomes(configured, commit=True, force=True)
        assert again == {
            **{group: (*outcome[:2], "stands there already") for group, outcome in expected.items()},
            theirs: (40, True, "committed"),
            active: expected[active],
        }
    # The group sync knows them as its own, and goes on.
    moved = dict.fromkeys((new, theirs), 60)
    for group in moved:
        commit(clusters.a, group, {(topic, 0): 60})
    async with group_sync(clusters, f"{prefix}.*") as carrying:
        await carrying.round()
    assert stands(clusters, topic, moved) == moved


async def test_offsets_of_the_past_are_translated_and_committed(clusters: Clusters, make_topic: TopicMaker) -> None:
    """What groups had committed then, by the map of now; a group that moved back on the source since goes back."""
    topic, prefix = make_topic(clusters.a), uuid.uuid4().hex[:6]
    await copied(clusters, topic)
    group, gone = f"{prefix}-1", f"{prefix}-2"
    configured = settings(clusters, prefix)
    commit(clusters.a, group, {(topic, 0): 10})
    commit(clusters.a, gone, {(topic, 0): 15})
    async with group_sync(clusters, f"{prefix}.*", history_problems=[]) as carrying:
        await carrying.round()
        then_ms = int(time.time() * 1000)
        await asyncio.sleep(0.05)
        for name in (group, gone):
            commit(clusters.a, name, {(topic, 0): 90})
        await carrying.round()
        now_ms = int(time.time() * 1000)
    assert await outcomes(configured, as_of_ms=now_ms) == {group: (90, True, None), gone: (90, True, None)}
    past = {group: (10, True, None), gone: (15, True, None)}
    assert await outcomes(configured, as_of_ms=then_ms) == past
    assert stands(clusters, topic, past) == dict.fromkeys(past, 90)
    await outcomes(configured, as_of_ms=then_ms, commit=True)
    assert stands(clusters, topic, past) == {group: 10, gone: 15}


async def test_a_log_that_begins_later_and_a_topic_that_is_made_anew(
    clusters: Clusters, make_topic: TopicMaker
) -> None:
    """The start of the log; and nothing for another topic of the name."""
    topic, prefix = make_topic(clusters.a), uuid.uuid4().hex[:6]
    await copied(clusters, topic)
    commit(clusters.a, prefix, {(topic, 0): 10})
    configured = settings(clusters, prefix)
    delete_records(clusters.b.confluent_config(), f"A.{topic}", 40)
    assert await outcomes(configured) == {prefix: (40, True, None)}
    other = f"{prefix}-other"
    commit(clusters.a, other, {(make_topic(clusters.a), 0): 0})
    found = await outcomes(configured, commit=True, dry=True)
    assert found[other] == (None, True, "left: there is no place yet")


async def test_what_the_map_has_forgotten_is_read_on_the_source(clusters: Clusters, make_topic: TopicMaker) -> None:
    """Exactly; and where the source does not hold it any more, a place before it, with the reason."""
    topic, prefix = make_topic(clusters.a), uuid.uuid4().hex[:6]
    internal_topics(clusters)
    transactions = [([Message(b"%d" % number) for number in range(10)], True)] * 5
    produce_transactions(clusters.a.confluent_config(), topic, transactions, transactional_id=topic)
    async with Replicated(clusters.a, clusters.b) as flow:
        flow.remote(topic)
        await flow.copy([topic])
    # As after a crash: of the third of five transactions, and of those beside it, nothing was told.
    await _tell(clusters, topic, (Segment(0, 0, 10, 0), Segment(44, 40, 10, 40)), source_next=55)
    commit(clusters.a, prefix, {(topic, 0): 25})
    configured = settings(clusters, prefix)
    assert await outcomes(configured) == {prefix: (23, True, None)}
    delete_records(clusters.a.confluent_config(), topic, 22)
    (row,) = await carry_out(configured, BulkOrder(flow=FLOW), LocalMaps)
    place = row.translated.translation
    assert (place.offset, place.exact) == (10, False)
    assert place.reason == "source offset 10, from which to count, was deleted"


async def test_what_transforms_left_out_of_it_is_known(clusters: Clusters, make_topic: TopicMaker) -> None:
    """By the same transforms, in bulk and on the way back; without them a place is before the record."""
    topic, prefix = make_topic(clusters.a), uuid.uuid4().hex[:6]
    internal_topics(clusters)
    values = [b"%d" % number for number in range(60)]
    kept = [offset for offset, value in enumerate(values) if of_the_third(value)]
    remote = create_topic(clusters.b.confluent_config(), f"A.{topic}")
    produce(clusters.a.confluent_config(), topic, [Message(value) for value in values])
    produce(clusters.b.confluent_config(), remote, [Message(values[offset]) for offset in kept])
    # As after a crash: nothing was told but both ends.
    ends = Segment(0, 0, 0, 0), Segment(60, len(kept), 0, len(kept))
    gap_transforms = transforms(THIRD)
    await _tell(clusters, topic, ends, source_next=60, transforms=TransformChains(gap_transforms.steps).identity(topic))
    commit(clusters.a, prefix, {(topic, 0): 30})
    plain = settings(clusters, prefix)
    known = plain.model_copy(update={"flows": (plain.flow(FLOW).model_copy(update={"transforms": gap_transforms}),)})
    assert await outcomes(known) == {prefix: (sum(offset < 30 for offset in kept), True, None)}
    assert (await outcomes(plain))[prefix][:2] == (0, False)
    async with FailoverClusters(known, FLOW, "failback", audit_log=UNRECORDED) as sides:
        await sides.read_maps()
        await sides.maps.refresh([TopicPartition(remote, 0)])
        route = sides.maps.remote_partition(TopicPartition(remote, 0))
        assert route is not None
        places = [await route.translate(number) for number in range(len(kept))]
    assert places == [Translation(offset=offset) for offset in kept]


async def _tell(
    clusters: Clusters, topic: str, segments: tuple[Segment, ...], source_next: int, transforms: str = ""
) -> None:
    """As a later replicator."""
    source, target = (
        ClusterConnections(cluster_settings("A", clusters.a), "test"),
        ClusterConnections(cluster_settings("B", clusters.b), "test"),
    )
    try:
        ids = [
            (await cluster.refresh([name])).topics[name].topic_id
            for cluster, name in ((source, topic), (target, f"A.{topic}"))
        ]
        block = SegmentBlock(
            source=TopicPartition(topic, 0),
            source_topic_id=ids[0],
            target_topic_id=ids[1],
            epoch=1_000_000,
            segments=segments,
            source_next=source_next,
            transforms=transforms,
        )
        await InternalTopicWriter(target, SEGMENTS).append([KeyedRecord(encode_key(block.key), encode_value(block))])
    finally:
        await source.close()
        await target.close()
