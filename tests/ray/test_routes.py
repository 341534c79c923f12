"""Routes on real Ray: replicators are killed, and routes come and go, while records are sent to three topics."""

from __future__ import annotations

from mirror_ray.config.settings import TransformSettings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import Message, produce
from tests.support.reading import read_all
from tests.support.systems import kill_replicators, run, settings_of, wait_caught_up
from tests.support.transforms import steps

RECORDS = 40_000
PARTITIONS = 2


def test_each_record_is_in_one_topic_through_kills_and_changes(
    clusters: Clusters, make_topic: TopicMaker, system: str
) -> None:
    """In the order of its partition; where the configuration changes under way, by one of the two."""
    topic = make_topic(clusters.a, PARTITIONS)
    low, high, other = (f"{topic}-{name}" for name in ("low", "high", "other"))
    config = clusters.a.confluent_config()

    def settings(to: dict[str, str]) -> object:
        step = ("mirror_ray.transforms:Route", {"to": to})
        transforms = TransformSettings.model_validate(steps(step, topics=[topic]))
        pair = {"A": clusters.a, "B": clusters.b}
        return settings_of(pair, "A->B", topics=topic, transforms=transforms)

    produce(config, topic, _numbered(0), codec="lz4", batch_num_messages=50)
    mirror = run(system, settings({".*[01]": low, ".*[789]": high}))  # type: ignore[arg-type]
    kill_replicators(mirror, 0.3 * RECORDS, 0.9 * RECORDS)
    names = ("A->B", f"A->B#{low}", f"A->B#{high}")
    wait_caught_up(mirror, {(name, topic): PARTITIONS for name in names}, 60)
    sources = read_all(config, topic)
    for remote, digits in ((f"A.{topic}", b"23456"), (low, b"01"), (high, b"789")):
        for partition, records in read_all(clusters.b.confluent_config(), remote).items():
            assert records == [record for record in sources[partition] if (record.key or b"")[-1:] in digits]

    produce(config, topic, _numbered(RECORDS), codec="lz4", batch_num_messages=50)
    run(system, settings({".*[01]": low, ".*[23]": other}))  # type: ignore[arg-type]
    wait_caught_up(mirror, {(name, topic): PARTITIONS for name in ("A->B", f"A->B#{low}", f"A->B#{other}")}, 60)
    there = [
        (partition, record)
        for remote in (f"A.{topic}", low, high, other)
        for partition, records in read_all(clusters.b.confluent_config(), remote).items()
        for record in records
    ]
    every = [(partition, record) for partition, records in read_all(config, topic).items() for record in records]
    assert sorted(there, key=repr) == sorted(every, key=repr)


def _numbered(first: int) -> list[Message]:
    numbers = range(first, first + RECORDS)
    return [Message(b"%d" % number * 20, b"%d" % number, partition=number % PARTITIONS) for number in numbers]
