"""Produce requests as a broker reads them, and its answers as it writes them, by kio's schemas instead of our codec."""

from __future__ import annotations

import datetime as dt
import functools
import io
import uuid
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from mirror_ray.kafka import produce
from tests.model.broker import Answer

#: What a broker says of the record that it does not take.
RECORD_IS_REFUSED = "one of its records is not taken"


class Written(NamedTuple):
    """One partition's batch in a request; ``topic`` is the topic's id, or its name."""

    topic: bytes
    partition: int
    data: bytes


def read_request(version: int, body: bytes) -> tuple[int, list[Written]]:
    """``acks``, and the batches."""
    read = _reader(version)
    request, size = read(body, 0)
    assert size == len(body), "bytes behind a request"
    by_id = version >= produce.FIRST_TOPIC_ID_VERSION
    batches = [
        Written(topic.topic_id.bytes if by_id else topic.name.encode(), partition.index, partition.records)
        for topic in request.topic_data
        for partition in topic.partition_data
    ]
    assert len({partition[:2] for partition in batches}) == len(batches), (
        "a broker refuses a second batch of a partition"
    )
    return request.acks, batches


def write_answer(version: int, answers: Iterable[tuple[bytes, int, Answer]], throttle_ms: int) -> bytearray:
    """A response's body: each answer with its topic and partition."""
    write, schema = _writer(version)
    topics: dict[bytes, list[Any]] = {}
    for topic, partition, answer in answers:
        topics.setdefault(topic, []).append(_partition(schema, partition, answer))
    by_id = version >= produce.FIRST_TOPIC_ID_VERSION
    response = schema.ProduceResponse(
        responses=tuple(
            schema.TopicProduceResponse(
                partition_responses=tuple(partitions),
                **({"topic_id": uuid.UUID(bytes=topic)} if by_id else {"name": topic.decode()}),
            )
            for topic, partitions in topics.items()
        ),
        throttle_time=dt.timedelta(milliseconds=throttle_ms),
    )
    body = io.BytesIO()
    write(body, response)
    return bytearray(body.getvalue())


def _partition(schema: ModuleType, partition: int, answer: Answer) -> Any:
    error = ErrorCode[answer.error.lower()] if answer.error else ErrorCode.none
    of_record = error is ErrorCode.invalid_record
    wrong = schema.BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message=RECORD_IS_REFUSED)
    return schema.PartitionProduceResponse(
        index=partition,
        error_code=error,
        base_offset=answer.offset,
        record_errors=(wrong,) if of_record else (),
        error_message=None if error is ErrorCode.none or of_record else "not now",
    )


@functools.cache
def _reader(version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(load_payload_module(produce.API_KEY, version, EntityType.request).ProduceRequest)


@functools.cache
def _writer(version: int) -> tuple[Callable[[io.BytesIO, Any], None], ModuleType]:
    schema = load_payload_module(produce.API_KEY, version, EntityType.response)
    return entity_writer(schema.ProduceResponse), schema
