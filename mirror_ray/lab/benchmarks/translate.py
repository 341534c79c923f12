"""What `translate --all --spark` takes for very many rows: positions joined with the segments that they lie in.

::

    .venv/bin/python -m mirror_ray.lab.benchmarks.translate [--rows 100000] [--segments 5000000] [--partitions 100]

No broker is needed: the records that a segments topic would hold are made up and read from Parquet, a hole behind every
third record; every place is checked. Spark runs in a Ray of its own, with one executor of one core and a heap of 1 GB
unless told otherwise. Memory is the resident set of the executor's processes at its highest, seen ten times a second.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from mirror_ray.cli.launch import some_ray
from mirror_ray.config.settings import SparkSettings
from mirror_ray.model.names import TopicId, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.spark.session import spark_session
from mirror_ray.spark.translation import ASKED, answered, blocks_of

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


def place(position: int) -> int:
    """Where a source position is on the target."""
    return LENGTH * (position // STEP) + min(position % STEP, LENGTH)


class Used:
    """Memory and processor time of Spark's processes."""

    def __init__(self) -> None:
        self.jvm_bytes = self.python_bytes = 0
        self._cpu_s: dict[int, float] = {}
        self._before_s: dict[int, float] | None = None

    @property
    def cpu_s(self) -> float:
        """Since the first look."""
        return sum(self._cpu_s.values()) - sum((self._before_s or {}).values())

    def look(self) -> None:
        """Now."""
        python_bytes = 0
        for process in psutil.Process().children(recursive=True):
            try:
                is_python = "pyspark.daemon" in " ".join(process.cmdline())
                if is_python or process.name() == "java":
                    times, size = process.cpu_times(), process.memory_info().rss
                    self._cpu_s[process.pid] = times.user + times.system
                    python_bytes += size if is_python else 0
                    self.jvm_bytes = max(self.jvm_bytes, 0 if is_python else size)
            except psutil.Error:
                continue
        self.python_bytes = max(self.python_bytes, python_bytes)
        self._before_s = self._before_s if self._before_s is not None else dict(self._cpu_s)


@contextmanager
def watched() -> Iterator[Used]:
    """Look again and again meanwhile."""
    used, over = Used(), threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            used.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield used
    finally:
        over.set()
        thread.join()


def main() -> None:
    """Make them up, translate, check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--segments", type=int, default=5_000_000, help="of all partitions together")
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--memory", default="1g", help="heap of the executor")
    options = parser.parse_args()
    each = options.segments // options.partitions
    dice = random.Random(1)
    asked = [(False, "orders", n % options.partitions, dice.randrange(STEP * each - 1)) for n in range(options.rows)]
    settings = SparkSettings(executor_memory=options.memory)
    with tempfile.TemporaryDirectory() as directory:
        for partition in range(options.partitions):
            table = pa.Table.from_pylist(list(blocks(partition, each)), schema=SCHEMA)
            pq.write_table(table, Path(directory) / f"{partition}.parquet")
        size = sum(path.stat().st_size for path in Path(directory).iterdir())
        print(
            f"{options.segments:,} segments of {options.partitions} partitions, {size / 1e6:.0f} MB as Parquet",
            flush=True,
        )
        with some_ray("benchmark-translate", None):
            began_s = time.monotonic()
            with spark_session("benchmark", settings, print) as spark:
                print(f"  Spark starts in                  {time.monotonic() - began_s:6.1f} s", flush=True)
                began_s = time.monotonic()
                with watched() as used:
                    records = spark.read.parquet(directory)
                    found = answered(blocks_of(records, back=False), spark.createDataFrame(asked, ASKED)).collect()
                took_s = time.monotonic() - began_s
    if len(found) != len(asked) or any(row["offset"] != place(row["position"]) or not row["exact"] for row in found):
        raise SystemExit("a place is wrong, or missing")
    print(f"  {options.rows:,} positions translated in  {took_s:6.1f} s, all of them exact and right")
    print(f"  CPU of all of Spark's processes  {used.cpu_s:6.1f} s")
    print(f"  largest JVM {used.jvm_bytes / 1e6:,.0f} MB, Spark's Python workers {used.python_bytes / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
