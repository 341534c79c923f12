"""Reads the committed offsets of many groups repeatedly, and commits offsets for groups without members."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from mirror_ray.kafka.audit_log import AuditLog, recorded_async
from mirror_ray.kafka.connection import Answer, Connection
from mirror_ray.kafka.errors import NETWORK_EXCEPTION, REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR, ErrorInfo, error_info
from mirror_ray.kafka.group_coordinators import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    GroupCoordinators,
    GroupError,
    throttled,
)
from mirror_ray.kafka.group_offset_codec import (
    FIRST_MANY_GROUPS_VERSION,
    OFFSET_COMMIT_KEY,
    OFFSET_COMMIT_VERSIONS,
    OFFSET_FETCH_KEY,
    OFFSET_FETCH_VERSIONS,
    UNREADABLE,
    FetchedGroup,
    GroupOffsets,
    decode_offset_commit,
    decode_offset_fetch,
    encode_offset_commit,
    encode_offset_fetch,
)
from mirror_ray.model.cluster_change import committed, many_committed
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.model.names import TopicPartition

#: What a commit is answered with while the group has members, classic or of KIP-848 or a streams group.
ACTIVE = error_info(25)

#: mirror_ray.lab.benchmarks/groups.py: 5,000 groups one by one take eight times as long, and twenty times our CPU.
_GROUPS_PER_REQUEST = 100
#: So many are asked about before the first answer is there, so that a long link is filled.
_GROUPS_UNDER_WAY = 2000
#: A commit is waited for by the broker's log; so many may wait in line.
_COMMITS_UNDER_WAY = 200
#: A commit becomes one batch of ``__consumer_offsets``, which holds 1 MiB: so many with the longest names fit.
_PARTITIONS_PER_COMMIT = 1000
#: Groups of one call that the audit log names, each with its partitions.
_GROUPS_NAMED = 20
#: It is unknown whether the commit was written.
_LOST = error_info(NETWORK_EXCEPTION)
#: The broker wrote nothing, and will serve the group soon, or another one does.
_ASK_AGAIN = frozenset({COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR})
#: After these a commit may be written, or is.
_PERHAPS_WRITTEN = frozenset({0, NETWORK_EXCEPTION, COORDINATOR_NOT_AVAILABLE, REQUEST_TIMED_OUT})

#: Offset and metadata to commit, by partition.
ToCommit = Mapping[TopicPartition, tuple[int, str]]
#: None where it is committed; :data:`ACTIVE`, or another error.
Committed = dict[TopicPartition, ErrorInfo | None]

_SentPart = tuple[list[TopicPartition], Answer]


@dataclass(slots=True)
class OffsetRound:
    """One reading of many groups; each of them is in one of the three.

    A group that has committed nothing, or does not exist, is one without offsets: Kafka's answer is the same.
    """

    changed: dict[str, GroupOffsets] = field(default_factory=dict)
    #: As when they were last among the changed ones.
    unchanged: set[str] = field(default_factory=set)
    #: Nothing is known of them now; what was last read of them may still be so.
    failed: dict[str, GroupError] = field(default_factory=dict)


class OffsetReader:
    """Reads the committed offsets of many groups, round by round, and finds those that have changed.

    A group is compared by the bytes of the broker's answer, so one that has not changed costs next to nothing. The
    bytes of the last round's groups are kept, about 20 for each of their partitions.

    One reading at a time. Brokers leave out topics that we may not DESCRIBE, without an error.
    """

    def __init__(self, coordinators: GroupCoordinators, *, stable: bool = False) -> None:
        """``stable``: an offset that is being committed in an open transaction is an error of its partition."""
        self._coordinators, self._stable = coordinators, stable
        self._raw: dict[str, bytes] = {}

    async def read(self, groups: Collection[str]) -> OffsetRound:
        """Read all committed offsets of these groups; any other is forgotten, and new the next time.

        A group whose coordinator moves, loads or is lost on the way is asked for again, as long as the coordinators'
        patience lasts. A caller that is cancelled misses nothing: changes that it did not get are in the next round.

        Raises:
            ClusterUnreachableError: No broker answers.
            KafkaProtocolError: A coordinator speaks no version that we know.
        """
        answers = await self._coordinators.ask(groups, self._ask)
        done, raw = OffsetRound(), {}
        for group, answer in answers.items():
            known = self._raw.get(group)
            if isinstance(answer, GroupError):
                done.failed[group] = answer
            elif answer.raw is None or answer.offsets is None:
                done.unchanged.add(group)
            else:
                known = answer.raw
                done.changed[group] = answer.offsets
            if known is not None:
                raw[group] = known
        self._raw = raw
        return done

    async def _ask(
        self, connection: Connection, groups: Sequence[str], answers: dict[str, FetchedGroup | GroupError]
    ) -> None:
        version = connection.best_version(OFFSET_FETCH_KEY, *OFFSET_FETCH_VERSIONS)
        size = _GROUPS_PER_REQUEST if version >= FIRST_MANY_GROUPS_VERSION else 1
        under_way: deque[tuple[Sequence[str], Answer]] = deque()
        for at in range(0, len(groups), size):
            asked = groups[at : at + size]
            body = encode_offset_fetch(version, asked, stable=self._stable)
            under_way.append((asked, connection.send(OFFSET_FETCH_KEY, version, True, [body])))
            if len(under_way) * size >= _GROUPS_UNDER_WAY:
                await self._take(connection, version, *under_way.popleft(), answers)
        while under_way:
            await self._take(connection, version, *under_way.popleft(), answers)

    async def _take(
        self,
        connection: Connection,
        version: int,
        asked: Sequence[str],
        answer: Answer,
        answers: dict[str, FetchedGroup | GroupError],
    ) -> None:
        body = await answer
        try:
            fetched, throttle_ms = decode_offset_fetch(version, body, asked, self._raw)
        except UNREADABLE as error:
            raise ConnectionError(_refuse_answer(connection, "OffsetFetch", error)) from error
        throttled(connection, throttle_ms)
        for group in fetched:
            failed = GroupError(error_info(group.error_code)) if group.error_code else None
            answers[group.group] = failed or group


async def commit_offsets(
    coordinators: GroupCoordinators,
    commits: Mapping[str, ToCommit],
    audit_log: AuditLog,
    before: Mapping[str, Mapping[TopicPartition, int]],
) -> dict[str, Committed]:
    """``send_commits``, recorded in the audit log: an entry for each group, and one for all above twenty.

    ``before``: the groups' offsets until now, as far as they are known.
    """
    cluster = coordinators.cluster.settings.alias
    offsets = {
        group: {partition: offset for partition, (offset, _) in of_group.items()} for group, of_group in commits.items()
    }
    named = dict(islice(offsets.items(), _GROUPS_NAMED))
    changes = {group: committed(cluster, group, before.get(group, {}), of_group) for group, of_group in named.items()}
    rest = {group: of_group for group, of_group in offsets.items() if group not in named}
    if rest:
        changes[""] = many_committed(cluster, rest)
    answers: dict[str, Committed] = {}

    async def act() -> dict[str, MirrorError | None]:
        answers.update(await send_commits(coordinators, commits))
        outcomes = {group: _not_committed(group, [answers[group]]) for group in named}
        return outcomes | {"": _not_committed(f"{len(rest)} more groups", [answers[group] for group in rest])}

    await recorded_async(audit_log, changes, act)
    return answers


def _not_committed(what: str, answers: Sequence[Committed]) -> MirrorError | None:
    every = [error for of_group in answers for error in of_group.values()]
    refused = [error for error in every if error is not None]
    if not refused:
        return None
    names = ", ".join(sorted({error.name for error in refused}))
    kind = ClusterUnreachableError if any(error == _LOST for error in refused) else MirrorError
    return kind(f"{what}: {len(refused)} of {len(every)} offsets were refused: {names}")


async def send_commits(coordinators: GroupCoordinators, commits: Mapping[str, ToCommit]) -> dict[str, Committed]:
    """Commit offsets in the name of groups, as a client that is no member of them (MM2's alterConsumerGroupOffsets).

    The broker itself refuses it while the group has members (:data:`ACTIVE`), so a group that is at work is never
    disturbed. A group that does not exist comes into being, empty, and its first member makes it a classic, consumer or
    streams group. But not a share group: never commit for one, its members could not join on that cluster. One that is
    there already is refused (GROUP_ID_NOT_FOUND).

    Returns:
        For each group and partition None where the offset is committed, else why not. After NETWORK_EXCEPTION,
        COORDINATOR_NOT_AVAILABLE or REQUEST_TIMED_OUT it may be committed: read before writing again.

    Raises:
        ClusterUnreachableError: No broker answers any more; what was sent before may be committed.
        KafkaProtocolError: A coordinator speaks no version that we know.
    """

    async def ask(connection: Connection, groups: Sequence[str], answers: dict[str, Committed | GroupError]) -> None:
        version = connection.best_version(OFFSET_COMMIT_KEY, *OFFSET_COMMIT_VERSIONS)
        under_way: deque[tuple[str, list[_SentPart]]] = deque()
        for group in groups:
            if connection.closed:
                break
            under_way.append((group, _send_commit(connection, version, group, commits[group])))
            if len(under_way) >= _COMMITS_UNDER_WAY:
                await _take_commit(connection, *under_way.popleft(), answers)
        while under_way:
            await _take_commit(connection, *under_way.popleft(), answers)
        if connection.closed:
            raise ConnectionError(f"{connection.name} was lost")

    answers = await coordinators.ask(list(commits), ask)
    return {
        group: dict.fromkeys(commits[group], answer.error) if isinstance(answer, GroupError) else answer
        for group, answer in answers.items()
    }


def _send_commit(connection: Connection, version: int, group: str, offsets: ToCommit) -> list[_SentPart]:
    items, sent = list(offsets.items()), []
    for at in range(0, len(items), _PARTITIONS_PER_COMMIT):
        part = items[at : at + _PARTITIONS_PER_COMMIT]
        body = encode_offset_commit(group, part)
        answer = connection.send(OFFSET_COMMIT_KEY, version, True, [body])
        sent.append(([partition for partition, _ in part], answer))
    return sent


async def _take_commit(
    connection: Connection, group: str, sent: Sequence[_SentPart], answers: dict[str, Committed | GroupError]
) -> None:
    """Wait for the answers. A commit without one is not repeated: it may have been done, and undone by others since."""
    codes: dict[TopicPartition, int] = {}
    for partitions, answer in sent:
        try:
            answered, throttle_ms = decode_offset_commit(await answer)
        except ConnectionError:
            codes |= dict.fromkeys(partitions, NETWORK_EXCEPTION)
        except UNREADABLE as error:
            _refuse_answer(connection, "OffsetCommit", error)
            codes |= dict.fromkeys(partitions, NETWORK_EXCEPTION)
        else:
            throttled(connection, throttle_ms)
            codes |= {partition: answered.get(partition, UNKNOWN_SERVER_ERROR) for partition in partitions}
    reasons = set(codes.values())
    if (passing := reasons & _ASK_AGAIN) and not reasons & _PERHAPS_WRITTEN:
        answers[group] = GroupError(error_info(passing.pop()))
    else:
        answers[group] = {partition: error_info(code) if code else None for partition, code in codes.items()}


def _refuse_answer(connection: Connection, what: str, error: Exception) -> str:
    """Abort the connection: bytes after an answer that can't be read can't be trusted. Returns why."""
    connection.abort(why := f"its answer to {what} can't be read: {error!r}")
    return f"{connection.name}: {why}"
