"""A look that has not seen all groups is not written down: those that it lacks would seem to be gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import cast

import pytest

from mirror_ray.config.settings import GroupSettings
from mirror_ray.groups import commit_history_topic, source_groups
from mirror_ray.groups.commit_history import READING_VALID_MS, CommitHistory, UnknownHistory
from mirror_ray.groups.commit_history_topic import HistoryWriter
from mirror_ray.groups.offset_state import GroupOffsetState
from mirror_ray.groups.source_groups import SourceGroups
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.group_coordinators import COORDINATOR_LOAD_IN_PROGRESS, GroupCoordinators, GroupError
from mirror_ray.kafka.group_listing import GroupListing, ListedGroup
from mirror_ray.kafka.group_offset_codec import GroupOffsets
from mirror_ray.kafka.group_offsets import OffsetRound
from mirror_ray.kafka.internal_topic_writer import KeyedRecord
from mirror_ray.kafka.metadata import ClusterMetadata, TopicMetadata
from mirror_ray.model.committed_offset import Commits, CommittedOffset
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.records.commit_record import CommitRecord

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
LOADING = GroupError(error_info(COORDINATOR_LOAD_IN_PROGRESS))


class Source:
    """A cluster whose brokers and coordinators may not answer, a topic for the history, and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000_000.0
        self.committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self.failing: dict[str, GroupError] = {}
        self.refused: dict[str, set[TopicPartition]] = {}
        self.silent: dict[int, str] = {}
        self.hidden: set[str] = set()
        self.topic_ids: dict[str, TopicId] = {}
        self.asked: list[set[str]] = []
        self.records: list[KeyedRecord] = []
        self.problems: list[str] = []
        monkeypatch.setattr(source_groups, "list_groups", self._list)
        monkeypatch.setattr(source_groups, "OffsetReader", lambda _: self)
        monkeypatch.setattr(commit_history_topic, "InternalTopicWriter", lambda *_: self)
        for module in (source_groups, commit_history_topic):
            monkeypatch.setattr(module, "time", self)

    def time(self) -> float:
        """The wall clock."""
        return self.now_s

    def monotonic(self) -> float:
        """The same."""
        return self.now_s

    async def _list(self, _: GroupCoordinators, __: GroupListing | None) -> GroupListing:
        groups = {
            name: ListedGroup(group=name, kind="", protocol_type="", state="", broker=0)
            for name in self.committed.keys() - self.hidden
        }
        return GroupListing(groups=groups, silent=dict(self.silent))

    async def read(self, groups: Collection[str]) -> OffsetRound:
        """All groups that answer are changed ones."""
        done = OffsetRound(failed={group: self.failing[group] for group in groups if group in self.failing})
        for group in groups:
            if group not in self.failing:
                refused = self.refused.get(group, set())
                offsets = {p: offset for p, offset in self.committed[group].items() if p not in refused}
                done.changed[group] = GroupOffsets(offsets, dict.fromkeys(refused, LOADING.error))
        return done

    async def refresh(self, topics: Collection[str]) -> ClusterMetadata:
        """The topics that are there."""
        self.asked.append(set(topics))
        if not self.topic_ids:
            raise ConnectionError("lost")
        known = {
            name: TopicMetadata(name=name, topic_id=topic_id, is_internal=False, error_code=0, partitions={})
            for name, topic_id in self.topic_ids.items()
        }
        return ClusterMetadata(cluster_id="", brokers={}, controller_id=-1, topics=known)

    async def append(self, records: Sequence[KeyedRecord]) -> None:
        """Into the history's topic."""
        self.records += records

    def ask(self, at_s: float) -> Commits | UnknownHistory:
        """What the history says."""
        history = CommitHistory(int(at_s * 1000))
        for record in self.records:
            history.take(CommitRecord.decode(record.value))
        return history.commits()


class Life:
    """A run of a checkpoint actor."""

    def __init__(self, source: Source) -> None:
        nowhere = cast(ClusterConnections, source)
        settings = GroupSettings(include=(".*",), refresh_interval_s=600)
        self.source = source
        self.state = GroupOffsetState()
        self.groups = SourceGroups(settings, nowhere, lambda _: True)
        self.history = HistoryWriter("A", nowhere, source.problems.append)

    async def look(self, after_s: float = 2) -> None:
        """One more, so long after the one before."""
        self.source.now_s += after_s
        await self.groups.read(self.state)
        await self.history.write(self.state, self.groups.problems)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    """Two groups."""
    made = Source(monkeypatch)
    made.committed = {"g": {P: CommittedOffset(1)}, "h": {P: CommittedOffset(7), Q: CommittedOffset(8)}}
    return made


def _fails(source: Source) -> None:
    source.failing = {"h": LOADING}


def _is_partly_refused(source: Source) -> None:
    source.refused = {"h": {Q}}


def _is_hidden(source: Source) -> None:
    source.silent, source.hidden = {1: "no answer within 5 s"}, {"h"}


@pytest.mark.parametrize("breaks", [_fails, _is_partly_refused, _is_hidden])
async def test_a_new_life_that_does_not_see_all_leaves_the_old_ones_word(
    source: Source, breaks: Callable[[Source], None]
) -> None:
    """Its first look lacks a group: for a minute the old life is believed, then nothing is known before all is seen."""
    await Life(source).look()
    seen_s, before = source.now_s, {group: dict(offsets) for group, offsets in source.committed.items()}
    breaks(source)
    source.committed["g"] = {P: CommittedOffset(2)}
    new = Life(source)
    for _ in range(40):
        await new.look()
    assert source.ask(seen_s + 5) == before
    assert source.ask(seen_s + READING_VALID_MS / 1000) == before
    assert isinstance(source.ask(source.now_s), UnknownHistory)
    assert any("not all groups can be seen" in problem for problem in source.problems)
    source.failing, source.refused, source.silent, source.hidden = {}, {}, {}, set()
    await new.look(11)
    assert source.ask(source.now_s) == source.committed
    assert new.groups.problems == {}


async def test_what_cannot_be_seen_is_not_told_as_fresh(source: Source) -> None:
    """Within one life: its old offset is told for a minute, and a partition with an error is not told as deleted."""
    life = Life(source)
    await life.look()
    seen_s, before = source.now_s, {group: dict(offsets) for group, offsets in source.committed.items()}
    for breaks in (_fails, _is_partly_refused):
        breaks(source)
        for _ in range(40):
            source.committed["h"][Q] = CommittedOffset(source.committed["h"][Q].offset + 1)
            await life.look()
        source.failing, source.refused = {}, {}
    assert life.state.groups["h"][Q].source == before["h"][Q]
    assert source.ask(seen_s + 30) == before
    assert isinstance(source.ask(source.now_s), UnknownHistory)
    await life.look()
    assert source.ask(source.now_s) == source.committed


async def test_a_short_while_is_no_problem(source: Source) -> None:
    """Coordinators load now and then."""
    life = Life(source)
    await life.look()
    _fails(source)
    await life.look(20)
    source.failing = {}
    await life.look(20)
    assert source.problems == []
    assert source.ask(source.now_s - 1) == source.committed


async def test_a_look_that_breaks_off_has_seen_nothing(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing is written by mistake."""
    life = Life(source)

    async def lost(_: Iterable[str]) -> OffsetRound:
        raise ConnectionError("lost")

    monkeypatch.setattr(source, "read", lost)
    with pytest.raises(ConnectionError):
        await life.look()
    assert life.groups.problems


async def test_it_is_told_which_topic_it_was(source: Source) -> None:
    """Of one that was created anew the new one's id, from its first commit on; who moves on is not asked about."""
    source.topic_ids = {"t": TopicId("old")}
    life = Life(source)
    await life.look()
    first_s = source.now_s
    source.committed["g"] = {P: CommittedOffset(5)}
    await life.look()
    assert source.asked == [{"t"}]
    source.topic_ids = {"t": TopicId("new")}
    source.committed = {"g": {}, "h": {Q: CommittedOffset(0)}}
    await life.look()
    source.committed["g"] = {P: CommittedOffset(9)}
    await life.look()
    then, now = source.ask(first_s), source.ask(source.now_s)
    assert not isinstance(then, UnknownHistory)
    assert {offset.topic_id for offsets in then.values() for offset in offsets.values()} == {"old"}
    new = CommittedOffset(9, topic_id=TopicId("new"))
    assert now == {"g": {P: new}, "h": {Q: new._replace(offset=0)}}
