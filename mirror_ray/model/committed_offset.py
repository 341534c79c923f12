"""What consumer groups have committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mirror_ray.model.names import NO_TOPIC_ID, TopicId, TopicPartition


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition: the next offset to read. ``leader_epoch`` -1: not known."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    #: Kafka keeps none with a commit: it is there where it was looked up.
    topic_id: TopicId = NO_TOPIC_ID


#: By group and partition.
Commits = Mapping[str, Mapping[TopicPartition, CommittedOffset]]
