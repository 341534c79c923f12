"""Two coordinators of one flow's state, in every order of what they ask of the brokers: who opened it last goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import state_topic
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.state_topic import StateStore
from mirror_ray.model.errors import ClusterUnreachableError, StateFencedError

#: More than any call of a store asks of the brokers.
_STEPS = 12


@dataclass
class Brokers:
    """The topic, and the coordinator of its transactions: one producer epoch at a time."""

    epoch: int = 0
    log: list[tuple[str, Any]] = field(default_factory=list)
    #: What else happens, right before the step of that number.
    meanwhile: dict[int, Callable[[], object]] = field(default_factory=dict)
    steps: int = 0

    def step(self) -> None:
        """One thing is asked of the brokers."""
        self.steps += 1
        happens = self.meanwhile.pop(self.steps, None)
        if happens is not None:
            happens()

    def after(self, steps: int, happens: Callable[[], object]) -> None:
        """Have it happen before the step that comes then."""
        self.meanwhile[self.steps + steps] = happens

    def read(self, *_: object) -> dict[str, Any]:
        """The last value of every key."""
        self.step()
        return dict(self.log)


class FakeProducer:
    """A transactional producer of librdkafka."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers, self.epoch, self.records = brokers, 0, list[tuple[str, Any]]()

    def list_topics(self, topic: str, timeout: float) -> None: ...

    def close(self) -> None: ...

    def init_transactions(self, timeout: float) -> None:
        self.brokers.step()
        self.brokers.epoch += 1
        self.epoch = self.brokers.epoch

    def begin_transaction(self) -> None:
        self.records = []

    def produce(self, topic: str, *, value: bytes, key: bytes, partition: int, on_delivery: Any) -> None:
        self.records.append((key.decode(), json.loads(value)))

    def commit_transaction(self, timeout: float) -> None:
        self.brokers.step()
        if self.epoch != self.brokers.epoch:
            raise KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
        self.brokers.log += self.records


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    """That a store finds instead of real ones."""
    brokers = Brokers()
    editor = SimpleNamespace(ensure_compacted_topic=lambda *_: True)
    monkeypatch.setattr(state_topic, "Producer", lambda *_: FakeProducer(brokers))
    monkeypatch.setattr(state_topic, "ClusterEditor", lambda *_: editor)
    monkeypatch.setattr(state_topic, "read_state", brokers.read)
    monkeypatch.setattr("mirror_ray.kafka.state_topic.time.sleep", lambda _: None)
    return brokers


def store() -> StateStore:
    """One coordinator's."""
    return StateStore(ClusterSettings(alias="B", bootstrap_servers=("b:1",)), "state", "mirror-ray-A-to-B", UNRECORDED)


def writes(which: StateStore, who: str) -> bool:
    """Whether it can write still."""
    try:
        which.write({"k": {"by": who}})
    except StateFencedError:
        return False
    return True


@pytest.mark.parametrize("lost", [False, True], ids=["", "producer lost"])
@pytest.mark.parametrize("steps", range(1, _STEPS))
def test_a_store_that_is_opened_while_the_older_one_writes(brokers: Brokers, lost: bool, steps: int) -> None:
    """The older one's write is read by the newer one, or fails; it never goes on with what it knew before."""
    first, second, known = store(), store(), dict[str, Any]()
    first.open()
    if lost:
        first.close()
    brokers.after(steps, lambda: known.update(second.open()))
    written = writes(first, "first")
    if not known and brokers.meanwhile:
        return
    assert ("k" in known) == written
    assert not writes(first, "first, later")
    assert writes(second, "second")
    assert brokers.log[-1] == ("k", {"by": "second"})


@pytest.mark.parametrize("lost", [False, True], ids=["", "producer lost"])
@pytest.mark.parametrize("steps", range(1, _STEPS))
def test_an_older_store_that_writes_while_the_newer_one_is_opened(brokers: Brokers, lost: bool, steps: int) -> None:
    """It may take the state back as long as the newer one does not own it; that one is opened all the same."""
    first, second = store(), store()
    first.open()
    if lost:
        first.close()
    written: list[bool] = []
    brokers.after(steps, lambda: written.append(writes(first, "first")))
    known = second.open()
    assert ("k" in known) == (True in written)
    assert not writes(first, "first, later")
    assert writes(second, "second")


def test_a_store_goes_on_when_the_one_that_fenced_it_gave_up(brokers: Brokers) -> None:
    """As one does that was killed before it owned the state."""
    first = store()
    first.open()
    FakeProducer(brokers).init_transactions(5)
    assert writes(first, "first")
    assert writes(first, "first")


def test_a_store_that_could_not_see_who_owns_the_state_looks_again(brokers: Brokers) -> None:
    """It has fenced the newer one by then, and may not write all the same."""
    first, second = store(), store()
    first.open()
    first.close()

    def fail() -> None:
        raise ClusterUnreachableError("no broker answers")

    def open_second() -> None:
        second.open()
        brokers.after(2, fail)

    brokers.after(2, open_second)
    with pytest.raises(ClusterUnreachableError):
        first.write({"k": {"by": "first"}})
    assert not writes(first, "first")
    assert writes(second, "second")


def test_keys_of_the_store_are_kept_from_callers(brokers: Brokers) -> None:
    """Who owns the state, and that its producer was begun anew."""
    first = store()
    first.open()
    first.close()
    assert writes(first, "first")
    assert {key for key, _ in brokers.log} == {"owner", "reconnected", "k"}
    assert store().open() == {"k": {"by": "first"}}
    for key in ("owner", "reconnected"):
        with pytest.raises(ValueError, match="the store's own"):
            first.write({key: {}})
