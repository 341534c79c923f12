"""Finds the group coordinators of a cluster, and sends them requests until they answer.

A group coordinator moves with the leader of a partition of ``__consumer_offsets``; a broker that has just become one
loads first. Both are over in a moment, so requests are repeated here for that moment, and no longer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import NETWORK_EXCEPTION, UNKNOWN_SERVER_ERROR, ErrorInfo, error_info

#: The connections for requests about all groups: a long answer there delays no other request.
GROUPS = "groups"

COORDINATOR_LOAD_IN_PROGRESS = int(ErrorCode.coordinator_load_in_progress.value)
COORDINATOR_NOT_AVAILABLE = int(ErrorCode.coordinator_not_available.value)
NOT_COORDINATOR = int(ErrorCode.not_coordinator.value)

#: Errors that are over when one asks again, the coordinator that then is.
_ASK_AGAIN = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NETWORK_EXCEPTION})
_FIND_COORDINATOR_KEY, _FIND_COORDINATOR_VERSIONS = 10, (3, 6)
_FIRST_MANY_KEYS_VERSION = 4
_GROUP = 0
_KEYS_PER_REQUEST = 1000
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.05, 0.5
#: A broker with several requests under way that is silent for so long is given up.
_STALL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class GroupError:
    """Why there is no answer about a group: Kafka's error, with details where there are any."""

    error: ErrorInfo
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.error.name} ({self.detail})" if self.detail else self.error.name


_Answer = TypeVar("_Answer")
#: Asks one coordinator about its groups and puts what it says into the mapping, group by group as it comes, so that
#: what was answered before the connection was lost counts.
Question = Callable[[Connection, Sequence[str], dict[str, _Answer | GroupError]], Awaitable[None]]


class GroupCoordinators:
    """The group coordinators of one cluster, remembered until a group has moved.

    ``patience_s``: how long a question waits for a coordinator that moves or loads; then the group has an error.
    """

    def __init__(self, cluster: ClusterConnections, *, patience_s: float = 2.0) -> None:
        self.cluster = cluster
        self._patience_s = patience_s
        self._brokers: dict[str, int] = {}

    async def find(self, groups: Iterable[str], *, fresh: bool = False) -> dict[str, int | GroupError]:
        """The broker id of each group's coordinator. ``fresh``: ask, whatever is remembered.

        Raises:
            ClusterUnreachableError: No broker answers.
        """
        wanted = list(groups)
        if fresh:
            self.forget(wanted)
        # Others may forget a group while we wait: our result is kept apart.
        found: dict[str, int | GroupError] = {g: self._brokers[g] for g in wanted if g in self._brokers}
        unknown = [group for group in wanted if group not in found]
        for at in range(0, len(unknown), _KEYS_PER_REQUEST):
            found |= (answers := await self._find_unknown(unknown[at : at + _KEYS_PER_REQUEST]))
            self._brokers |= {group: broker for group, broker in answers.items() if isinstance(broker, int)}
        return found

    async def _find_unknown(self, groups: Sequence[str]) -> dict[str, int | GroupError]:
        connection = await self.cluster.any_connection()
        try:
            return await find_coordinators(connection, groups, _GROUP)
        except ConnectionError as error:
            return dict.fromkeys(groups, GroupError(error_info(NETWORK_EXCEPTION), str(error)))

    def forget(self, groups: Iterable[str]) -> None:
        """Find these groups' coordinators again when they are needed next."""
        for group in groups:
            self._brokers.pop(group, None)

    async def ask(self, groups: Collection[str], question: Question[_Answer]) -> dict[str, _Answer | GroupError]:
        """Put a question to the coordinators of all groups at once, and again where one moves, loads or is lost.

        Returns:
            The answer about each group, or why there is none: at the latest after the patience, or when
            the network gives up.

        Raises:
            ClusterUnreachableError: No broker answers.
            KafkaProtocolError: A coordinator speaks no version that we know.
        """
        loop = asyncio.get_running_loop()
        deadline, backoff_s = loop.time() + self._patience_s, _FIRST_BACKOFF_S
        answers: dict[str, _Answer | GroupError] = {}
        waiting = list(dict.fromkeys(groups))
        while waiting:
            answers |= (attempt := await self._ask_once(waiting, question))
            waiting = [group for group, answer in attempt.items() if _may_pass(answer)]
            if loop.time() + backoff_s > deadline:
                break
            if waiting:
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, _LAST_BACKOFF_S)
        return answers

    async def _ask_once(self, groups: Sequence[str], question: Question[_Answer]) -> dict[str, _Answer | GroupError]:
        answers: dict[str, _Answer | GroupError] = {}
        by_broker: dict[int, list[str]] = defaultdict(list)
        for group, found in (await self.find(groups)).items():
            if isinstance(found, GroupError):
                answers[group] = found
            else:
                by_broker[found].append(group)
        if not by_broker.keys() <= self.cluster.metadata.brokers.keys():
            await self.cluster.refresh(())
        lost = await asyncio.gather(
            *(self._ask_broker(broker, of_broker, question, answers) for broker, of_broker in by_broker.items())
        )
        if any(lost):
            # The broker may return at another address.
            await self.cluster.refresh(())
        return answers

    async def _ask_broker(
        self, broker: int, groups: Sequence[str], question: Question[_Answer], answers: dict[str, _Answer | GroupError]
    ) -> bool:
        """Whether the broker was lost before it had answered for all these groups."""
        try:
            connection = await self.cluster.connect(broker, GROUPS)
            connection.stall_timeout_s = _STALL_TIMEOUT_S
            await question(connection, groups, answers)
        except ConnectionError as error:
            lost = GroupError(error_info(NETWORK_EXCEPTION), str(error))
            unanswered = [group for group in groups if group not in answers]
            answers |= dict.fromkeys(unanswered, lost)
            self.forget(unanswered)
            return True
        for group in groups:
            if group not in answers:
                answers[group] = _left_out(connection)
            elif _has_moved(answers[group]):
                self.forget([group])
        return False


def throttled(connection: Connection, throttle_ms: int) -> None:
    """Expect the silence that an answer announces for the broker's quota (KIP-219)."""
    if throttle_ms > 0:
        connection.expect_silence(throttle_ms / 1000)


def _may_pass(answer: object) -> bool:
    return isinstance(answer, GroupError) and answer.error.code in _ASK_AGAIN


def _has_moved(answer: object) -> bool:
    return isinstance(answer, GroupError) and answer.error.code in _ASK_AGAIN - {COORDINATOR_LOAD_IN_PROGRESS}


def _left_out(connection: Connection) -> GroupError:
    return GroupError(error_info(UNKNOWN_SERVER_ERROR), f"{connection.name} left it out of its answer")


async def find_coordinators(connection: Connection, keys: Sequence[str], key_type: int) -> dict[str, int | GroupError]:
    """The broker id of each key's coordinator; ``key_type``: 0 for groups, 1 for transactional ids.

    Raises:
        ConnectionError: The connection was lost.
    """
    version = connection.best_version(_FIND_COORDINATOR_KEY, *_FIND_COORDINATOR_VERSIONS)
    module: Any = load_entity_module("find_coordinator", version, EntityType.request)
    if version < _FIRST_MANY_KEYS_VERSION:
        requests = [module.FindCoordinatorRequest(key=key, key_type=key_type) for key in keys]
        answers = await asyncio.gather(*(connection.request(request) for request in requests))
        return {key: _broker_or_error(answer) for key, answer in zip(keys, answers, strict=True)}
    response = await connection.request(module.FindCoordinatorRequest(key_type=key_type, coordinator_keys=tuple(keys)))
    found = {answer.key: _broker_or_error(answer) for answer in response.coordinators}
    return {key: found.get(key, _left_out(connection)) for key in keys}


def _broker_or_error(found: Any) -> int | GroupError:
    code = int(found.error_code)
    return GroupError(error_info(code), found.error_message or "") if code else int(found.node_id)
