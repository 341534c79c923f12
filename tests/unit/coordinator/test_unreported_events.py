"""What a replicator reports is reported until it was taken, and once."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.assignment import ReplicatorReport
from mirror_ray.replication.service import ReplicatorService
from mirror_ray.replication.unreported_events import UnreportedEvents
from tests.support.factories import replicator_report
from tests.unit.coordinator import fake_ray
from tests.unit.coordinator.fakes import World, eventually, settings, shown, texts

_EVENT = (1, "warning", "A->B/orders-0 given up")


def report(*events: str) -> ReplicatorReport:
    """A report of these events."""
    return replicator_report(events=tuple((1, "info", text) for text in events))


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_each_event_is_heard_once_whatever_answers_are_lost(exchanges: list[tuple[int, bool]]) -> None:
    """As long as one answer comes through in the end."""
    unheard, made, heard, end = UnreportedEvents(), 0, list[str](), 0
    for new, arrives in [*exchanges, (0, True)]:
        answer = unheard.into(report(*map(str, range(made, made + new))), end)
        made += new
        if arrives:
            heard += [text for _, _, text in answer.events]
            end = answer.events_end
    assert heard == list(map(str, range(made)))


def test_nobody_listens() -> None:
    """Memory is bounded: the newest are kept, and what was taken of them is not reported again."""
    unheard = UnreportedEvents()
    for number in range(5000):
        answer = unheard.into(report(str(number)), 0)
    assert [text for _, _, text in answer.events] == list(map(str, range(4000, 5000)))
    assert [event[2] for event in unheard.into(report("next"), answer.events_end).events] == ["next"]


async def test_the_coordinator_hears_of_it_though_an_answer_is_lost(world: World) -> None:
    """A frozen replicator that goes on answers first whom nobody waits for any more."""
    coordinator = await world.running()
    await eventually(lambda: 1 in world.ray.replicators)
    replicator = world.first
    replicator.events.append(_EVENT)
    replicator.answers_lost = 3
    await shown(partial(texts, coordinator), lambda events: _EVENT[2] in events)
    assert replicator.answers_lost == 0
    replicator.events.append((2, "info", "later"))
    events = await shown(partial(texts, coordinator), lambda events: "later" in events)
    assert events.count(_EVENT[2]) == 1


async def test_a_new_process_counts_its_events_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has to report from its start is taken, however much the one before it had reported."""
    coordinator = await world.running()
    await eventually(lambda: 1 in world.ray.replicators)
    replicator = world.first
    replicator.events += [_EVENT, _EVENT]
    await eventually(lambda: not replicator.events)
    first_words = [(3, "info", "first words")]
    monkeypatch.setattr(fake_ray, "FakeReplicator", partial(fake_ray.FakeReplicator, events=first_words))
    replicator.alive = False
    await shown(partial(texts, coordinator), lambda events: "first words" in events)


class _Engine:
    """Reports one event."""

    def __init__(self, *_: object) -> None:
        self._events = [_EVENT]

    async def start(self) -> None: ...

    def allow(self, _: object) -> None: ...

    def report(self, full: bool = False) -> ReplicatorReport:
        del full
        reported, self._events = self._events, []
        return report(*(event[2] for event in reported))


async def test_a_replicator_reports_again_what_was_not_taken() -> None:
    """Its engine has forgotten it by then."""
    replicator = ReplicatorService(settings(), "f", "r", engine=_Engine, node="n", node_id="n")  # type: ignore[arg-type]
    await replicator.exchange([])
    again = await replicator.exchange([])
    assert [event[2] for event in again.events] == [_EVENT[2]]
    assert (await replicator.exchange([], events_taken=again.events_end)).events == ()
