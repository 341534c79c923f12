"""Transforms on real Ray: replicators are killed while they leave records out."""

from __future__ import annotations

from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, produce
from tests.support.reading import read_all
from tests.support.systems import kill_replicators, run, settings_of, wait_caught_up
from tests.support.transforms import transforms

RECORDS = 40_000
PARTITIONS = 2
#: Keeps about a third.
FILTER = ("mirror_ray.transforms:FilterByKey", {"pattern": ".*(0|3|7)"})
HEADER = ("mirror_ray.transforms:InsertHeader", {"name": "from", "value": "A"})


def test_killed_replicators_leave_out_and_copy_each_record_once(
    clusters: Clusters, make_topic: TopicMaker, system: str
) -> None:
    """After two SIGKILLs in full flight the target holds what the filter keeps, once, in order."""
    topic = make_topic(clusters.a, PARTITIONS)
    config = clusters.a.confluent_config()
    produce(config, topic, _numbered(), codec="lz4", batch_num_messages=50)
    pair = {"A": clusters.a, "B": clusters.b}
    mirror = run(system, settings_of(pair, "A->B", topics=topic, transforms=transforms(FILTER, HEADER)))
    kill_replicators(mirror, 0.1 * RECORDS, 0.3 * RECORDS)
    wait_caught_up(mirror, {("A->B", topic): PARTITIONS}, 60)
    there = read_all(clusters.b.confluent_config(), f"A.{topic}")
    for partition, records in read_all(config, topic).items():
        kept = [record._replace(headers=(("from", b"A"),)) for record in records if (record.key or b"")[-1:] in b"037"]
        assert there[partition] == kept


def _numbered() -> list[Message]:
    return [Message(b"%d" % number * 20, b"%d" % number, partition=number % PARTITIONS) for number in range(RECORDS)]
