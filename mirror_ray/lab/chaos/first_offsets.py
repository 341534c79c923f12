"""Makes logs of the laboratory's brokers begin at another offset than 0, within seconds: by their files' names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mirror_ray.lab.chaos.topology import Topic
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.errors import MirrorError

#: A broker takes a log's first offset from the name of its first segment.
_DIGITS: Final = 20


def begin_logs(clusters: Mapping[str, DevCluster], topics: tuple[Topic, ...]) -> None:
    """Have the partitions of each topic begin at its ``first_offset``; the brokers are stopped and started again.

    Nothing may have been written to the topics yet: an empty segment says nothing but where it begins. For sources
    alone: a copy has to come there by what is tested.

    Raises:
        MirrorError: A log is not empty, or a broker does not start.
    """
    for alias, cluster in clusters.items():
        moved = [topic for topic in topics if topic.cluster == alias and topic.first_offset]
        if not moved:
            continue
        cluster.stop()
        for topic in moved:
            for number in range(topic.partitions):
                for directory in cluster.dir.glob(f"broker-*/data/{topic.name}-{number}"):
                    begin_log(directory, topic.first_offset)
        cluster.start()


def begin_log(directory: Path, first_offset: int) -> None:
    """Rename the files of a partition's one empty segment. Raises MirrorError if it is not empty, or not the only one.

    The broker must not run.
    """
    zero = f"{0:0{_DIGITS}}"
    logs = list(directory.glob("*.log"))
    if [log.stem for log in logs] != [zero] or logs[0].stat().st_size:
        raise MirrorError(f"{directory} is not the log of a new topic: it can't begin at offset {first_offset}")
    for file in directory.glob(f"{zero}.*"):
        file.rename(file.with_name(f"{first_offset:0{_DIGITS}}{file.suffix}"))
