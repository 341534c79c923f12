"""What `translate --all --spark` takes for very many rows: offsets joined with the segments that hold them.

::

    make bench-translate
    .venv/bin/python -m mirror_ray.lab.benchmarks.translate [--rows 100000] [--segments 5000000]
        [--partitions 100]

No broker is needed: the records of a segments topic are generated and read from Parquet, with an offset gap after every
third record; every translated offset is checked. Spark runs in a Ray of its own, with one executor of one core and, by
default, a heap of 1 GB. Memory is the peak resident set of the executor's processes, sampled ten times a second.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mirror_ray.config.settings import SparkSettings
from mirror_ray.lab.benchmarks.harness import elapsed, parse_arguments, spark_meter
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.runtime import some_ray
from mirror_ray.spark.session import spark_session
from mirror_ray.spark.translation import QUERIES, answer_queries, blocks_of

#: Records of a segment, and source offsets from one to the next.
LENGTH, STEP = 3, 4
PER_BLOCK = 32
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("offset", pa.int64())])


def blocks(partition: int, segments: int) -> Iterator[dict[str, object]]:
    """The records of one partition's blocks."""
    for first in range(0, segments, PER_BLOCK):
        numbers = range(first, min(first + PER_BLOCK, segments))
        block = SegmentBlock(
            source=TopicPartition("orders", partition),
            source_topic_id=TopicId("source"),
            target_topic_id=TopicId("target"),
            epoch=1,
            segments=tuple(Segment(STEP * n, LENGTH * n, LENGTH, LENGTH * n) for n in numbers),
            source_next=STEP * numbers[-1] + LENGTH,
        )
        yield {"key": encode_key(block.key), "value": encode_value(block), "offset": first}


def expected(offset: int) -> int:
    """The translated offset of a source offset."""
    return LENGTH * (offset // STEP) + min(offset % STEP, LENGTH)


def main() -> None:
    options = parse_arguments(
        __doc__,
        rows=(100_000, "offsets to translate"),
        segments=(5_000_000, "of all partitions together"),
        partitions=(100, "of the topic"),
        memory=("1g", "heap of the executor"),
    )
    per_partition = options.segments // options.partitions
    dice = random.Random(1)
    asked = [
        (False, "orders", n % options.partitions, dice.randrange(STEP * per_partition - 1)) for n in range(options.rows)
    ]
    settings = SparkSettings(executor_memory=options.memory)
    with tempfile.TemporaryDirectory() as directory:
        for partition in range(options.partitions):
            table = pa.Table.from_pylist(list(blocks(partition, per_partition)), schema=SCHEMA)
            pq.write_table(table, Path(directory) / f"{partition}.parquet")
        size = sum(path.stat().st_size for path in Path(directory).iterdir())
        print(
            f"{options.segments:,} segments of {options.partitions} partitions, {size / 1e6:.0f} MB as Parquet",
            flush=True,
        )
        with some_ray("benchmark-translate", None), ExitStack() as stack:
            with elapsed() as start:
                spark = stack.enter_context(spark_session("benchmark", settings, print))
            print(f"  Spark starts in                  {start.seconds:6.1f} s", flush=True)
            with elapsed() as translating, spark_meter() as meter:
                records = spark.read.parquet(directory)
                found = answer_queries(blocks_of(records, back=False), spark.createDataFrame(asked, QUERIES)).collect()
    if len(found) != len(asked) or any(row["offset"] != expected(row["position"]) or not row["exact"] for row in found):
        raise SystemExit("a translated offset is wrong, or missing")
    print(f"  {options.rows:,} offsets translated in  {translating.seconds:8.1f} s, all of them exact and right")
    jvm_bytes, python_bytes = meter.usage["jvm"].peak_process_bytes, meter.usage["python"].peak_memory_bytes
    print(f"  CPU of all of Spark's processes  {meter.cpu_s:6.1f} s")
    print(f"  largest JVM {jvm_bytes / 1e6:,.0f} MB, Spark's Python workers {python_bytes / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
