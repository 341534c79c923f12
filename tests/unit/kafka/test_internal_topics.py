"""What a reader makes of what its client says, what is left of a compacted topic, calls that are made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import internal_topics
from mirror_ray.kafka.internal_topics import BlockingTopicReader, CommittedInternalRecord, latest
from mirror_ray.kafka.librdkafka import AdminError, kafka_error, until_answered

CLUSTER = ClusterSettings(alias="B", bootstrap_servers=("localhost:9092",))


class Said:
    """A message of the client: a record without key and value, or an error."""

    def __init__(self, offset: int, error: int | None = None) -> None:
        self._offset = offset
        self._error = None if error is None else KafkaError(error)

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def key(self) -> None: ...

    def value(self) -> None: ...

    def headers(self) -> None: ...


class Scripted:
    """A client of a topic that ends at 3, which says these things."""

    def __init__(self, *batches: Sequence[Said]) -> None:
        self._batches = list(batches)
        self._rest: Sequence[Said] = ()

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(brokers={1: "localhost:9092"}, topics={topic: SimpleNamespace(error=None)})

    def get_watermark_offsets(self, partition: object, timeout: float) -> tuple[int, int]:
        return 0, 3

    def assign(self, partitions: object) -> None: ...

    def poll(self, timeout_s: float) -> Said | None:
        first, *self._rest = self._batches.pop(0)
        return first

    def consume(self, most: int, timeout_s: float) -> Sequence[Said]:
        return self._rest


def reading(monkeypatch: pytest.MonkeyPatch, *batches: Sequence[Said]) -> BlockingTopicReader:
    """A reader whose client says these things."""

    def scripted(config: Mapping[str, object]) -> Scripted:
        return Scripted(*batches)

    monkeypatch.setattr(internal_topics, "Consumer", scripted)
    return BlockingTopicReader(CLUSTER, "t")


def test_what_came_before_a_refusal_is_handed_out_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the refusal is raised, once more where it is asked again, until something comes."""
    refused = Said(-1, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    reader = reading(monkeypatch, [Said(0), refused], [refused], [Said(1), Said(2)])
    batches = reader.to_end()
    assert [record.offset for record in next(batches)] == [0]
    with pytest.raises(AdminError, match=r"read topic t.*grant our principal"):
        next(batches)
    assert [[record.offset for record in batch] for batch in reader.to_end()] == [[1, 2]]


def test_an_end_ends_reading_and_a_lower_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end may lie behind markers of transactions; a new leader may say a lower one for a moment."""
    ends = [Said(offset, KafkaError._PARTITION_EOF) for offset in (1, 3)]
    reader = reading(monkeypatch, [Said(0), ends[0]], [ends[1]])
    assert [[record.offset for record in batch] for batch in reader.to_end()] == [[0]]


def test_the_group_that_is_never_joined_needs_no_right(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client looks for its coordinator all the same; other trouble is logged."""
    group, leader = Said(-1, KafkaError.GROUP_AUTHORIZATION_FAILED), Said(-1, KafkaError.NOT_LEADER_FOR_PARTITION)
    reader = reading(monkeypatch, [group], [leader], [Said(0), Said(1), Said(2)])
    assert sum(map(len, reader.to_end())) == 3
    assert len(caplog.records) == 1
    assert caplog.records[0].message.startswith("cluster B: topic t: ")


def test_the_latest_record_of_each_key() -> None:
    """A tombstone deletes its key, a later value brings it back, and a record without a key is none."""
    kept = CommittedInternalRecord(4, b"a", b"2", [("h", b"1")])
    again = CommittedInternalRecord(6, b"b", b"3")
    batches = [
        [CommittedInternalRecord(0, b"a", b"1"), CommittedInternalRecord(1, b"b", b"1")],
        [
            CommittedInternalRecord(2, None, b"1"),
            CommittedInternalRecord(3, b"b", None),
            kept,
            CommittedInternalRecord(5, b"c", None),
        ],
        [again],
    ]
    assert latest(batches) == {b"a": kept, b"b": again}
    assert latest([]) == {}


def failing(*codes: int) -> list[float]:
    """Call something that fails so and then succeeds; the timeouts that it was given."""
    timeouts: list[float] = []
    left = list(codes)

    def call(timeout_s: float) -> list[float]:
        timeouts.append(timeout_s)
        if left:
            raise KafkaException(KafkaError(left.pop(0)))
        return timeouts

    return until_answered(call, 30)


def test_a_call_is_made_again_while_brokers_cannot_answer() -> None:
    """Until it succeeds, with some seconds for each try."""
    timeouts = failing(KafkaError._TIMED_OUT, KafkaError.LEADER_NOT_AVAILABLE)
    assert len(timeouts) == 3
    assert all(0 < each <= 5 for each in timeouts)


def test_a_failure_that_will_not_pass_is_raised_at_once() -> None:
    """A right that is missing stays missing."""
    with pytest.raises(KafkaException) as failure:
        failing(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    error = kafka_error(failure.value)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_patience_ends() -> None:
    """The last failure is raised."""

    def call(timeout_s: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    with pytest.raises(KafkaException):
        until_answered(call, 0.1)
