"""The commit history's topic: written by the checkpoint actors, read for a moment of the past."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from mirror_ray.config.settings import GroupSettings
from mirror_ray.groups.commit_history import READING_VALID_MS, CommitHistory, CommitRecorder, UnknownHistory
from mirror_ray.groups.offset_state import GroupOffsetState
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.committed_offset import Commits
from mirror_ray.model.errors import ConfigError, CorruptRecordError, MirrorError
from mirror_ray.model.internal_topics import commits_topic
from mirror_ray.records.commit_record import SNAPSHOT_MS, CommitRecord

_LIFE_BYTES: Final = 16
#: A round waits no longer than this, and after a failure the next rounds do not wait at all for as long.
_PATIENCE_S: Final = 10.0
#: Unwritten records beyond this are given up, and the history begins anew.
_MOST_BYTES: Final = 16 << 20
#: Records are in the order of writing, and are written later than they say while the target does not answer.
_LATE_MS: Final = 900_000
#: A snapshot is written within this after it is due.
_SLACK_MS: Final = 300_000


class HistoryWriter:
    """Writes what one checkpoint actor reads of a flow's commits. It never raises: the group sync does without it."""

    def __init__(
        self,
        source_alias: str,
        target: ClusterConnections,
        on_problem: Callable[[str], None],
        number: int = 0,
        of: int = 1,
    ) -> None:
        """``number``, ``of``: of the checkpoint actor, and how many there are."""
        self._writer = InternalTopicWriter(target, commits_topic(source_alias))
        self._on_problem = on_problem
        self._share = number, of
        self._recorder = self._begin()
        self._waiting: list[KeyedRecord] = []
        self._not_before_s = float("-inf")
        self._whole_s = time.monotonic()

    def _begin(self) -> CommitRecorder:
        return CommitRecorder(os.urandom(_LIFE_BYTES), *self._share)

    async def write(self, state: GroupOffsetState, unread: Mapping[str, str]) -> None:
        """Write what has changed; what can't be written now is kept for the next time.

        ``unread``: why a group could not be read; "" stands for any. An incomplete reading is not written: what it
        lacks would count as not there.
        """
        if unread:
            self._report_gap(unread)
        else:
            self._whole_s = time.monotonic()
            for record in self._recorder.record(state, int(time.time() * 1000)):
                self._waiting.append(KeyedRecord(*record.encode()))
        if not self._waiting or time.monotonic() < self._not_before_s:
            return
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._writer.append(self._waiting)
        except (OSError, MirrorError) as error:
            self._not_before_s = time.monotonic() + _PATIENCE_S
            why = str(error) or f"no answer within {_PATIENCE_S:g} s"
            self._on_problem(f"the history of commits can't be written, and is tried again: {why}")
            if sum(len(record.value or b"") for record in self._waiting) > _MOST_BYTES:
                self._waiting.clear()
                self._recorder = self._begin()
        else:
            self._waiting.clear()

    def _report_gap(self, unread: Mapping[str, str]) -> None:
        if time.monotonic() - self._whole_s > READING_VALID_MS / 1000:
            group, why = min(unread.items())
            what = f"group {group}: {why}" if group else why
            self._on_problem(
                f"the history of commits has a gap while not all groups can be seen: {what}. Grant DESCRIBE on the"
                " groups of the flow, or exclude by groups.exclude what it does not concern"
            )


async def commits_as_of(source_alias: str, target: ClusterConnections, at_ms: int, groups: GroupSettings) -> Commits:
    """What a flow's groups had committed on the source at a moment.

    Raises:
        ConfigError: It is not known; the text names the oldest moment that is.
        OSError, MirrorError: The topic can't be read.
    """
    history = CommitHistory(at_ms)
    from_ms = max(0, at_ms - SNAPSHOT_MS - _SLACK_MS)
    await _read(history, InternalTopicReader(target, commits_topic(source_alias), from_ms=from_ms))
    found = history.commits()
    if not isinstance(found, UnknownHistory):
        return found
    # Only the whole topic says which moments are known.
    history = CommitHistory(at_ms)
    await _read(history, InternalTopicReader(target, commits_topic(source_alias)), until_known=True)
    found = history.commits()
    if isinstance(found, UnknownHistory):
        raise ConfigError(_why(found, source_alias, at_ms, groups))
    return found


async def _read(history: CommitHistory, reader: InternalTopicReader, *, until_known: bool = False) -> None:
    """Read until nothing behind it can matter."""
    complete = False
    while not complete:
        anew, records, complete = await reader.read()
        if anew:
            raise MirrorError(f"topic {reader.topic} was created anew while it was read: run this again")
        for record in records:
            try:
                history.take(CommitRecord.decode(record.value))
            except CorruptRecordError as error:
                raise MirrorError(f"topic {reader.topic}, offset {record.offset}: {error}") from error
        if records and records[-1].timestamp > history.at_ms + _LATE_MS and not until_known:
            return


def _why(unknown: UnknownHistory, source_alias: str, at_ms: int, groups: GroupSettings) -> str:
    topic, asked = commits_topic(source_alias), _date(at_ms)
    if unknown.oldest_ms is None:
        begin = "the flow begins it when it runs" if groups.history_enabled else "groups.history_enabled is false"
        return f"what groups had committed at {asked} is not known: topic {topic} has no history yet, {begin}"
    oldest = _date(unknown.oldest_ms)
    if at_ms < unknown.oldest_ms:
        return f"what groups had committed at {asked} is not known: the oldest moment that can be asked is {oldest}"
    last = f" after {_date(unknown.before_ms)}" if unknown.before_ms else ""
    return (
        f"what groups had committed at {asked} is not known: nobody looked{last}, for no checkpoint actor ran, or the"
        " source, or the target, or some group's coordinator did not answer (events and groups say which); ask for"
        f" another moment, the oldest is {oldest}"
    )


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")
