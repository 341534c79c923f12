"""Reads both sides of every partition and has them judged."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_ray.lab.chaos.chaos_report import TopicOutcome
from mirror_ray.lab.chaos.topology import TARGETS, Topic
from mirror_ray.lab.chaos.writers import ChaosLoad
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.judge import CopyVerdict, judge_compacted, judge_copy, judge_source
from mirror_ray.lab.kafka_client import read_partition, read_placed


def compare_topic(topic: Topic, clusters: Mapping[str, DevCluster], load: ChaosLoad) -> TopicOutcome:
    """Compare every record of every partition, once nobody writes. Raises MirrorError if a partition can't be read."""
    source, target = clusters[topic.cluster], clusters[TARGETS[topic.cluster]]
    verdicts: list[CopyVerdict] = []
    differences, problems = [], []
    twice = ended_otherwise = 0
    for number in range(topic.partitions):
        verdict = _judge_partition(topic, source, target, number)
        verdicts.append(verdict)
        if verdict.difference is not None:
            differences.append(f"{topic.flow} {topic.remote_name}-{number}: {verdict.difference}")
        held = judge_source(
            read_partition(source, topic.name, number),
            load.acknowledged(topic, number),
            compacted=topic.kind == "compacted",
            transactions=topic.transactions,
        )
        twice += held.twice
        ended_otherwise += held.ended_otherwise
        if held.problem is not None:
            problems.append(f"source {topic.cluster} {topic.name}-{number}: {held.problem}")
    known = [writer.acknowledged for writer in load.writers if writer.topic == topic]
    return TopicOutcome(
        flow=topic.flow,
        topic=topic.name,
        kind=_kind(topic),
        partitions=topic.partitions,
        written=sum(len(numbers) for records in known for numbers in records.written.values()),
        aborted=sum(len(numbers) for records in known for numbers in records.aborted.values()),
        doubtful=sum(records.doubtful for records in known),
        twice_on_source=twice,
        ended_otherwise=ended_otherwise,
        source_records=sum(verdict.source_records for verdict in verdicts),
        target_records=sum(verdict.target_records for verdict in verdicts),
        differences=tuple(differences),
        source_problems=tuple(problems),
    )


def _judge_partition(topic: Topic, source: DevCluster, target: DevCluster, partition: int) -> CopyVerdict:
    if topic.kind == "compacted":
        return judge_compacted(
            read_placed(source, topic.name, partition),
            read_placed(target, topic.remote_name, partition),
            cleaned=topic.remote_is_cleaned,
        )
    return judge_copy(
        read_partition(source, topic.name, partition), read_partition(target, topic.remote_name, partition)
    )


def _kind(topic: Topic) -> str:
    words: list[str] = [topic.kind]
    if topic.kind == "compacted":
        words += ["on both sides"] if topic.remote_is_cleaned else ["on the source"]
        words += ["and transactional"] if topic.transactions else []
    return " ".join(words)
