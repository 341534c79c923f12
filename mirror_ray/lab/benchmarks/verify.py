"""What `verify` takes for a million records: passed on or changed on the way, and with `--spark` by Spark's executors.

::

    make bench-verify
    .venv/bin/python -m mirror_ray.lab.benchmarks.verify [TOPIC...] [--records 1000000] [--partitions 4] [--rounds 2]
        [--cores 1] [--plain-only]

Records that compress by half, copied by a replicator of ours; both brokers, the command and Spark share this machine.
Batches that were *passed on* are compared by their bytes. *Repacked* ones (of a source with LogAppendTime) are opened,
*recompressed* ones (by the target's broker) unpacked, small ones may be merged. Of *compacted* ones the last record of
each key is found, four of a key; of the *cleaned* ones the source has removed most others after they were copied, so
that both sides are compared in their order, too. Each is compared by the record kernel, if there is one, and again by
its Python reference. CPU is what comparing takes in a process that has started, with Spark that of all of its
processes, too; both sides are read, so that twice as many records are processed. One record shows what connecting and
asking takes, which is part of every other figure. Starting the command takes as much as `--help` does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from mirror_ray.config.settings import MirrorSettings, SparkSettings
from mirror_ray.lab.benchmarks.harness import cluster_pair, elapsed, parse_arguments, run_command, spark_meter
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.kafka_client import client_config, create_topic
from mirror_ray.records import kernel
from mirror_ray.records.batch import Codec
from mirror_ray.runtime import some_ray
from mirror_ray.spark.session import spark_session
from mirror_ray.spark.verification import SparkFirstPass
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import MakeFirstPass, verify_flow
from tests.support.kafka import alter_broker, alter_topic
from tests.support.kernels import without_kernel
from tests.support.replicated import FLOW, Replicated


class TopicKind(NamedTuple):
    """How a topic is filled, and whether its batches change on the way."""

    title: str
    record_bytes: int
    batch_records: int
    codec: Codec
    append_time: bool = False
    #: Of the remote topic.
    compression_type: str = "producer"
    #: Of each key, in a compacted topic.
    key_records: int = 0


#: Nothing is cleaned before it is copied.
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": str(4 << 20), "min.compaction.lag.ms": "86400000"}
CLEANED = {"min.compaction.lag.ms": "0", "max.compaction.lag.ms": "1000", "min.cleanable.dirty.ratio": "0.0"}
TOPICS = {
    "passed-on": TopicKind("passed on, 500 x 1 KB, zstd", 1000, 500, "zstd"),
    "uncompressed": TopicKind("passed on, 500 x 1 KB, none", 1000, 500, "none"),
    "small-batches": TopicKind("small: 10 x 100 B, zstd", 100, 10, "zstd"),
    "repacked": TopicKind("changed: repacked, 500 x 1 KB, zstd", 1000, 500, "zstd", append_time=True),
    "recompressed": TopicKind("changed: recompressed, zstd to lz4", 1000, 500, "zstd", compression_type="lz4"),
    "compacted": TopicKind("compacted, 500 x 1 KB, zstd", 1000, 500, "zstd", key_records=4),
    "cleaned": TopicKind("compacted, and the source cleaned since", 1000, 500, "zstd", key_records=4),
}
#: Those that Spark compares.
SPARK_TOPICS = ("passed-on", "repacked", "compacted")
ONE = "one-record"


def fill(cluster: DevCluster, topic: str, kind: TopicKind, records: int, partitions: int) -> None:
    """Write them; values differ, and half of each is random."""
    configs = {"message.timestamp.type": "LogAppendTime"} if kind.append_time else {}
    create_topic(cluster, topic, partitions, {**configs, **(COMPACTED if kind.key_records else {})})
    batches = {"batch.size": 1000 * kind.batch_records, "batch.num.messages": kind.batch_records, "linger.ms": 50}
    producer = Producer(client_config(cluster, {**batches, "compression.type": kind.codec}))
    size = kind.record_bytes
    noise = os.urandom(1 << 20)
    keys = records // (kind.key_records or 1)
    for number in range(records):
        at = number * 509 % (len(noise) - size)
        value = noise[at : at + size // 2] + b"%0*d" % (size // 2, number)
        # A whole batch for one partition, and then for the next, so that batches have the wanted size.
        partition = number // kind.batch_records % partitions
        while True:
            try:
                producer.produce(topic, value, b"key-%d" % (number % keys), partition)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


async def timed(
    title: str, settings: MirrorSettings, topic: str, records: int, make_first_pass: MakeFirstPass | None = None
) -> None:
    """Verify once; print what it took."""
    meter = spark_meter()
    with ExitStack() as stack:
        measured = stack.enter_context(elapsed())
        if make_first_pass is not None:
            # Sampling takes processor time of this very process, so it is done only where Spark runs.
            stack.enter_context(meter)
        report = await verify_flow(settings, FLOW, VerifyRequest(topics=(topic,)), make_first_pass=make_first_pass)
    if not report.equal or (topic != "cleaned" and report.plain()["records"] != records):
        raise SystemExit(f"not what it should be: {report.plain()}")
    worker_mb = meter.usage["python"].peak_process_bytes / 1e6
    spark = f", Spark's processes {meter.cpu_s:.1f} s, largest worker {worker_mb:.0f} MB" if make_first_pass else ""
    rate = f"{measured.seconds:6.1f} s  {records / measured.seconds:9,.0f} records/s"
    print(f"  {title:<48}{rate}  CPU {measured.cpu_s:.2f} s{spark}", flush=True)


async def clean(cluster: DevCluster, settings: MirrorSettings, records: int) -> None:
    """Have the source's broker clean what was copied, all but the last segments."""
    await asyncio.to_thread(alter_broker, client_config(cluster), 1, {"log.cleaner.backoff.ms": "1000"})
    await asyncio.to_thread(alter_topic, client_config(cluster), "cleaned", CLEANED)
    before = left = records
    while before == records or left < before:
        before = left
        await asyncio.sleep(5)
        left = (await verify_flow(settings, FLOW, VerifyRequest(topics=("cleaned",)))).plain()["records"]
    print(f"  {left:,} of {records:,} records are left of the topic that the source has cleaned", flush=True)


async def measure(pair: Sequence[DevCluster], options: argparse.Namespace) -> None:
    """Fill and copy each, and verify it in all ways; more than once, for the first time Spark compiles."""
    async with Replicated(*pair) as flow:
        print(f"{options.records:,} records in {options.partitions} partitions", flush=True)
        print(f"  {'start of the command':<78}CPU {run_command('verify', '--help').cpu_s:.2f} s", flush=True)
        topics = {name: TOPICS[name] for name in options.chosen}
        for name, kind in {**topics, ONE: TopicKind("one record", 100, 1, "none")}.items():
            records = 1 if name == ONE else options.records
            await asyncio.to_thread(fill, pair[0], name, kind, records, options.partitions)
            flow.remote(
                name,
                options.partitions,
                compression_type=kind.compression_type,
                cleanup_policy="compact" if kind.key_records else "delete",
                min_compaction_lag_ms=COMPACTED["min.compaction.lag.ms"],
            )
        await flow.copy([*topics, ONE], timeout_s=600)
        settings = flow.settings()
        if "cleaned" in topics:
            await clean(pair[0], settings, options.records)
        for _ in range(options.rounds):
            await timed("one record", settings, ONE, 1)
            for name, kind in topics.items():
                if kernel.is_available():
                    await timed(kind.title, settings, name, options.records)
                with without_kernel():
                    await timed(f"{kind.title}, no kernel", settings, name, options.records)
        if not options.plain_only:
            await measure_spark(settings, options)


async def measure_spark(settings: MirrorSettings, options: argparse.Namespace) -> None:
    """The same by Spark, for some of the topics."""
    with ExitStack() as stack:
        with elapsed() as start:
            stack.enter_context(some_ray("benchmark-verify", None))
            wanted = SparkSettings(executor_cores=options.cores)
            spark: SparkSession = stack.enter_context(spark_session("benchmark", wanted, print))
        print(f"  {'start of Ray and Spark':<48}{start.seconds:6.1f} s", flush=True)
        clusters = settings.clusters["A"], settings.clusters["B"]
        for _ in range(options.rounds):
            for name in filter(options.chosen.__contains__, SPARK_TOPICS):
                await timed(
                    f"{TOPICS[name].title}, Spark, cores: {options.cores}",
                    settings,
                    name,
                    options.records,
                    lambda logs, plain: SparkFirstPass(spark, clusters, logs, plain),
                )


def main() -> None:
    options = parse_arguments(
        __doc__,
        tuple(TOPICS),
        records=(1_000_000, "of each topic"),
        partitions=(4, "of each topic"),
        rounds=(2, "of each figure"),
        cores=(1, "of Spark's executor"),
        plain_only=(False, "without Spark"),
    )
    with cluster_pair() as pair:
        asyncio.run(measure(pair, options))


if __name__ == "__main__":
    main()
