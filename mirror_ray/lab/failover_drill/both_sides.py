"""Reads topics of the same names on two clusters, and what was exported of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from mirror_ray.lab.chaos.same_offsets import judge_offsets
from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.judge import judge_copy
from mirror_ray.lab.kafka_client import high_watermarks, read_placed
from mirror_ray.lab.load_record import LoadRecord, RecordId, record_id


def log_ends(cluster: DevCluster, topics: Sequence[Topic]) -> dict[tuple[str, int], int]:
    """The high watermark of each partition. Raises MirrorError if the leaders don't answer."""
    return {
        (topic.name, number): end
        for topic in topics
        for number, end in high_watermarks(cluster, topic.name, topic.partitions).items()
    }


def compare(
    one: DevCluster, other: DevCluster, topics: Sequence[Topic], *, preserve_offsets: bool
) -> tuple[list[RecordId], list[str]]:
    """The records of ``one``, each as often as it is there, and where the ``other`` differs, by partition.

    Order counts, and with ``preserve_offsets`` the offset, too. Raises MirrorError if a partition can't be read.
    """
    held: list[RecordId] = []
    differences: list[str] = []
    for topic in topics:
        for number in range(topic.partitions):
            here, there = (list(read_placed(cluster, topic.name, number)) for cluster in (one, other))
            if preserve_offsets:
                verdict = judge_offsets(here, there)
            else:
                verdict = judge_copy((placed.record for placed in here), (placed.record for placed in there))
            if verdict.difference is not None:
                differences.append(f"{topic.name}-{number} on {one.name} and on {other.name}: {verdict.difference}")
            held += [found for placed in here if (found := record_id(placed.record)) is not None]
    return held, differences


def exported_ids(directory: Path) -> set[RecordId]:
    """The records in the files below a directory that `failback --export-diverged` has written."""
    return {
        found
        for path in sorted(directory.rglob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if (found := record_id(_record(line))) is not None
    }


def _record(line: str) -> LoadRecord:
    document = json.loads(line)
    headers = tuple((name, _bytes(content)) for name, content in document["headers"])
    return LoadRecord(_bytes(document["key"]), _bytes(document["value"]), headers, document["timestamp_ms"])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
