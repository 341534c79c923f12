"""What planning asks of the clusters: where logs begin and end, and the configs that decide how topics are compared.

How far a flow had come when a command began: the target's log ends first, then what was acknowledged.
"""

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

#: So often, and so long apart, a leader is asked that does not answer: elections take seconds.
_ASKED, _RETRY_INTERVAL_S = 12, 0.5
#: Of a partition that was not there when it was asked for.
UNKNOWN_PARTITION = OffsetAnswer(-1, UNKNOWN_TOPIC_OR_PARTITION)


class ClusterLogs(NamedTuple):
    """One side's logs; see ``LogLimits``."""

    starts: Mapping[TopicPartition, OffsetAnswer]
    ends: Mapping[TopicPartition, OffsetAnswer]
    stable: Mapping[TopicPartition, OffsetAnswer]

    def error(self, partition: TopicPartition) -> int:
        """Why one of them could not be asked; 0: it answered."""
        return next((each[partition].error_code for each in self if each[partition].error_code), 0)

    def bounds(self, partition: TopicPartition) -> LogBounds:
        """Where one of them begins and ends."""
        return LogBounds(*(each[partition].offset for each in self))


async def query_offsets(
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
        await asyncio.sleep(_RETRY_INTERVAL_S)
        answers |= await cluster.list_offsets(failed, "read_uncommitted")
    return answers


async def query_logs(
    cluster: ClusterConnections, partitions: Iterable[TopicPartition], *, committed: bool
) -> ClusterLogs:
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
    return ClusterLogs(starts, ends, stable[0] if stable else ends)


@dataclass(frozen=True, slots=True)
class ComparePolicy:
    """Of a topic's configs what decides how it is compared."""

    compacted: bool
    append_time: bool


async def query_policies(
    cluster: ClusterConnections, topics: Collection[str]
) -> dict[str, ComparePolicy | MirrorError]:
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


#: Asks the running system for the partitions of its flows; nothing where there is none, or where it does not answer.
PartitionQuery = Callable[[], Awaitable[Sequence[PartitionStatus]]]

#: So long a running partition may take to have acknowledged what the target held when the command began: a report is
#: up to a second old.
_TIMEOUT_S = 5.0
_RETRY_INTERVAL_S = 0.2


async def acknowledged_partitions(
    ask: PartitionQuery, flow: FlowName, ends: Mapping[TopicPartition, int], shared: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, PartitionStatus], bool]:
    """What the running system says of the flow's partitions, once it has come to ``ends``; or after a few seconds.

    Args:
        ask: See there.
        flow: Which one.
        ends: Where the remote partitions ended when the command began, by source partition.
        shared: Source partitions whose remote partitions others write, too: their ends need not be the flow's.

    Returns:
        By source partition; and whether it had to be waited for.
    """
    until_s = asyncio.get_running_loop().time() + _TIMEOUT_S
    waited = False
    while True:
        lines = {TopicPartition(line.topic, line.partition): line for line in await ask() if line.flow == str(flow)}
        behind = any(
            source not in shared and line.state in ("copying", "establishing") and line.target_end < ends.get(source, 0)
            for source, line in lines.items()
        )
        if not behind or asyncio.get_running_loop().time() > until_s:
            return lines, waited
        waited = True
        await asyncio.sleep(_RETRY_INTERVAL_S)


async def no_system() -> Sequence[PartitionStatus]:
    """An ``Ask`` where no system runs."""
    return ()
