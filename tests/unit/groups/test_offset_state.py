"""A group that is synced while it commits on both sides, and while what syncs it dies at any moment."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mirror_ray.groups.checkpoints import WRITTEN_HEADER, GroupCheckpoint, encode_written
from mirror_ray.groups.offset_state import GroupOffsetState
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.translation import Translation
from mirror_ray.records.mm2_records import CheckpointRecord

SOURCE, REMOTE = TopicPartition("orders", 3), TopicPartition("A.orders", 3)
OFFSET = st.integers(0, 20)


def decode_header(header: bytes) -> tuple[int, ...]:
    """What may have been written."""
    nothing = CheckpointRecord(group="", partition=REMOTE, upstream_offset=0, downstream_offset=0)
    return GroupCheckpoint.decode(*nothing.encode(), ((WRITTEN_HEADER, header),)).written


class GroupSyncMachine(RuleBasedStateMachine):
    """One group, one partition; the target's offset is the source's plus 100, up to what was copied."""

    def __init__(self) -> None:
        super().__init__()
        self.copied = 0
        self.source: int | None = None
        self.target: int | None = None
        #: Committed on the target by the group itself, or by an operator; None: what stands there is ours, or may be.
        self.foreign: int | None = None
        self.lowest_since_write: int | None = None
        #: The newest checkpoint, as the compacted topic keeps it.
        self.topic: tuple[CheckpointRecord, bytes] | None = None
        self.state = GroupOffsetState()
        self.version = 0

    @rule(offset=OFFSET)
    def commits_on_source(self, offset: int) -> None:
        """Forward or back."""
        self.source = offset
        lowest = self.lowest_since_write
        self.lowest_since_write = offset if lowest is None else min(lowest, offset)

    @rule(offset=st.integers(100, 120))
    def commits_on_target(self, offset: int) -> None:
        """It has failed over, or somebody resets it: to where we put it, too, which nobody can tell apart."""
        entry = self.state.groups.get("billing", {}).get(SOURCE)
        ours = {*(entry.written if entry else ()), *(decode_header(self.topic[1]) if self.topic else ())}
        self.target = offset
        self.foreign = None if offset in ours else offset

    @rule()
    def is_deleted_on_target(self) -> None:
        """Or it expires there."""
        self.target = self.foreign = None

    @rule(records=st.integers(1, 10))
    def copies(self, records: int) -> None:
        """The flow goes on."""
        self.copied += records
        self.version += 1

    @rule()
    def dies(self) -> None:
        """The next one knows what is in the topic."""
        self.state = GroupOffsetState()
        if self.topic is not None:
            checkpoint, header = self.topic
            self.state.restore(SOURCE, checkpoint, decode_header(header))

    @rule(ends=st.sampled_from(["before the checkpoint", "before the commit", "before the answer", "whole"]))
    def round(self, ends: str) -> None:
        """One round, or the beginning of one."""
        self.state.committed("billing", {SOURCE: CommittedOffset(self.source)} if self.source is not None else {})
        for partition, offset in list(self.state.to_translate({SOURCE: self.version})):
            beyond = offset > self.copied
            place = 100 + min(offset, self.copied)
            found = Translation(offset=place, exact=not beyond, waits=beyond)
            self.state.translated(partition, offset, self.version, found)
        entry = self.state.entry("billing", SOURCE)
        write = self.state.compare(entry, self.target) if entry in self.state.unsynced else None
        if ends == "before the checkpoint":
            self.dies()
            return
        if entry in self.state.unemitted:
            checkpoint, written = self.state.checkpoint(entry, REMOTE), entry.written
            if checkpoint is not None:
                self.topic = (checkpoint, encode_written(written))
            self.state.emitted(entry, checkpoint, written)
        if write is None:
            return
        if ends == "before the commit":
            self.dies()
            return
        self._commit(entry.to_commit[0])
        if ends == "before the answer":
            self.dies()
            return
        self.state.wrote(entry, None)

    def _commit(self, offset: int) -> None:
        assert self.foreign is None or self.target is None, "somebody else's commit was replaced"
        if self.target is not None and offset < self.target:
            assert self.lowest_since_write is not None
            assert 100 + self.lowest_since_write <= offset, "it was thrown back"
        self.target, self.foreign = offset, None
        self.lowest_since_write = self.source

    @precondition(lambda self: self.source is not None)
    @rule()
    def settles(self) -> None:
        """Left alone, the group stands where it should, or there is a reason."""
        self.state.recheck()
        self.round("whole")
        entry = self.state.entry("billing", SOURCE)
        assert self.source is not None
        assert entry.on_target == self.target
        if self.target != 100 + min(self.source, self.copied):
            # The topic may still call ours what the state no longer does: only the next state goes by the topic.
            assert self.foreign is not None or self.target not in entry.written
            assert "somebody else" in (entry.reason or "")

    @invariant()
    def never_ahead(self) -> None:
        """Of what was copied."""
        assert self.target is None or self.foreign is not None or self.target <= 100 + self.copied


def test_a_way_back_is_not_forgotten_with_whoever_saw_it() -> None:
    """It had said that it would follow the source back, and died; the source has gone on since, but not as far."""
    machine = GroupSyncMachine()
    machine.copies(2)
    machine.commits_on_source(2)
    machine.round("whole")
    machine.commits_on_source(0)
    machine.round("before the commit")
    machine.commits_on_source(1)
    machine.round("whole")
    assert machine.target == 101


def test_what_was_seen_to_be_written_is_all_that_is_ours() -> None:
    """Who took over saw it where it was meant to be; put back to where it stood before, it was put there by others."""
    machine = GroupSyncMachine()
    machine.copies(8)
    machine.commits_on_source(8)
    machine.settles()
    machine.commits_on_source(0)
    machine.settles()
    machine.round("before the checkpoint")
    machine.settles()
    machine.commits_on_source(1)
    machine.commits_on_target(108)
    machine.settles()
    assert machine.target == 108


def test_what_others_have_replaced_is_not_ours_any_more() -> None:
    """They put the group where it should stand, and then back to where we had put it: it stays there."""
    machine = GroupSyncMachine()
    machine.copies(10)
    machine.commits_on_source(7)
    machine.settles()
    machine.commits_on_source(0)
    machine.commits_on_target(100)
    machine.settles()
    machine.commits_on_target(107)
    machine.settles()
    machine.commits_on_source(8)
    machine.settles()
    assert machine.target == 107


TestCarrying = GroupSyncMachine.TestCase
TestCarrying.settings = settings(max_examples=100, stateful_step_count=40)
