"""A record that a transform failed on, as it is put into the dead letter topic.

The headers are those of Kafka Connect's dead letter queues (KIP-298), so that tools for these read them; values are
texts. The record's own timestamp is in a header of ours, for the topic's retention counts from when it failed.
"""

from __future__ import annotations

import traceback
from typing import Final

from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.transforms.chain import TransformFailure

_PREFIX: Final = "__connect.errors."
#: Of an exception's text and of its stack.
_TEXT_BYTES: Final = 8 << 10


def dead_letter(failure: TransformFailure, flow: FlowName, source: TopicPartition, now_ms: int) -> DecodedRecord:
    """The record, with its key, value and headers, behind headers that say where it is from and why it failed."""
    error = failure.error
    context = {
        "topic": source.topic,
        "partition": source.partition,
        "offset": failure.record.offset,
        "timestamp": failure.record.timestamp,
        "connector.name": flow,
        "task.id": source.partition,
        "stage": "TRANSFORMATION",
        "class.name": failure.step,
        "exception.class.name": type(error).__qualname__,
        "exception.message": error,
        "exception.stacktrace": "".join(traceback.format_exception(error)),
    }
    key, value, headers = failure.record.fields()
    added = tuple((f"{_PREFIX}{name}".encode(), _text(content)) for name, content in context.items())
    return DecodedRecord(0, now_ms, record_tail(key, value, headers + added))


def _text(value: object) -> bytes:
    return str(value).encode("utf-8", "replace")[:_TEXT_BYTES]
