"""What ten million holes in one partition cost: a marker behind every record, as small transactions leave.

::

    make bench-holes
    .venv/bin/python -m mirror_ray.lab.benchmarks.holes [--holes 10000000] [--told 10000]

No transaction is produced: what a replicator would say of them is put into the real segments topic of a broker on this
machine, ``--told`` holes at a time, as in a second each, and followed by the map as the checkpoint actor follows it,
which also deletes what is superfluous. Then the topic is compacted and the map is built anew, as at a restart. Offsets
all over the partition are looked up in both; where a map has to walk, the source is a stub that has its batch headers,
so that the time is our own part of it. Every place is compared with the one that is known.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.assignment import Assignment
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import FlowName, FlowPartition, TopicId, TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.offsets.gap_scan import GapReader
from mirror_ray.offsets.map import ExactOffset, PartitionOffsetMap, SegmentGap, SegmentMap
from mirror_ray.offsets.translation import MapAnswer, answer_from
from mirror_ray.offsets.translator import OffsetMapTailer, Translator
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.replication.segment_log import SegmentLog
from tests.support.kafka import alter_topic, create_topic
from tests.support.waiting import wait_until_async

SOURCE = TopicPartition("transactions", 0)
TOPIC = segments_topic("A")
#: One record and its marker.
STEP = 2
SAMPLES, WALKS = 2_000, 25
FETCHED_BATCHES = 5_000
PATIENCE_S = 300.0
CLEANED_AT_ONCE = {
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "200",
    "delete.retention.ms": "0",
}


def new_log() -> SegmentLog:
    """Of a replicator that copies the partition from its beginning."""
    log = SegmentLog(
        Assignment(
            partition=FlowPartition(FlowName("A", "B"), *SOURCE),
            source_topic_id=TopicId("s"),
            target=TopicPartition("A.transactions", 0),
            target_topic_id=TopicId("t"),
            producer_id=1,
            producer_epoch=0,
            anchor=OffsetPair(0, 0),
            epoch=1,
            max_message_bytes=1 << 20,
        )
    )
    log.begin(OffsetPair(0, 0))
    return log


def line(title: str, figure: str) -> None:
    """Print one figure."""
    print(f"  {title:<58}{figure:>22}", flush=True)


@asynccontextmanager
async def followed(cluster: ClusterConnections) -> AsyncIterator[OffsetMapTailer]:
    """The map, as a checkpoint actor holds it, read to the topic's end."""
    following = OffsetMapTailer("A", cluster, cluster, read_committed=True, on_problem=print)
    try:
        await following.ready.wait()
        yield following
    finally:
        await following.close()


def page_of(following: OffsetMapTailer) -> PartitionOffsetMap:
    """What is known of the partition."""
    page = following.store.find(SOURCE)
    if page is None:
        raise SystemExit("nothing of the partition was told")
    return page


async def tell(
    cluster: ClusterConnections, following: OffsetMapTailer, options: argparse.Namespace
) -> tuple[float, int]:
    """Say everything, and delete what becomes superfluous; returns our CPU seconds, and bytes of values."""
    writer, log, size = InternalTopicWriter(cluster, TOPIC), new_log(), 0
    began_s = time.process_time()
    for number in range(options.holes):
        log.add([(STEP * number, 1)], number, number % SEQUENCE_MODULUS)
        if number % options.told == options.told - 1 or number == options.holes - 1:
            blocks = [(encode_key(block.key), encode_value(block)) for block in log.take(STEP * number + STEP)]
            size += sum(len(key) + len(value) for key, value in blocks)
            await writer.append([KeyedRecord(*each) for each in blocks])
            await following.delete_obsolete()
    end = STEP * options.holes

    async def heard() -> bool:
        page = following.store.find(SOURCE)
        return page is not None and page.segments.head.source == end

    await wait_until_async(heard, PATIENCE_S, "all was heard")
    await following.delete_obsolete()
    return time.process_time() - began_s, size


def map_bytes(page: PartitionOffsetMap) -> int:
    """Of its four columns of 64 bits, and of the blocks' keys."""
    keys = sys.getsizeof(page.blocks) + sum(sys.getsizeof(key) + sys.getsizeof(key.first) for key in page.blocks)
    return 4 * 8 * len(page.segments) + keys


def log_bytes(brokers: DevCluster) -> int:
    """Of the topic on the broker's disk, indexes left out: they are preallocated."""
    files = (Path(brokers.brokers[0].directory) / "data" / f"{TOPIC}-0").glob("*.log")
    sizes = []
    for file in files:
        # Cleaned segments go while we look.
        with contextlib.suppress(FileNotFoundError):
            sizes.append(file.stat().st_size)
    return sum(sizes)


async def read_stub(_: TopicPartition, __: MapAnswer, gap: SegmentGap) -> SegmentMap | str:
    """Walk the source's batch headers, each with one record."""
    reader = GapReader(gap, read_committed=True)
    batch = encode([DecodedRecord(0, 1, record_tail(None, b"", ()))], "none")
    first = gap.after.source + gap.after.source % STEP
    for fetched in range(first, gap.before.source, STEP * FETCHED_BATCHES):
        end = min(fetched + STEP * FETCHED_BATCHES, gap.before.source)
        reader.take([batch._replace(base_offset=offset) for offset in range(fetched, end, STEP)], ())
    return reader.finish()


async def look_up(title: str, page: PartitionOffsetMap, following: OffsetMapTailer, holes: int) -> None:
    """Offsets all over the partition, and the newest ones: which are known at once, and what the others cost."""
    print(f"{title}:", flush=True)
    line("segments, blocks in the topic", f"{len(page.segments):,}, {len(page.blocks):,}")
    line("memory", f"{map_bytes(page) / 1024:,.0f} KiB")
    newest = next(n for n in range(1, holes) if not _known(page, holes - n)) - 1
    line("newest records known without a walk", f"{newest:,}")
    dice, walks, longest_s, widest = random.Random(1), 0, 0.0, 0
    for number in (*(dice.randrange(holes) for _ in range(SAMPLES)), holes - 1, holes):
        # Each walk anew.
        translator = Translator(partial(answer_from, following.store), read_stub)
        place = page.segments.to_target(STEP * number)
        if isinstance(place, SegmentGap):
            # Enough of them are made to be sure.
            walks, widest = walks + 1, max(widest, place.before.source - place.after.source)
            if walks > WALKS:
                continue
        began_s = time.perf_counter()
        found = await translator.to_target(SOURCE, STEP * number)
        longest_s = max(longest_s, time.perf_counter() - began_s)
        if (found.offset, found.exact) != (number, True):
            raise SystemExit(f"offset {STEP * number} is {number} on the target, and was said to be {found}")
    line(f"of {SAMPLES:,} offsets anywhere, to be found by a walk", f"{walks:,}")
    line("widest gap in source offsets, longest walk", f"{widest:,}, {longest_s:.2f} s")


def _known(page: PartitionOffsetMap, number: int) -> bool:
    return page.segments.to_target(STEP * number) == ExactOffset(number)


async def measure(brokers: DevCluster, options: argparse.Namespace) -> None:
    """All figures."""
    config = brokers.confluent_config()
    create_topic(config, TOPIC, topic_config={"cleanup.policy": "compact", "segment.bytes": str(16 << 20)})
    cluster = ClusterConnections(ClusterSettings(alias="B", bootstrap_servers=(brokers.bootstrap,)), "benchmark")
    try:
        print(f"{options.holes:,} holes, told {options.told:,} at a time:", flush=True)
        async with followed(cluster) as following:
            cpu_s, size = await tell(cluster, following, options)
            line("our CPU to tell and to follow, for each hole", f"{cpu_s / options.holes * 1e6:.1f} us")
            line("told, before compression", f"{size / 2**20:,.0f} MiB")
            await look_up("the map that followed", page_of(following), following, options.holes)
        alter_topic(config, TOPIC, CLEANED_AT_ONCE)
        line("the topic on disk, before it is compacted", f"{log_bytes(brokers) / 2**20:,.1f} MiB")
        await compacted(cluster, brokers)
        line("the topic on disk, compacted", f"{log_bytes(brokers) / 2**20:,.1f} MiB")
        began_s = time.perf_counter()
        async with followed(cluster) as following:
            rebuilt_s = time.perf_counter() - began_s
            await look_up("the map that was built anew", page_of(following), following, options.holes)
            line("to build it", f"{rebuilt_s:.2f} s")
    finally:
        await cluster.close()


async def compacted(cluster: ClusterConnections, brokers: DevCluster) -> None:
    """Until the topic has shrunk, and shrinks no more."""
    writer, before, sizes = InternalTopicWriter(cluster, TOPIC), log_bytes(brokers), [0]
    deadline = time.monotonic() + PATIENCE_S
    while len(set(sizes[-3:])) > 1 or not 0 < sizes[-1] < before // 2:
        if time.monotonic() > deadline:
            raise SystemExit(f"the topic was not compacted: {before:,} bytes, and now {log_bytes(brokers):,}")
        # A segment is rolled when something comes after its time.
        await writer.append([KeyedRecord(b"nobody", None)])
        await asyncio.sleep(1.0)
        sizes.append(log_bytes(brokers) >> 14 << 14)


async def main() -> None:
    """Start a broker, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--holes", type=int, default=10_000_000)
    parser.add_argument("--told", type=int, default=10_000, help="holes that are told at a time")
    options = parser.parse_args()
    with DevCluster("holes", server_properties={"log.cleaner.backoff.ms": "100"}) as brokers:
        await measure(brokers, options)


if __name__ == "__main__":
    asyncio.run(main())
