"""What ten million offset gaps in one partition cost: a marker after every record, as small transactions leave.

::

    make bench-holes
    .venv/bin/python -m mirror_ray.lab.benchmarks.offset_gaps [--holes 10000000] [--told 10000]

No transaction is produced: what a replicator would publish of them is written to the real segments topic of a broker on
this machine, ``--told`` gaps at a time, as many as a second has. The map of a checkpoint actor follows the topic, and
deletes obsolete blocks. Then the topic is compacted and the map is built again, as after a restart. Offsets all over
the partition are looked up in both; where a map has to scan, the source is a stub that has its batch headers, so that
the time is mirror-ray's own. Every translated offset is compared with the right one.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.lab.benchmarks.harness import connections, parse_arguments, show
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import create_topic
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import SEQUENCE_MODULUS, OffsetPair
from mirror_ray.offsets.gap_scan import GapReader
from mirror_ray.offsets.map import ExactOffset, PartitionOffsetMap, SegmentGap, SegmentMap
from mirror_ray.offsets.translation import MapAnswer, answer_from
from mirror_ray.offsets.translator import OffsetMapTailer, Translator
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.replication.segment_log import SegmentLog
from tests.support.factories import assignment
from tests.support.kafka import alter_topic
from tests.support.waiting import wait_until_async

SOURCE = TopicPartition("transactions", 0)
TOPIC = segments_topic("A")
#: One record and its marker.
STEP = 2
SAMPLES, SCANS = 2_000, 25
FETCHED_BATCHES = 5_000
PATIENCE_S = 300.0
CLEANED_AT_ONCE = {
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "200",
    "delete.retention.ms": "0",
}


@asynccontextmanager
async def followed_map(cluster: ClusterConnections) -> AsyncIterator[OffsetMapTailer]:
    """The offset map as a checkpoint actor has it, read to the topic's end."""
    tailer = OffsetMapTailer("A", cluster, cluster, read_committed=True, on_problem=print)
    try:
        await tailer.ready.wait()
        yield tailer
    finally:
        await tailer.close()


def map_of(tailer: OffsetMapTailer) -> PartitionOffsetMap:
    partition_map = tailer.store.find(SOURCE)
    if partition_map is None:
        raise SystemExit("nothing of the partition was published")
    return partition_map


async def publish(
    cluster: ClusterConnections, tailer: OffsetMapTailer, options: argparse.Namespace
) -> tuple[float, int]:
    """Publish everything, and delete obsolete blocks; returns CPU seconds, and bytes of keys and values."""
    writer, log, size = InternalTopicWriter(cluster, TOPIC), SegmentLog(assignment(*SOURCE)), 0
    log.begin(OffsetPair(0, 0))
    began_s = time.process_time()
    for number in range(options.holes):
        log.add([(STEP * number, 1)], number, number % SEQUENCE_MODULUS)
        if number % options.told == options.told - 1 or number == options.holes - 1:
            blocks = [(encode_key(block.key), encode_value(block)) for block in log.take(STEP * number + STEP)]
            size += sum(len(key) + len(value) for key, value in blocks)
            await writer.append([KeyedRecord(key, value) for key, value in blocks])
            await tailer.delete_obsolete()
    end = STEP * options.holes

    async def has_followed() -> bool:
        partition_map = tailer.store.find(SOURCE)
        return partition_map is not None and partition_map.segments.head.source == end

    await wait_until_async(has_followed, PATIENCE_S, "the map has followed")
    await tailer.delete_obsolete()
    return time.process_time() - began_s, size


def map_bytes(partition_map: PartitionOffsetMap) -> int:
    """Bytes of its four columns of 64 bits, and of the blocks' keys."""
    keys = sys.getsizeof(partition_map.blocks) + sum(
        sys.getsizeof(key) + sys.getsizeof(key.first) for key in partition_map.blocks
    )
    return 4 * 8 * len(partition_map.segments) + keys


async def read_stub(_: TopicPartition, __: MapAnswer, gap: SegmentGap) -> SegmentMap | str:
    """Scan the source's batch headers, each with one record."""
    reader = GapReader(gap, read_committed=True)
    batch = encode([DecodedRecord(0, 1, record_tail(None, b"", ()))], "none")
    first = gap.after.source + gap.after.source % STEP
    for fetched in range(first, gap.before.source, STEP * FETCHED_BATCHES):
        end = min(fetched + STEP * FETCHED_BATCHES, gap.before.source)
        reader.take([batch._replace(base_offset=offset) for offset in range(fetched, end, STEP)], ())
    return reader.finish()


async def query_map(title: str, partition_map: PartitionOffsetMap, tailer: OffsetMapTailer, gaps: int) -> None:
    """Look up offsets all over the partition, and the newest ones: which are known, and what scans cost."""
    print(f"{title}:", flush=True)
    show("segments, blocks in the topic", f"{len(partition_map.segments):,}, {len(partition_map.blocks):,}", width=58)
    show("memory", f"{map_bytes(partition_map) / 1024:,.0f} KiB", width=58)
    newest = next(n for n in range(1, gaps) if not _known(partition_map, gaps - n)) - 1
    show("newest records known without a scan", f"{newest:,}", width=58)
    dice, scans, longest_s, widest = random.Random(1), 0, 0.0, 0
    for number in (*(dice.randrange(gaps) for _ in range(SAMPLES)), gaps - 1, gaps):
        # Without the results of earlier scans.
        translator = Translator(partial(answer_from, tailer.store), read_stub)
        found_in_map = partition_map.segments.to_target(STEP * number)
        if isinstance(found_in_map, SegmentGap):
            scans, widest = scans + 1, max(widest, found_in_map.before.source - found_in_map.after.source)
            if scans > SCANS:
                continue
        began_s = time.perf_counter()
        found = await translator.to_target(SOURCE, STEP * number)
        longest_s = max(longest_s, time.perf_counter() - began_s)
        if (found.offset, found.exact) != (number, True):
            raise SystemExit(f"offset {STEP * number} is {number} on the target, and was translated to {found}")
    show(f"of {SAMPLES:,} offsets anywhere, to be found by a scan", f"{scans:,}", width=58)
    show("widest gap in source offsets, longest scan", f"{widest:,}, {longest_s:.2f} s", width=58)


def _known(partition_map: PartitionOffsetMap, number: int) -> bool:
    return partition_map.segments.to_target(STEP * number) == ExactOffset(number)


async def measure(brokers: DevCluster, cluster: ClusterConnections, options: argparse.Namespace) -> None:
    create_topic(brokers, TOPIC, configs={"cleanup.policy": "compact", "segment.bytes": str(16 << 20)})
    print(f"{options.holes:,} offset gaps, published {options.told:,} at a time:", flush=True)
    async with followed_map(cluster) as tailer:
        cpu_s, size = await publish(cluster, tailer, options)
        show("CPU to publish and to follow, for each gap", f"{cpu_s / options.holes * 1e6:.1f} us", width=58)
        show("published, before compression", f"{size / 2**20:,.0f} MiB", width=58)
        await query_map("the map that followed the topic", map_of(tailer), tailer, options.holes)
    alter_topic(brokers.confluent_config(), TOPIC, CLEANED_AT_ONCE)
    show("the topic on disk, before it is compacted", f"{brokers.log_bytes(TOPIC) / 2**20:,.1f} MiB", width=58)
    await compacted(cluster, brokers)
    show("the topic on disk, compacted", f"{brokers.log_bytes(TOPIC) / 2**20:,.1f} MiB", width=58)
    began_s = time.perf_counter()
    async with followed_map(cluster) as tailer:
        rebuilt_s = time.perf_counter() - began_s
        await query_map("the map that was built again", map_of(tailer), tailer, options.holes)
        show("to build it", f"{rebuilt_s:.2f} s", width=58)


async def compacted(cluster: ClusterConnections, brokers: DevCluster) -> None:
    """Wait until the topic has shrunk, and shrinks no more."""
    writer, before, sizes = InternalTopicWriter(cluster, TOPIC), brokers.log_bytes(TOPIC), [0]
    deadline = time.monotonic() + PATIENCE_S
    while len(set(sizes[-3:])) > 1 or not 0 < sizes[-1] < before // 2:
        if time.monotonic() > deadline:
            raise SystemExit(f"the topic was not compacted: {before:,} bytes, and now {brokers.log_bytes(TOPIC):,}")
        # A log segment is rolled by the first record after its time.
        await writer.append([KeyedRecord(b"nobody", None)])
        await asyncio.sleep(1.0)
        sizes.append(brokers.log_bytes(TOPIC) >> 14 << 14)


async def main() -> None:
    options = parse_arguments(
        __doc__, holes=(10_000_000, "offset gaps in all"), told=(10_000, "gaps that are published at a time")
    )
    with DevCluster("B", server_properties={"log.cleaner.backoff.ms": "100"}) as brokers:
        async with connections(brokers) as (cluster,):
            await measure(brokers, cluster, options)


if __name__ == "__main__":
    asyncio.run(main())
