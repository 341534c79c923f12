"""The commit history: what groups had committed at any moment of the past.

A checkpoint actor records what has changed since its last reading, now and then everything (a *snapshot*), and an empty
record where nothing changes: so a moment at which nobody read differs from one at which nothing happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.groups.offset_state import GroupOffset, GroupOffsetState
from mirror_ray.model.committed_offset import Commits, CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.commit_record import DELETED, SNAPSHOT_MS, CommitRecord, Kind, pieces

_NOTHING_NEW_MS: Final = 10_000
#: A reading is valid until the next one, and no longer than this.
READING_VALID_MS: Final = 60_000


class CommitRecorder:
    """Makes the records of one life of a checkpoint actor."""

    def __init__(self, life: bytes, number: int = 0, of: int = 1) -> None:
        self._life, self._number, self._of = life, number, of
        self._sequence = 0
        self._at_ms = 0
        #: None: the life has not begun.
        self._snapshot_ms: int | None = None

    def record(self, state: GroupOffsetState, now_ms: int) -> list[CommitRecord]:
        """The records to write of the state as it is now; they are taken as written."""
        now_ms = max(now_ms, self._at_ms)
        if self._snapshot_ms is None or now_ms - self._snapshot_ms >= SNAPSHOT_MS:
            kind: Kind = "snapshot"
            entries: Iterable[GroupOffset] = (
                entry for entries in state.groups.values() for entry in entries.values() if entry.source
            )
            self._snapshot_ms = now_ms
        elif state.unrecorded or now_ms - self._at_ms >= _NOTHING_NEW_MS:
            kind, entries = "changes", state.unrecorded
        else:
            return []
        self._at_ms = now_ms
        records = list(self._records(kind, list(pieces(_commits(entries)))))
        state.unrecorded.clear()
        return records

    def _records(self, kind: Kind, parts: list[Commits]) -> Iterator[CommitRecord]:
        for number, part in enumerate(parts, 1):
            yield CommitRecord(
                life=self._life,
                number=self._number,
                of=self._of,
                sequence=self._sequence,
                at_ms=self._at_ms,
                kind=kind,
                first=number == 1,
                last=number == len(parts),
                commits=part,
            )
            self._sequence += 1


def _commits(entries: Iterable[GroupOffset]) -> Commits:
    commits: dict[str, dict[TopicPartition, CommittedOffset]] = defaultdict(dict)
    for entry in entries:
        commits[entry.key.group][entry.key.partition] = entry.source or DELETED
    return commits


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownHistory:
    """Why it is not known what was committed at a moment; times in ms, None: there is none."""

    #: The first moment that is known.
    oldest_ms: int | None
    #: The last moment before it at which every checkpoint actor had read.
    before_ms: int | None


class CommitHistory:
    """Takes a flow's records in the order of the topic, from anywhere in it, and knows what held at one moment.

    Guarantees: its answer is what the checkpoint actors had read by then, all of them, none longer than
    ``READING_VALID_MS`` before. A snapshot or a reading that was cut off counts as not written.
    """

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self._lives: dict[bytes, _Life] = {}

    def take(self, record: CommitRecord) -> None:
        """Take the next record; one that was written twice counts once."""
        life = self._lives.get(record.life)
        if life is None:
            life = self._lives[record.life] = _Life(record.number, record.of, record.sequence)
        if record.sequence >= life.expected:
            life.take(record, self.at_ms)

    def commits(self) -> Commits | UnknownHistory:
        """What groups had committed at the moment."""
        shares = self._shares()
        known = [lives for lives in shares if all(life.holds(self.at_ms) for life in lives)]
        if not known:
            return self._unknown()
        found: dict[str, dict[TopicPartition, CommittedOffset]] = defaultdict(dict)
        for life in max(known, key=lambda lives: min(life.begun_ms or 0 for life in lives)):
            for group, offsets in life.offsets.items():
                found[group] |= offsets
        return {group: offsets for group, offsets in found.items() if offsets}

    def _shares(self) -> list[list[_Life]]:
        """For each number of checkpoint actors, the best life of each of them."""
        best: dict[int, dict[int, _Life]] = defaultdict(dict)
        for life in sorted(self._lives.values(), key=lambda life: (life.holds(self.at_ms), life.begun_ms or 0)):
            best[life.of][life.number] = life
        return [list(lives.values()) for of, lives in best.items() if len(lives) == of]

    def _unknown(self) -> UnknownHistory:
        by_share: dict[int, dict[int, list[_Life]]] = defaultdict(lambda: defaultdict(list))
        for life in self._lives.values():
            if life.first_ms is not None:
                by_share[life.of][life.number].append(life)
        whole = [list(shares.values()) for of, shares in by_share.items() if len(shares) == of]
        oldest = [max(min(life.first_ms or 0 for life in lives) for lives in shares) for shares in whole]
        before = [min(max(life.read_ms for life in lives) for lives in shares) for shares in whole]
        return UnknownHistory(oldest_ms=min(oldest, default=None), before_ms=max(filter(None, before), default=None))


@dataclass(slots=True)
class _Life:
    number: int
    of: int
    #: The next record's.
    expected: int
    #: As they were at ``read_ms``.
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    #: Of the first snapshot that counts, None: there is none; and of the first one at all.
    begun_ms: int | None = None
    first_ms: int | None = None
    #: The last reading that counts.
    read_ms: int = 0
    #: Pieces of a reading that is not complete.
    pending: list[CommitRecord] = field(default_factory=list)
    #: Whether a record from after the moment was taken: nothing behind it matters.
    passed: bool = False

    def holds(self, at_ms: int) -> bool:
        return self.begun_ms is not None and at_ms - self.read_ms <= READING_VALID_MS

    def take(self, record: CommitRecord, at_ms: int) -> None:
        if record.sequence > self.expected:
            self.pending = []
            if not self.passed:
                # What is missing may be from before the moment, so that only a snapshot counts.
                self.begun_ms, self.offsets = None, {}
        self.expected = record.sequence + 1
        self.passed |= record.at_ms > at_ms
        if record.first:
            self.pending = [record]
        elif self.pending:
            self.pending.append(record)
        if not (self.pending and record.last):
            return
        reading, self.pending = self.pending, []
        if record.kind == "snapshot":
            self.first_ms = self.first_ms or record.at_ms
        if record.at_ms > at_ms:
            return
        if record.kind == "snapshot":
            self.offsets = {}
            self.begun_ms = self.begun_ms or record.at_ms
        if self.begun_ms is not None:
            self.read_ms = record.at_ms
            for piece in reading:
                self._apply(piece.commits)

    def _apply(self, commits: Commits) -> None:
        for group, offsets in commits.items():
            committed_by = self.offsets.setdefault(group, {})
            for partition, committed in offsets.items():
                if committed.offset < 0:
                    committed_by.pop(partition, None)
                else:
                    committed_by[partition] = committed
