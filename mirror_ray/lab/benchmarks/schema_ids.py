"""What translating schema ids costs one core, against merging the same batches: microseconds a record.

::

    make bench-schema-ids
    .venv/bin/python -m mirror_ray.lab.benchmarks.schema_ids [--seconds 1] [--rounds 7] [--headers]

No broker and no network: from a fetched answer of a partition to the batches that are produced, checksums included.
Both ways have batches of all sizes merged, in turns in one process; what is shown is the median of several rounds, in
processor time of this process, and the median of the rounds' ratios. The goal is 1.5 at most.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from typing import Final
from unittest import mock

from mirror_ray.lab.benchmarks.harness import parse_arguments, show
from mirror_ray.lab.benchmarks.transform import COLLECT_AFTER_OBJECTS, value
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import CODECS, Codec
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode
from mirror_ray.records.schema_id_records import IdTranslation
from mirror_ray.replication import merge_rules
from mirror_ray.replication.merge_rules import LARGEST_REPACKED_BYTES
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.target_log import TargetLog
from mirror_ray.transforms.chain import TransformChain
from mirror_ray.transforms.schema_ids import IDENTITY, SchemaIdMap, TopicSchemaIds
from tests.support.factories import assignment, establish, replication

SOURCE: Final = TopicPartition("orders", 0)
ASSIGNMENT: Final = assignment(*SOURCE)
#: Records of a batch, bytes of a value, codec.
KINDS: Final[tuple[tuple[int, int, Codec], ...]] = (
    (1, 100, "none"),
    (10, 100, "none"),
    (10, 100, "lz4"),
    (10, 1000, "none"),
    (100, 100, "zstd"),
    (100, 1000, "lz4"),
    (200, 1000, "zstd"),
)
#: Of a partition in one fetch.
ANSWER_BYTES: Final = 1 << 20
#: Versions of a topic's schema, one after the other in its records.
SCHEMAS: Final = 3


def answer(records: int, size: int, codec: Codec, *, headers: bool) -> tuple[bytes, int]:
    """Batches of a partition, whose values or headers have ids; and how many records they have."""
    dice = random.Random(1)
    contents = [value(number, size, dice) for number in range(records)]
    found, offset, size_bytes = [], 0, 0
    while size_bytes < ANSWER_BYTES:
        decoded = []
        for content in contents:
            number = b"\x00" + (1 + offset % SCHEMAS).to_bytes(4, "big")
            fields = (content, ((b"__value_schema_id", number),)) if headers else (number + content, ())
            decoded.append(DecodedRecord(offset, 1000 + offset, record_tail(b"key-%d" % offset, *fields)))
            offset += 1
        batch = bytearray(encode(decoded, codec).view)
        batch[:8] = decoded[0].offset.to_bytes(8, "big")
        found.append(bytes(batch))
        size_bytes += len(batch)
    return b"".join(found), offset


def copied(data: bytes, *, translated: bool) -> int:
    """Have one partition take an answer; returns how many batches are to be sent."""
    copy = replication(ASSIGNMENT, merge=True)
    if translated:
        known = SchemaIdMap(IdTranslation(number, 100 + number) for number in range(1, SCHEMAS + 1))
        chain = TransformChain((), IDENTITY, "", TopicSchemaIds(known, SOURCE.topic, framed=True))
        copy.transforms = PartitionTransforms(chain, SOURCE)
    establish(copy, TargetLog(end=0))
    copy.process(copy.received(memoryview(bytearray(data))), ())
    return len(copy.pipeline.ready)


def costs_us(data: bytes, records: int, seconds: float) -> tuple[float, float]:
    """Microseconds of processor time a record, merged and translated: call by call, so that memory is the same."""
    spent_s, count, until_s = [0.0, 0.0], 0, time.process_time() + seconds
    while time.process_time() < until_s:
        for way in (False, True):
            begun_s = time.process_time()
            copied(data, translated=way)
            spent_s[way] += time.process_time() - begun_s
        count += 1
    merged, translated = (spent / count / records * 1e6 for spent in spent_s)
    return merged, translated


def main() -> None:
    options = parse_arguments(
        __doc__,
        seconds=(1.0, "for each figure"),
        rounds=(7, "of which the median is shown"),
        headers=(False, "ids are in headers, not before the values"),
    )
    gc.set_threshold(COLLECT_AFTER_OBJECTS)
    show("records in a batch, codec", "merged", "translated", "ratio", "batches")
    bounds = dict.fromkeys(CODECS, LARGEST_REPACKED_BYTES)
    with mock.patch.object(merge_rules, "LARGEST_SMALL_BYTES", bounds):
        for records, size, codec in KINDS:
            data, count = answer(records, size, codec, headers=options.headers)
            sent = [copied(data, translated=translated) for translated in (False, True)]
            costs = [costs_us(data, count, options.seconds / options.rounds) for _ in range(options.rounds)]
            merged, translated = (statistics.median(cost) for cost in zip(*costs, strict=True))
            ratio = statistics.median(way[1] / way[0] for way in costs)
            show(
                f"{records} x {size} B, {codec}",
                f"{merged:.3f} us",
                f"{translated:.3f} us",
                f"{ratio:.2f}",
                f"{sent[0]}, {sent[1]}",
            )


if __name__ == "__main__":
    main()
