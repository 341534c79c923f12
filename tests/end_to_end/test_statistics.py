"""What a whole system publishes of itself, from one run to the next."""

from __future__ import annotations

import uuid
from itertools import pairwise
from pathlib import Path

import pytest

from mirror_ray.model.internal_topics import statistics_topic
from mirror_ray.records.statistics import decode_statistics
from tests.support.clusters import Clusters, TopicMaker
from tests.support.command import mirror_ray, mm2_file
from tests.support.kafka import produce, sample_messages
from tests.support.reading import read_all

#: On a machine that is busy otherwise.
pytestmark = pytest.mark.timeout(600)


def test_two_runs_tell_each_record_once(clusters: Clusters, make_topic: TopicMaker, tmp_path: Path) -> None:
    """The second begins where the first ended; nothing is left untold at the end of either."""
    topic = make_topic(clusters.a)
    source, target = (cluster.confluent_config() for cluster in clusters)
    config = mm2_file(tmp_path / "mm2.properties", clusters, "A->B.enabled = true", f"A->B.topics = {topic}")
    name = f"told{uuid.uuid4().hex[:8]}"
    for run in (0, 1):
        produce(source, topic, sample_messages(500, first=500 * run))
        mirror_ray("up", config, "--until-caught-up", "--name", name)
    records = [record for each in read_all(target, statistics_topic("A")).values() for record in each]
    told = [each for each in (decode_statistics(record.value) for record in records) if each.topic == topic]
    assert len({each.epoch for each in told}) == 2
    assert (told[0].target_from, told[-1].target_to) == (0, 1000)
    assert sum(each.records for each in told) == len(read_all(target, f"A.{topic}")[0]) == 1000
    for before, after in pairwise(told):
        assert (after.source_from, after.target_from) == (before.source_to, before.target_to)
    assert told[-1].lag_records == 0
