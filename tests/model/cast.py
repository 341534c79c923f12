"""Who takes part, and what replicators can do; what can be done now is a list of acts, each one step of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from mirror_ray.model.lease_terms import LeaseTerms
from tests.model.broker import DAY_MS, Stored, TargetPartition, topic_id_of
from tests.model.coordinator import FIRST_PRODUCER
from tests.model.judge import Judge, Wrong
from tests.model.replicator import Replicator
from tests.model.requests import Connection, Part
from tests.model.sending import Wiring
from tests.model.source import SourcePartition
from tests.model.state_topic import StateTopic

_START_MS = 1_700_000_000_000

Act = Callable[[], None]


@dataclass(slots=True, kw_only=True)
class Nature:
    """What a world is like; ``leased``, ``patient`` and ``careful`` are switched off to show what for."""

    partitions: int = 2
    replicators: int = 2
    #: So many different keys in topics that are compacted; None: every record has its own.
    keys: int | None = None
    #: Whether followers lag, so that the log's end may lie above the high watermark.
    replicated: bool = False
    lease_ms: int = 4000
    max_message_bytes: int = 90
    leased: bool = True
    patient: bool = True
    careful: bool = True
    #: Whether others write to the remote topic, too.
    shared: bool = False
    wiring: Wiring = field(default_factory=Wiring)


class Cast:
    """The clusters, and the replicators.

    ``wrongs`` is what went wrong, by partition, for the one reason that no broker helps against: a request that came
    late, to a broker that had forgotten its producer. It must be seen by the copy; anything else raises ``Wrong``.
    """

    def __init__(self, nature: Nature) -> None:
        self.nature = nature
        self.now_s = 0.0
        self.sources = [SourcePartition(nature.keys) for _ in range(nature.partitions)]
        self.judges = [Judge(source) for source in self.sources]
        self.targets = [
            TargetPartition(
                topic_id_of(number),
                nature.replicated,
                partial(self._appended, number),
                partial(self._truncated, number),
            )
            for number in range(nature.partitions)
        ]
        self.state = StateTopic()
        self.terms = LeaseTerms(nature.lease_ms)
        self.lives = 0
        self.replicators: dict[int, Replicator] = {}
        #: What brokers have of connections that were lost.
        self.orphans: list[Connection] = []
        #: What was done to a partition's logs, by its name in ``JUSTIFIED``.
        self.done: list[set[str]] = [set() for _ in self.sources]
        self.wrongs: dict[int, str] = {}
        self._wrong_at: dict[int, int] = {}
        #: By partition, records that late requests have appended.
        self._appended_late: list[set[bytes]] = [set() for _ in self.sources]
        self.handling_now: Part | None = None
        for _ in range(nature.replicators):
            self.spawn()

    @property
    def now_ms(self) -> int:
        """What the brokers' clocks show."""
        return _START_MS + int(self.now_s * 1000)

    def timestamp(self, *, old: bool) -> int:
        """Of a record: written now, or copied a week late."""
        return self.now_ms - (8 * DAY_MS if old else 0)

    def _appended(self, number: int, stored: Stored, unknown: bool) -> None:
        if number in self.wrongs or stored.producer_id < FIRST_PRODUCER:
            return
        late = self.handling_now is not None and self.handling_now.late
        if late:
            self._appended_late[number].update(stored.values)
        if unknown and late:
            # Right by chance, perhaps: where the source was cleaned of what is missing before it.
            self.done[number].add("late")
        try:
            self.judges[number].appended(stored.base_offset, stored.values)
        except Wrong as wrong:
            # A late request may have appended in its place what is sent again, before the broker forgets the producer.
            late = late or self._appended_late[number].issuperset(stored.values)
            if not (unknown and (late or "target_unclean" in self.done[number])):
                raise
            self.wrongs[number], self._wrong_at[number] = str(wrong), stored.base_offset

    def _truncated(self, number: int, end: int) -> None:
        self.judges[number].truncated(end)
        if number in self.wrongs and self._wrong_at[number] >= end:
            # Never committed, and gone.
            del self.wrongs[number]

    def spawn(self) -> Replicator:
        """A new replicator process."""
        self.lives += 1
        replicator = Replicator(self.lives, self, self.terms, self.nature.wiring, leased=self.nature.leased)
        self.replicators[self.lives] = replicator
        return replicator

    def holders(self, number: int) -> list[Replicator]:
        """The living replicators that believe to have a partition."""
        return [replicator for replicator in self.replicators.values() if number in replicator.copies]

    def running(self) -> Iterator[Replicator]:
        return (replicator for replicator in self.replicators.values() if replicator.runs)

    def looks(self) -> list[Act]:
        """Reading the state topic."""
        acts: list[Act] = []
        for replicator in self.running():
            if replicator.look is not None:
                acts.append(replicator.end_look)
            elif replicator.book.read_from is not None:
                acts.append(replicator.begin_look)
        return acts

    def establishing(self) -> list[Act]:
        """Finding the place in the target."""
        acts: list[Act] = []
        for replicator in self.running():
            for number, copy in replicator.copies.items():
                if number in replicator.ends:
                    acts.append(partial(replicator.settle, number))
                elif copy.needs_end and copy not in replicator.leaders:
                    acts.append(partial(replicator.look_at_target, number))
        return acts

    def reading(self, most: int) -> list[Act]:
        """Fetching from the source."""
        acts: list[Act] = []
        for replicator in self.running():
            for number, copy in replicator.copies.items():
                if number in replicator.fetches:
                    acts.append(partial(replicator.arrive, number))
                elif copy.asks_source:
                    acts.append(partial(replicator.ask_source, number))
                elif copy in replicator.leaders and copy.wants_fetch:
                    acts.append(partial(replicator.fetch, number, most))
        return acts
