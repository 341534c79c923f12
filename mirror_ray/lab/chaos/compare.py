"""Reads both sides of every partition and has them judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_ray.lab.chaos.chaos_report import TopicOutcome
from mirror_ray.lab.chaos.same_offsets import judge_compacted_offsets, judge_offsets
from mirror_ray.lab.chaos.topology import TARGETS, Topic
from mirror_ray.lab.chaos.writers import ChaosLoad
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.judge import CopyVerdict, judge_compacted, judge_copy, judge_source
from mirror_ray.lab.kafka_client import high_watermarks, read_partition, read_placed


def compare_topic(
    topic: Topic, clusters: Mapping[str, DevCluster], load: ChaosLoad, *, preserve_offsets: bool
) -> TopicOutcome:
    """Compare every record of every partition, once nobody writes; with ``preserve_offsets`` also where each one is.

    Raises:
        MirrorError: A partition can't be read.
    """
    source, target = clusters[topic.cluster], clusters[TARGETS[topic.cluster]]
    verdicts: list[CopyVerdict] = []
    differences, problems = [], []
    twice = ended_otherwise = 0
    for number in range(topic.partitions):
        verdict = _judge(topic, source, target, number, preserve_offsets=preserve_offsets)
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


def log_ends_apart(topics: Sequence[Topic], clusters: Mapping[str, DevCluster]) -> list[str]:
    """Partitions whose log ends elsewhere than the source's. Raises MirrorError if the leaders don't answer."""
    found = []
    for topic in topics:
        wanted = high_watermarks(clusters[topic.cluster], topic.name, topic.partitions)
        copied = high_watermarks(clusters[TARGETS[topic.cluster]], topic.remote_name, topic.partitions)
        found += [
            f"{topic.flow} {topic.remote_name}-{number} ends at {copied[number]}, its source at {end}"
            for number, end in wanted.items()
            if copied[number] != end
        ]
    return found


def _judge(
    topic: Topic, source: DevCluster, target: DevCluster, partition: int, *, preserve_offsets: bool
) -> CopyVerdict:
    if topic.kind != "compacted" and not preserve_offsets:
        return judge_copy(
            read_partition(source, topic.name, partition), read_partition(target, topic.remote_name, partition)
        )
    held, copied = read_placed(source, topic.name, partition), read_placed(target, topic.remote_name, partition)
    if topic.kind != "compacted":
        return judge_offsets(held, copied)
    judge = judge_compacted_offsets if preserve_offsets else judge_compacted
    return judge(held, copied, cleaned=topic.remote_is_cleaned)


def _kind(topic: Topic) -> str:
    words: list[str] = [topic.kind]
    if topic.kind == "compacted":
        words += ["on both sides"] if topic.remote_is_cleaned else ["on the source"]
        words += ["and transactional"] if topic.transactions else []
    if topic.first_offset:
        words += [f"from offset {topic.first_offset:,}"]
    return " ".join(words)
