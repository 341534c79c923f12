"""MM2's own checkpoint task translates from our offset-syncs: never ahead of us, and exact where MM2 can be."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path

from mirror_ray.model.names import TopicPartition
from tests.support.clusters import Clusters, TopicMaker
from tests.support.group_sync import commit_many, group_sync, internal_topics, partition_statuses
from tests.support.java import run_java
from tests.support.kafka import Message, produce, produce_transactions
from tests.support.reading import end_offsets
from tests.support.replicated import Replicated

PROGRAM = Path(__file__).with_name("Mm2Checkpoints.java")
GROUPS = 60
PARTITIONS = 2


async def test_mm2_translates_from_our_offset_syncs(clusters: Clusters, make_topic: TopicMaker, tmp_path: Path) -> None:
    """A plain and a transactional topic, groups anywhere and at the heads; MM2 is given what it would read itself."""
    internal_topics(clusters)
    config, mark = clusters.a.confluent_config(), f"java-{uuid.uuid4().hex[:6]}"
    topics = [make_topic(clusters.a, PARTITIONS) for _ in range(2)]
    async with Replicated(clusters.a, clusters.b) as flow:
        for topic in topics:
            flow.remote(topic, PARTITIONS)
        engine = await flow.engine()
        engine.assign(await flow.assignments(topics))
        for step in range(3):
            produce(config, topics[0], _numbered(1_000 * step, 1_000))
            transactions = [(_numbered(100 * each, 40), each % 3 > 0) for each in range(6 * step, 6 * step + 6)]
            produce_transactions(config, topics[1], transactions, transactional_id=topics[1])
            await engine.caught_up()
        await engine.stop()
    ends = {TopicPartition(t, p): end for t in topics for p, end in end_offsets(config, t).items()}
    dice = random.Random(7)
    groups = {
        f"{mark}-{n}": {p: end if n == 0 else dice.randrange(end) for p, end in ends.items()} for n in range(GROUPS)
    }
    await commit_many(clusters.a, groups)
    checkpoints = _mm2(clusters, topics, list(groups), tmp_path)
    async with group_sync(clusters, f"{mark}-.*") as carrying:
        await carrying.round()
        ours = partition_statuses(carrying)
    exact = 0
    for group, offsets in groups.items():
        for partition, upstream in offsets.items():
            place = ours[group, partition].target_offset
            assert place is not None
            assert ours[group, partition].state == "synced"
            theirs = checkpoints.get((group, f"A.{partition}"))
            if theirs is not None:
                assert theirs[0] == upstream
                assert theirs[1] <= place
                exact += theirs[1] == place
    assert all(checkpoints[f"{mark}-0", f"A.{p}"][1] == ours[f"{mark}-0", p].target_offset for p in ends)
    assert exact >= len(ends)
    assert len(checkpoints) >= 0.9 * GROUPS * len(ends)


def _numbered(first: int, count: int) -> list[Message]:
    return [Message(b"%d" % n, partition=n % PARTITIONS) for n in range(first, first + count)]


def _mm2(
    clusters: Clusters, topics: list[str], groups: list[str], directory: Path
) -> dict[tuple[str, str], tuple[int, int]]:
    """Upstream and downstream offset of each group's last checkpoint, by group and remote partition."""
    questions, answers = directory / "properties.json", directory / "checkpoints.json"
    properties = {
        "name": "MirrorCheckpointConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": clusters.a.bootstrap,
        "target.cluster.bootstrap.servers": clusters.b.bootstrap,
        "topics": ",".join(topics),
        "groups": ".*",
        "task.assigned.groups": ",".join(groups),
        "emit.checkpoints.interval.seconds": "1",
        "metric.names.formats": "legacy",
    }
    questions.write_text(json.dumps(properties))
    run_java(PROGRAM, questions, answers)
    return {
        (each["group"], each["partition"]): (each["upstream"], each["downstream"])
        for each in json.loads(answers.read_text())
    }
