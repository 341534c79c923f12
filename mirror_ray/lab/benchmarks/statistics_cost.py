"""What statistics cost a replicator: per batch, per interval and partition, and per sample of compression.

::

    make bench-tally
    .venv/bin/python -m mirror_ray.lab.benchmarks.statistics_cost [--batches 200000]

CPU time of this process, without brokers. ``engine.py`` measures what a whole copy costs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from mirror_ray.lab.benchmarks.harness import parse_arguments
from mirror_ray.model.names import TopicId
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.records.batch import CODECS
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode
from mirror_ray.replication.outgoing_batch import OutgoingBatch
from mirror_ray.replication.statistics import StatisticsTally, statistics_of
from mirror_ray.replication.statistics_publisher import now_ms
from tests.support.factories import assignment, outgoing_batch

MINUTE_MS = 60_000
RECORDS = 10
ASSIGNMENT = assignment("orders", source_topic_id=TopicId("s" * 22), target_topic_id=TopicId("t" * 22))


def outgoing(number: int) -> OutgoingBatch:
    return outgoing_batch(number * RECORDS, RECORDS, size_bytes=1000, max_timestamp=now_ms() - number % 500)


def new_tally() -> StatisticsTally:
    tally = StatisticsTally(MINUTE_MS, now_ms)
    tally.begin(OffsetPair(0, 0), restarted=False)
    return tally


def cpu_us(work: Callable[[], object], times: int) -> float:
    """CPU time of each of the ``times`` operations that ``work`` does."""
    began_s = time.process_time()
    work()
    return (time.process_time() - began_s) / times * 1e6


def count_cost_us(batches: list[OutgoingBatch], at_a_time: int) -> float:
    """The cost of counting a batch, with so many in each acknowledgement."""
    tally = new_tally()
    commits = [batches[at : at + at_a_time] for at in range(0, len(batches), at_a_time)]

    def count() -> None:
        for commit in commits:
            tally.acknowledged(commit)

    return cpu_us(count, len(batches))


def encode_cost_us(batches: list[OutgoingBatch], times: int) -> float:
    """The cost of encoding a record of the statistics topic."""
    tally = new_tally()
    tally.acknowledged(batches)
    interval = tally.take(ended=True)[-1]
    return cpu_us(lambda: [statistics_of(ASSIGNMENT, "replicator-0", interval).encode() for _ in range(times)], times)


def sample_cost_us(codec: str) -> tuple[int, float]:
    """Half a megabyte of words, compressed: its size, and the cost of measuring its compression."""
    words = [random.randbytes(4).hex().encode() for _ in range(1000)]
    tails = [record_tail(None, b" ".join(random.choices(words, k=110)), ()) for _ in range(500)]
    batch = encode([DecodedRecord(number, 0, tail) for number, tail in enumerate(tails)], codec)  # type: ignore[arg-type]
    return batch.size_bytes, cpu_us(lambda: new_tally().sample(batch), 1)


def main() -> None:
    options = parse_arguments(__doc__, batches=(200_000, "that are counted"))
    batches = [outgoing(number) for number in range(options.batches)]
    for at_a_time in (1, 10, 100):
        print(f"a batch, {at_a_time} with a commit: {count_cost_us(batches, at_a_time):.1f} us")
    print(f"a record of the topic: {encode_cost_us(batches, 10_000):.0f} us")
    for codec in CODECS[1:]:
        size, cost = sample_cost_us(codec)
        print(f"a sample, 500 records of 1 KB, {codec}, {size:,} bytes: {cost / 1000:.1f} ms")


if __name__ == "__main__":
    main()
