"""The whole: replicators, coordinators, brokers, and what is done to their logs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.model.broker import TargetPartition, topic_id_of
from tests.model.cast import Act
from tests.model.resolving import Resolving


class World(Resolving):
    """What is done to logs besides what happens in each, and the usual course of things."""

    def recreate_target(self, number: int) -> None:
        """Deleted, and created again by somebody."""
        self.done[number].add("target_recreated")
        target = self.targets[number]
        self.judges[number].truncated(0)
        life = target.life + 1
        fresh = TargetPartition(
            topic_id_of(number, life), target.replicated, target.on_append, target.on_truncated, life
        )
        self.targets[number] = fresh

    def harm(self, fault: str, number: int, depth: int) -> None:  # noqa: PLR0912 - one branch for each fault
        """Do to a partition's logs what ``fault`` says, ``depth`` offsets deep."""
        source, target, done = self.sources[number], self.targets[number], self.done[number]
        match fault:
            case "cleaned":
                done.add("cleaned")
                source.clean()
            case "removed":
                if source.start < min(source.stable_end, source.start + depth):
                    done.add("source_removed")
                    source.remove_below(source.start + depth)
            case "truncated":
                if source.truncate(source.end - depth):
                    done.add("source_truncated")
            case "unclean":
                self.move_leader(number, target.end - depth, unclean=True)
            case "emptied":
                target.remove_below(target.end - depth // 4)
                if target.start == target.end or self.nature.shared:
                    done.add("target_emptied")
            case "compacted":
                done.add("target_compacted")
                target.compact(lambda value: hash(value) % 3 == depth % 3)
            case "foreign":
                if depth > 9:
                    done.add("foreign")
                    target.write([b"foreign"] * (depth - 9), self.now_ms)
            case "recreated":
                if depth == 0:
                    self.recreate_target(number)
            case "refused":
                done.add("refused")
                target.refuses = _is_refused
            case "source_recreated":
                if depth == 0 and source.recreate():
                    done.add("source_recreated")
            case "state":
                self.lose_state()

    def lose_state(self) -> None:
        """The state topic is deleted."""
        self.state.lose()
        for done in self.done:
            done.add("state_lost")

    def go_on(self, rounds: int, *, busy: bool = False) -> int:
        """All goes well for a while; with ``busy`` brokers one request is answered a round, and the others wait.

        Returns:
            How many events that were.
        """
        events = 0
        for _ in range(rounds):
            self.now_s += 0.1
            events += sum(each_once(acts) for acts in self._course())
            events += each_once(self.handling) + each_once(self.answering) if busy else self.serve()
            events += each_once(self.reporting)
        return events

    def serve(self) -> int:
        """All that is on its way arrives, as far as nothing waits for followers; of lost connections one request."""
        events = each_once(self.handling)
        while done := each_once(partial(self.handling, live=True)) + each_once(self.answering):
            events += done
        return events

    def _course(self) -> list[Callable[[], list[Act]]]:
        """What to do, in this order, so that records are copied."""
        return [
            lambda: [target.replicate for target in self.targets],
            self.coordinating, self.looks, self.looks, self.establishing, self.establishing,
            lambda: self.reading(3), lambda: self.reading(3), self.sending,
        ]  # fmt: skip


def _is_refused(value: bytes) -> bool:
    """One record in eleven, of the first log of the source."""
    incarnation, _, offset = value.partition(b".")
    return incarnation == b"0" and int(offset) % 11 == 10


def each_once(acts: Callable[[], list[Act]]) -> int:
    """Do each of what can be done, the last one first: what is done may be gone from the list; returns how many."""
    count = len(acts())
    for index in reversed(range(count)):
        now = acts()
        if index < len(now):
            now[index]()
    return count
