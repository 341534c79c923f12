"""What a replicator tells is told until it was heard, and once."""

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

_TOLD = (1, "warning", "A->B/orders-0 given up")


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
    """Memory is bounded: the newest are kept, and what is heard of them is not told again."""
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
    replicator.events.append(_TOLD)
    replicator.answers_lost = 3
    await shown(partial(texts, coordinator), lambda told: _TOLD[2] in told)
    assert replicator.answers_lost == 0
    replicator.events.append((2, "info", "later"))
    told = await shown(partial(texts, coordinator), lambda told: "later" in told)
    assert told.count(_TOLD[2]) == 1


async def test_a_new_process_counts_its_events_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has to tell from its start is heard, however much the one before it had told."""
    coordinator = await world.running()
    await eventually(lambda: 1 in world.ray.replicators)
    replicator = world.first
    replicator.events += [_TOLD, _TOLD]
    await eventually(lambda: not replicator.events)
    first_words = [(3, "info", "first words")]
    monkeypatch.setattr(fake_ray, "FakeReplicator", partial(fake_ray.FakeReplicator, events=first_words))
    replicator.alive = False
    await shown(partial(texts, coordinator), lambda told: "first words" in told)


class _Engine:
    """Tells one event."""

    def __init__(self, *_: object) -> None:
        self._told = [_TOLD]

    async def start(self) -> None: ...

    def allow(self, _: object) -> None: ...

    def report(self, full: bool = False) -> ReplicatorReport:
        del full
        said, self._told = self._told, []
        return report(*(event[2] for event in said))


async def test_a_replicator_tells_again_what_was_not_heard() -> None:
    """Its engine has forgotten it by then."""
    replicator = ReplicatorService(settings(), "f", "r", engine=_Engine, node="n", node_id="n")  # type: ignore[arg-type]
    await replicator.exchange([])
    again = await replicator.exchange([])
    assert [event[2] for event in again.events] == [_TOLD[2]]
    assert (await replicator.exchange([], events_taken=again.events_end)).events == ()
