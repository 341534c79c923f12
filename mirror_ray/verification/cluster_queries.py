"""Queries of planning: where logs begin and end, configs that decide how topics are compared, what is acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from mirror_ray.kafka.leader_requests import EARLIEST, LATEST, OffsetAnswer
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.verification.range_bounds import LogBounds

#: Attempts, and seconds between them, to ask a leader that does not answer: elections take seconds.
_ATTEMPTS, _RETRY_INTERVAL_S = 12, 0.5
#: Stands for a partition that did not exist when it was asked for.
UNKNOWN_PARTITION = OffsetAnswer(-1, UNKNOWN_TOPIC_OR_PARTITION)


class ClusterLogs(NamedTuple):
    """Bounds of all logs of one side; the fields are those of ``LogBounds``."""

    starts: Mapping[TopicPartition, OffsetAnswer]
    ends: Mapping[TopicPartition, OffsetAnswer]
    stable: Mapping[TopicPartition, OffsetAnswer]

    def error(self, partition: TopicPartition) -> int:
        """The error code of a partition whose leader did not answer; 0: it did."""
        return next((answers[partition].error_code for answers in self if answers[partition].error_code), 0)

    def bounds(self, partition: TopicPartition) -> LogBounds:
        """The bounds of one log."""
        return LogBounds(*(answers[partition].offset for answers in self))


async def query_offsets(
    cluster: ClusterConnections, wanted: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, OffsetAnswer]:
    """Ask where logs end, begin, or reach a time; leaders that do not answer are asked again for some seconds.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    answers = dict(await cluster.list_offsets(wanted, "read_uncommitted"))
    for _ in range(_ATTEMPTS - 1):
        failed = {partition: wanted[partition] for partition, answer in answers.items() if answer.error_code}
        if not failed:
            break
        await asyncio.sleep(_RETRY_INTERVAL_S)
        answers |= await cluster.list_offsets(failed, "read_uncommitted")
    return answers


async def query_logs(
    cluster: ClusterConnections, partitions: Iterable[TopicPartition], *, committed: bool
) -> ClusterLogs:
    """Ask for the bounds of logs; partitions that the cluster does not know are left out.

    ``committed``: the stable end is the last stable offset; otherwise it is the high watermark.

    Raises:
        ClusterUnreachableError: No broker answers.
    """
    known = [partition for partition in partitions if cluster.metadata.partition(partition) is not None]
    latest = dict.fromkeys(known, LATEST)
    starts, ends, *stable = await asyncio.gather(
        cluster.list_offsets(dict.fromkeys(known, EARLIEST), "read_uncommitted"),
        cluster.list_offsets(latest, "read_uncommitted"),
        *([cluster.list_offsets(latest, "read_committed")] if committed else []),
    )
    return ClusterLogs(starts, ends, stable[0] if stable else ends)


@dataclass(frozen=True, slots=True)
class ComparePolicy:
    """The configs of a topic that decide how it is compared."""

    compacted: bool
    append_time: bool


async def query_policies(
    cluster: ClusterConnections, topics: Collection[str]
) -> dict[str, ComparePolicy | MirrorError]:
    """Read the policy of each topic that exists, or why its configs can't be read."""
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


#: Asks the running system for the partitions of its flows; empty if there is none, or if it does not answer.
PartitionQuery = Callable[[], Awaitable[Sequence[PartitionStatus]]]

#: How long a running partition may take to report as acknowledged what the target held when the command began;
#: reports are up to a second old.
_ACKNOWLEDGED_TIMEOUT_S = 5.0
_ACKNOWLEDGED_POLL_S = 0.2


async def query_partitions(ask: PartitionQuery, flow: FlowName) -> dict[TopicPartition, PartitionStatus]:
    """Ask the running system for the flow's partitions, once; by source partition."""
    found = (status for status in await ask() if status.flow == str(flow))
    return {TopicPartition(status.topic, status.partition): status for status in found}


async def acknowledged_partitions(
    ask: PartitionQuery, flow: FlowName, ends: Mapping[TopicPartition, int], shared: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, PartitionStatus], bool]:
    """Ask the running system for the flow's partitions until ``ends`` are acknowledged, a few seconds at most.

    ``ends`` are those of the remote partitions when the command began, by source partition. Where a remote partition
    is ``shared``, others write it, too, and its end need not be the flow's.

    Returns:
        The partitions' status by source partition, and whether waiting was necessary.
    """
    until_s = asyncio.get_running_loop().time() + _ACKNOWLEDGED_TIMEOUT_S
    waited = False
    while True:
        statuses = await query_partitions(ask, flow)
        behind = any(
            source not in shared
            and status.state in ("copying", "establishing")
            and status.target_end < ends.get(source, 0)
            for source, status in statuses.items()
        )
        if not behind or asyncio.get_running_loop().time() > until_s:
            return statuses, waited
        waited = True
        await asyncio.sleep(_ACKNOWLEDGED_POLL_S)


async def no_system() -> Sequence[PartitionStatus]:
    """Answer for a system that does not run."""
    return ()
