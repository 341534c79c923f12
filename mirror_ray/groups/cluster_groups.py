"""The consumer groups of one cluster, read and committed at once: what a failover and the bulk move need."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Collection, Mapping
from typing import Final, TypeVar

from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import ErrorInfo, error_info
from mirror_ray.kafka.group_coordinators import GroupCoordinators
from mirror_ray.kafka.group_listing import ListedGroup, describe_members, list_groups
from mirror_ray.kafka.group_offsets import OffsetReader, OffsetRound, ToCommit, commit_offsets
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.errors import ClusterUnreachableError, KafkaProtocolError, MirrorError
from mirror_ray.model.filters import GroupFilter
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription

#: A cluster that says nothing for so long does not answer.
_PATIENCE_S: Final = 20.0
#: A group coordinator that loads or moves for longer holds a failover up: what has just started has much to load.
_COORDINATOR_S: Final = 15.0
#: Within this time the offsets of a transaction that was committed are in place.
_SETTLING_S: Final = 5.0
_SETTLING_PAUSE_S: Final = 0.2
#: So many groups' offsets are asked for at once, within the patience: any number of groups may be asked for.
_GROUPS_AT_ONCE: Final = 5000

#: UNSTABLE_OFFSET_COMMIT (KIP-447).
_UNSTABLE: Final = error_info(88)

_T = TypeVar("_T")


async def answered(cluster: ClusterConnections, asked: Awaitable[_T]) -> _T:
    """Await a cluster's answer for 20 seconds at most.

    Raises:
        KafkaProtocolError: The answer is an error.
    """
    alias = cluster.settings.alias
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await asked
    except TimeoutError:
        raise ClusterUnreachableError(f"cluster {alias} did not answer within {_PATIENCE_S:g} s") from None
    except (ClusterUnreachableError, KafkaProtocolError):
        raise
    except OSError as error:
        raise ClusterUnreachableError(f"cluster {alias}: {error}") from error


class ClusterGroups:
    """The groups of one cluster that a flow's filter lets through."""

    def __init__(self, cluster: ClusterConnections, group_filter: GroupFilter) -> None:
        self._cluster, self._filter = cluster, group_filter
        self._coordinators = GroupCoordinators(cluster, patience_s=_COORDINATOR_S)

    async def list(self) -> dict[str, ListedGroup]:
        """All of these groups."""
        listing = await answered(self._cluster, list_groups(self._coordinators))
        if listing.silent:
            why = "; ".join(f"broker {broker}: {error}" for broker, error in listing.silent.items())
            raise ClusterUnreachableError(f"cluster {self._cluster.settings.alias}: not all groups are known: {why}")
        return {name: group for name, group in listing.groups.items() if self._filter.should_replicate_group(name)}

    async def subscriptions(self, kinds: Mapping[str, str]) -> dict[str, Subscription]:
        """What the members of groups read, of those groups whose members say it."""
        return await answered(self._cluster, describe_members(self._coordinators, kinds))

    async def committed(
        self, groups: Collection[str], *, stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """All offsets of groups. ``stable``: none of them may be about to change by a transaction that is open.

        A transaction's offsets become the group's a moment after its commit was answered, so that is waited for, as
        every consumer does.

        Raises:
            MirrorError: An offset can't be had, or is not stable.
        """
        reader = OffsetReader(self._coordinators, stable=stable)
        names = [*groups]
        found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for first in range(0, len(names), _GROUPS_AT_ONCE):
            read = await answered(self._cluster, reader.read(names[first : first + _GROUPS_AT_ONCE]))
            until_s = time.monotonic() + _SETTLING_S
            while (unsettled := _unsettled(read)) and time.monotonic() < until_s:
                await asyncio.sleep(_SETTLING_PAUSE_S)
                again = await answered(self._cluster, reader.read(unsettled))
                read.changed |= again.changed
                read.failed |= again.failed
            found |= _offsets(self._cluster, read)
        return found

    async def commit(
        self, commits: Mapping[str, ToCommit], audit_log: AuditLog
    ) -> dict[str, dict[TopicPartition, ErrorInfo | None]]:
        """Commit offsets, after what was committed before was read for the audit log."""
        if not commits:
            return {}
        committed = await self.committed(commits)
        before = {
            group: {partition: found.offset for partition, found in offsets.items()}
            for group, offsets in committed.items()
        }
        return await commit_offsets(self._coordinators, commits, audit_log, before)


def _unsettled(read: OffsetRound) -> list[str]:
    """The groups with an offset in a transaction whose end is not known yet."""
    return [group for group, offsets in read.changed.items() if _UNSTABLE in offsets.errors.values()]


def _offsets(cluster: ClusterConnections, read: OffsetRound) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    alias = cluster.settings.alias
    for group, error in read.failed.items():
        raise ClusterUnreachableError(f"cluster {alias}: the offsets of group {group}: {error}")
    for group, offsets in read.changed.items():
        for partition, refused in offsets.errors.items():
            step = "its transaction is open: end it, or wait for transaction.timeout.ms; then run this again"
            raise MirrorError(
                f"cluster {alias}: the offset of group {group} in {partition}: {refused.name}"
                f"{f'; {step}' if refused == _UNSTABLE else ''}"
            )
    return {
        group: {partition: found for partition, found in offsets.offsets.items() if found.offset >= 0}
        for group, offsets in read.changed.items()
    }
