"""What consumer groups have committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mirror_ray.model.names import TopicPartition


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition: the next offset to read. ``leader_epoch`` -1: not told."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


#: By group and partition.
Commits = Mapping[str, Mapping[TopicPartition, CommittedOffset]]
