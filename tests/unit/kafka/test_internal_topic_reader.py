"""Reading an internal topic to its end: what is committed, how long a cluster may leave it unanswered, what is left."""

from __future__ import annotations

import pytest

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka import internal_topic_reader, retries
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader, keep_latest, latest_records
from mirror_ray.kafka.leader_requests import OffsetAnswer
from mirror_ray.model.errors import (
    AccessDeniedError,
    ClusterUnreachableError,
    KafkaProtocolError,
    NoAnswerError,
    TopicMissingError,
)
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.decode import DecodedRecord, record_tail
from tests.unit.kafka.log_broker import LogBroker
from tests.unit.records.strategies import Plain, batch_bytes

CLUSTER = ClusterSettings(alias="B", bootstrap_servers=("localhost:9092",))
_NOT_AUTHORIZED, _NOT_LEADER = 29, 6
_SOON_S = 0.05


async def _to_end(log: LogBroker, patience_s: float = 30.0) -> list[int]:
    """The offsets that a new reader reads."""
    reader = InternalTopicReader(log.as_cluster(), "t", read_committed=True)
    return [record.offset async for chunk in reader.to_end(patience_s) for record in chunk.records]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> LogBroker:
    """Of three records; what fails is tried again at once."""
    monkeypatch.setattr(retries, "_RETRY_S", 0.001)
    monkeypatch.setattr(internal_topic_reader, "_RETRY_S", 0.001)
    log = LogBroker("t")
    log.append([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    return log


async def test_the_end_is_the_last_stable_offset(log: LogBroker) -> None:
    """What lies behind it is of an open transaction, and nobody waits for its end."""
    log.last_stable_offset = 2
    assert await _to_end(log) == [0, 1]
    log.last_stable_offset = None
    assert await _to_end(log) == [0, 1, 2]


async def test_markers_and_aborted_records_are_none(log: LogBroker) -> None:
    """The transaction of producer 7 was aborted, the one of producer 8 was committed."""
    log.aborted = [(7, 3)]
    transactional, marker = 0x10, 0x30
    for offset, producer_id, attributes in (
        (3, 7, transactional),
        (4, 8, transactional),
        (5, 7, marker),
        (6, 8, marker),
    ):
        kind = b"\0\0\0" + (b"\0" if producer_id == 7 else b"\1")
        record = Plain(offset=offset, timestamp=0, key=kind if attributes == marker else b"k")
        producer = (producer_id, 0, -1)
        log.append_batch(batch_bytes([record], base_offset=offset, attributes=attributes, producer=producer))
    assert await _to_end(log) == [0, 1, 2, 4]


async def test_records_before_the_start_are_passed_over(log: LogBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker answers with the whole batch that holds the offset."""

    async def second(*_: object) -> dict[TopicPartition, OffsetAnswer]:
        return {log.partition: OffsetAnswer(1, 0)}

    monkeypatch.setattr(log, "list_offsets", second)
    whole = batch_bytes([Plain(offset=offset, timestamp=offset, key=b"k") for offset in range(3)])
    log.log, log.most = [(log.epoch, bytes(whole))] * 3, 1
    reader = InternalTopicReader(log.as_cluster(), "t", from_ms=1)
    assert [record.offset async for chunk in reader.to_end(30.0) for record in chunk.records] == [1, 2]


async def test_a_topic_that_is_created_anew_meanwhile_is_read_from_its_start(
    log: LogBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before counts for nothing."""
    monkeypatch.setattr(internal_topic_reader, "ClusterConnections", lambda *_: log.as_cluster())

    def recreate() -> None:
        log.create_anew(epoch=0)
        log.append([(b"d", b"2")])

    log.most, log.meanwhile = 1, recreate
    assert latest_records(CLUSTER, "t", patience_s=30.0).keys() == {b"d"}


async def test_what_came_before_a_refusal_is_handed_out_first(log: LogBroker) -> None:
    """Then the refusal is raised at once, whatever patience is left."""
    log.most = 1
    reader = InternalTopicReader(log.as_cluster(), "t")
    chunks = reader.to_end(30.0)
    assert [record.offset for record in (await anext(chunks)).records] == [0]
    log.refusal = _NOT_AUTHORIZED
    with pytest.raises(KafkaProtocolError, match="TOPIC_AUTHORIZATION_FAILED"):
        await anext(chunks)
    log.refusal = 0
    assert [record.offset async for chunk in reader.to_end(30.0) for record in chunk.records] == [1, 2]


async def test_an_error_that_passes_is_waited_for(log: LogBroker) -> None:
    """As long as patience lasts; then it is raised."""
    log.refusal, log.refusals = _NOT_LEADER, 3
    assert await _to_end(log) == [0, 1, 2]
    log.refusal, log.refusals = _NOT_LEADER, 1 << 20
    with pytest.raises(KafkaProtocolError, match="NOT_LEADER_OR_FOLLOWER"):
        await _to_end(log, _SOON_S)


@pytest.mark.parametrize("error", [ConnectionError("B:1: closed"), TimeoutError()])
async def test_a_cluster_that_does_not_answer_is_named(
    log: LogBroker, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """With what to look at; one that refuses us is not asked again."""

    async def refresh(_: object) -> None:
        raise error

    monkeypatch.setattr(log, "refresh", refresh)
    with pytest.raises(ClusterUnreachableError, match=r"cluster B did not answer \(read topic t: .*B\.bootstrap"):
        await _to_end(log, _SOON_S)
    error = AccessDeniedError("not let in")  # type: ignore[assignment]
    with pytest.raises(AccessDeniedError):
        await _to_end(log)


async def test_a_cluster_without_a_broker_in_service_is_named(log: LogBroker) -> None:
    """One answers, and says that none is."""
    log.cluster_id = "id"
    log.refusal, log.refusals = _NOT_LEADER, 1 << 20
    with pytest.raises(ClusterUnreachableError, match=r"cluster B .* has no broker in service"):
        await _to_end(log, _SOON_S)


async def test_a_missing_topic_is_named(log: LogBroker) -> None:
    """Once it had time to become known."""
    log.exists = False
    with pytest.raises(TopicMissingError, match="cluster B has no topic t: check"):
        await _to_end(log, _SOON_S)


async def test_a_time_limit_that_is_over_is_said(log: LogBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read by then is not all, so none of it is given; also from a thread with a running event loop."""
    monkeypatch.setattr(internal_topic_reader, "ClusterConnections", lambda *_: log.as_cluster())
    assert latest_records(CLUSTER, "t", patience_s=30.0).keys() == {b"a", b"b", b"c"}
    with pytest.raises(NoAnswerError, match="read up to offset 0: allow a longer timeout"):
        latest_records(CLUSTER, "t", patience_s=30.0, time_limit_s=-1.0)


def test_the_latest_record_of_each_key() -> None:
    """A tombstone deletes its key, a later value brings it back, and a record without a key is none."""
    kept = DecodedRecord(4, 0, record_tail(b"a", b"2", [(b"h", b"1")]))
    again = DecodedRecord(6, 0, record_tail(b"b", b"3"))
    latest: dict[bytes, DecodedRecord] = {}
    keep_latest(latest, [_record(0, b"a", b"1"), _record(1, b"b", b"1"), _record(1, b"d", b"1")])
    keep_latest(latest, [_record(2, None, b"1"), _record(3, b"b", None), kept, _record(5, b"c", None)])
    keep_latest(latest, [_record(5, b"d", None), again])
    assert latest == {b"a": kept, b"b": again}


def _record(offset: int, key: bytes | None, value: bytes | None) -> DecodedRecord:
    return DecodedRecord(offset, 0, record_tail(key, value))
