"""What planning asks of the clusters: where logs begin and end, and the configs that decide how topics are compared."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, OffsetAnswer
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.verification.range_bounds import LogLimits

#: So often, and so long apart, a leader is asked that does not answer: elections take seconds.
_ASKED, _AGAIN_S = 12, 0.5
#: Of a partition that was not there when it was asked for.
NOT_THERE = OffsetAnswer(-1, UNKNOWN_TOPIC_OR_PARTITION)


class LogEnds(NamedTuple):
    """One side's logs; see ``LogLimits``."""

    starts: Mapping[TopicPartition, OffsetAnswer]
    ends: Mapping[TopicPartition, OffsetAnswer]
    stable: Mapping[TopicPartition, OffsetAnswer]

    def error(self, partition: TopicPartition) -> int:
        """Why one of them could not be asked; 0: it answered."""
        return next((each[partition].error_code for each in self if each[partition].error_code), 0)

    def bounds(self, partition: TopicPartition) -> LogLimits:
        """Where one of them begins and ends."""
        return LogLimits(*(each[partition].offset for each in self))


async def ask_offsets(
    cluster: ClusterConnections, wanted: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, OffsetAnswer]:
    """Where logs end, begin, or come to a time; leaders that do not answer are asked again for some seconds.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    answers = dict(await cluster.list_offsets(wanted, "read_uncommitted"))
    for _ in range(_ASKED - 1):
        failed = {each: wanted[each] for each, answer in answers.items() if answer.error_code}
        if not failed:
            break
        await asyncio.sleep(_AGAIN_S)
        answers |= await cluster.list_offsets(failed, "read_uncommitted")
    return answers


async def ask_logs(cluster: ClusterConnections, partitions: Iterable[TopicPartition], *, committed: bool) -> LogEnds:
    """Ask the leaders; partitions that the cluster does not know are left out.

    ``committed``: what is compared of a log ends where its last open transaction begins, else where the log does.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    known = [each for each in partitions if cluster.metadata.partition(each) is not None]
    latest = dict.fromkeys(known, LATEST)
    starts, ends, *stable = await asyncio.gather(
        cluster.list_offsets(dict.fromkeys(known, EARLIEST), "read_uncommitted"),
        cluster.list_offsets(latest, "read_uncommitted"),
        *([cluster.list_offsets(latest, "read_committed")] if committed else []),
    )
    return LogEnds(starts, ends, stable[0] if stable else ends)


@dataclass(frozen=True, slots=True)
class ComparePolicy:
    """Of a topic's configs what decides how it is compared."""

    compacted: bool
    append_time: bool


async def ask_policies(cluster: ClusterConnections, topics: Collection[str]) -> dict[str, ComparePolicy | MirrorError]:
    """Of each topic that is there; or why its configs can't be read."""
    admin = ClusterAdmin(cluster.settings, "mirror-ray-verify")
    try:
        found = await asyncio.to_thread(admin.try_describe_topic_configs, topics)
    finally:
        await asyncio.to_thread(admin.close)
    return {
        name: configs
        if isinstance(configs, MirrorError)
        else ComparePolicy(
            compacted="compact" in (configs["cleanup.policy"].value or ""),
            append_time=configs["message.timestamp.type"].value == "LogAppendTime",
        )
        for name, configs in found.items()
    }
