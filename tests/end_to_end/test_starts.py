"""Where topics begin: at a time over several segments, at offsets, at their end; what comes later loses nothing."""

from __future__ import annotations

import uuid

from mirror_ray.config.settings import TopicSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.topics.planning import make_plan
from tests.support.clusters import Clusters
from tests.support.kafka import Message, create_topic, produce
from tests.support.reading import end_offsets, read_all
from tests.support.systems import run, settings_of, wait_caught_up
from tests.support.waiting import wait_until

#: An hour apart, so that each record has a time of its own.
FIRST_MS, STEP_MS = 1_700_000_000_000, 3_600_000


def values(cluster: DevCluster, topic: str) -> list[int]:
    """Numbers of the records of partition 0, in order."""
    return [int(record.value or b"-1") for record in read_all(cluster.confluent_config(), topic)[0]]


def fill(cluster: DevCluster, topic: str, count: int, partition: int = 0) -> None:
    """Write numbered records, an hour apart, in segments of ten hours."""
    messages = [Message(b"%d" % number, b"k", (), partition, FIRST_MS + number * STEP_MS) for number in range(count)]
    produce(cluster.confluent_config(), topic, messages, linger_ms=0, batch_num_messages=5)


def test_starts(clusters: Clusters, system: str) -> None:
    """Each topic begins at its place, a restart moves none, a later topic begins at its first record."""
    mark = f"s{uuid.uuid4().hex[:8]}"
    timed, placed, newest, late, wrong = (f"{mark}-{each}" for each in ("timed", "placed", "newest", "late", "wrong"))
    config = {"segment.ms": str(10 * STEP_MS), "message.timestamp.before.max.ms": str(2**62), "retention.ms": "-1"}
    for topic in (timed, placed, newest, late, wrong):
        create_topic(clusters.a.confluent_config(), topic, 2, topic_config=config)
        fill(clusters.a, topic, 100)
    overrides = (
        f"{timed}={FIRST_MS + 61 * STEP_MS - 1}",
        f"{late}={FIRST_MS + 1_000 * STEP_MS}",
        f"{placed}=0@37",
        f"{wrong}=0@101 1@0",
    )
    topics = TopicSettings(include=(f"{mark}.*",), refresh_interval_s=1.0, start="latest", start_overrides=overrides)
    settings = settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topics)
    planned = make_plan(settings).flows[0]
    assert planned.begins[newest] == "latest"
    assert planned.begins[timed] == "2023-11-17T11:13:19.999Z"
    assert [each for each in planned.refused if f"{wrong} can't begin" in each and "goes from 0 to 100" in each]

    mirror = run(system, settings)
    wait_caught_up(mirror, dict.fromkeys((("A->B", each) for each in (timed, placed, newest, late)), 2))
    (refused,) = [each for each in mirror.topics() if each.topic == wrong]
    assert refused.state == "refused"
    created = f"{mark}-created"
    create_topic(clusters.a.confluent_config(), created, 1, topic_config=config)
    fill(clusters.a, created, 10)
    wait_caught_up(mirror, {("A->B", created): 1})
    mirror.down(20.0)

    for topic in (timed, placed, newest, late):
        produce(clusters.a.confluent_config(), topic, [Message(b"100", b"k"), Message(b"0", b"k", (), 1)])
    mirror = run(system, settings)
    assert make_plan(settings).flows[0].begins.keys() == {wrong}
    wait_caught_up(mirror, dict.fromkeys((("A->B", each) for each in (timed, placed, newest, late)), 2))
    wait_until(lambda: end_offsets(clusters.b.confluent_config(), f"A.{late}")[0] == 1, 20, "the new record")
    assert values(clusters.b, f"A.{timed}") == list(range(61, 101))
    assert values(clusters.b, f"A.{placed}") == list(range(37, 101))
    assert values(clusters.b, f"A.{newest}") == [100]
    assert values(clusters.b, f"A.{late}") == [100]
    assert values(clusters.b, f"A.{created}") == list(range(10))
