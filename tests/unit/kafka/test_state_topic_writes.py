"""What a state topic says, which offset a write returns, and what becomes of a transaction that broke off."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import state_topic
from mirror_ray.kafka.audit_log import UNRECORDED
from mirror_ray.kafka.state_topic import StateStore, read_state, transactional_id
from mirror_ray.model.errors import MirrorError, StateFencedError
from mirror_ray.model.names import FlowName
from mirror_ray.records.decode import DecodedRecord, record_tail

CLUSTER = ClusterSettings(alias="B", bootstrap_servers=("b:1",))


class Producer:
    """Writes into a log; the first so many commits fail for a moment."""

    def __init__(self, log: list[tuple[str, Any]], failing: int = 0) -> None:
        self.log, self.failing = log, failing
        self.asked: list[str] = []
        self.records: list[tuple[str, Any]] = []

    def list_topics(self, topic: str, timeout: float) -> None: ...

    def close(self) -> None: ...

    def init_transactions(self, timeout: float) -> None:
        self.asked.append("init")

    def begin_transaction(self) -> None:
        assert not self.records, "a transaction is open"
        self.asked.append("begin")

    def produce(self, topic: str, *, value: bytes, key: bytes, partition: int, on_delivery: Any) -> None:
        offset = len(self.log) + len(self.records)
        self.records.append((key.decode(), json.loads(value)))
        if on_delivery is not None:
            on_delivery(None, SimpleNamespace(offset=lambda: offset))

    def commit_transaction(self, timeout: float) -> None:
        if self.failing:
            self.failing -= 1
            raise KafkaException(
                KafkaError(KafkaError.NOT_COORDINATOR, "moved", retriable=False, txn_requires_abort=True)
            )
        self.asked.append("commit")
        self.log += self.records
        self.records = []

    def abort_transaction(self, timeout: float) -> None:
        self.asked.append("abort")
        self.records = []


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """That a store finds instead of a real one."""
    producer = Producer([])
    monkeypatch.setattr(state_topic, "Producer", lambda *_: producer)
    monkeypatch.setattr(state_topic, "read_state", lambda *_: dict(producer.log))
    monkeypatch.setattr("mirror_ray.kafka.state_topic.time.sleep", lambda _: None)
    return producer


def opened(monkeypatch: pytest.MonkeyPatch, policy: str | None = None) -> StateStore:
    """A store whose topic is there already where a ``policy`` is told."""
    configs = {"cleanup.policy": SimpleNamespace(value=policy)}
    editor = SimpleNamespace(
        ensure_compacted_topic=lambda *_: policy is None,
        try_describe_topic_configs=lambda topics: dict.fromkeys(topics, configs),
        cluster=SimpleNamespace(alias="B"),
    )
    monkeypatch.setattr(state_topic, "ClusterEditor", lambda *_: editor)
    store = StateStore(CLUSTER, "state", "id", UNRECORDED)
    store.open()
    return store


def test_a_write_returns_the_offset_of_its_first_record(monkeypatch: pytest.MonkeyPatch, producer: Producer) -> None:
    """Who reads from there on misses none of them."""
    store = opened(monkeypatch)
    first = len(producer.log)
    assert store.write({"a": {}, "b": {}, "c": {}}) == first
    assert [key for key, _ in producer.log[first:]] == ["a", "b", "c"]


def test_a_transaction_that_broke_off_is_ended_before_the_next(
    monkeypatch: pytest.MonkeyPatch, producer: Producer
) -> None:
    """What it had written is in the topic once."""
    store = opened(monkeypatch)
    producer.failing = 1
    producer.asked.clear()
    store.write({"a": {}})
    assert producer.asked == ["begin", "abort", "begin", "commit"]
    assert [key for key, _ in producer.log].count("a") == 1


def test_who_was_fenced_asks_nobody_any_more(monkeypatch: pytest.MonkeyPatch, producer: Producer) -> None:
    """Until it is opened again: what it knows is old, whatever the topic says by then."""
    store = opened(monkeypatch)
    store.close()
    producer.log.append(("owner", {"session": "another"}))
    with pytest.raises(StateFencedError):
        store.write({"a": {}})
    producer.log.append(("owner", {"session": store._owner}))
    with pytest.raises(StateFencedError):
        store.write({"a": {}})
    store.open()
    store.write({"a": {}})


@pytest.mark.parametrize(("policy", "good"), [(None, True), ("compact", True), ("delete", False)])
def test_a_topic_that_forgets_is_none(
    monkeypatch: pytest.MonkeyPatch, producer: Producer, policy: str | None, good: bool
) -> None:
    """What is forgotten may be copied twice."""
    if good:
        opened(monkeypatch, policy)
    else:
        with pytest.raises(MirrorError, match="lost with time"):
            opened(monkeypatch, policy)


def test_flow_routes_and_backfills_do_not_fence_each_other() -> None:
    """Each has a coordinator of its own; two systems of one flow share its id."""
    flow = FlowName("A", "B")
    names = [flow, FlowName("A", "B", backfill="x"), FlowName("A", "B", route="x"), FlowName("B", "A")]
    assert len({transactional_id(name) for name in names}) == 4
    assert transactional_id(FlowName("A", "B")) == transactional_id(flow)


def test_a_value_that_is_no_document_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its offset."""
    records = {b"a": DecodedRecord(0, 0, record_tail(b"a", b'{"n": 2}'))}
    monkeypatch.setattr(state_topic, "latest_records", lambda *_, **__: records)
    assert read_state(CLUSTER, "state") == {"a": {"n": 2}}
    records[b"b"] = DecodedRecord(7, 0, record_tail(b"b", b"?"))
    with pytest.raises(MirrorError, match="offset 7: not written by mirror-ray"):
        read_state(CLUSTER, "state")
