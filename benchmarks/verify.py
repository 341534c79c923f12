"""What `verify` takes for a million records: by the command's own process, and with `--spark` by Spark's executors.

::

    .venv/bin/python -m benchmarks.verify [--records 1000000] [--partitions 4] [--plain-only]

Records of 1 KB that compress by half, in zstd batches, copied by a replicator of ours; both brokers, the command and
Spark share this machine. CPU is the comparing process's own, with Spark that of all of its processes, too; both sides'
records are read, so that twice as many go through.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from contextlib import ExitStack

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from benchmarks.translate import watched
from mirror_ray.cli.launch import some_ray
from mirror_ray.config.settings import MirrorSettings, SparkSettings
from mirror_ray.devcluster import DevCluster
from mirror_ray.devcluster.clusters import start_all
from mirror_ray.spark.session import spark_session
from mirror_ray.spark.verification import SparkLooker
from mirror_ray.verification.planning import Wanted
from mirror_ray.verification.run import MakeLooker, verify_flow
from tests.support.engine import FLOW, Replicated
from tests.support.kafka import create_topic

TOPIC = "verified"
RECORD_BYTES = 1000


def fill(cluster: DevCluster, records: int, partitions: int) -> None:
    """Write them; values differ, and half of each is random."""
    config = cluster.confluent_config()
    create_topic(config, TOPIC, partitions)
    producer = Producer({**config, "compression.type": "zstd", "linger.ms": 50, "batch.size": 500_000})
    noise = os.urandom(1 << 20)
    for number in range(records):
        at = number * 509 % (len(noise) - RECORD_BYTES)
        value = noise[at : at + RECORD_BYTES // 2] + b"%0*d" % (RECORD_BYTES // 2, number)
        while True:
            try:
                producer.produce(TOPIC, value, b"key-%d" % number, number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


async def timed(title: str, settings: MirrorSettings, records: int, make_looker: MakeLooker | None) -> None:
    """Verify once; print what it took."""
    began_s, own_s = time.monotonic(), time.process_time()
    with watched() as used:
        report = await verify_flow(settings, FLOW, Wanted(topics=(TOPIC,)), make_looker=make_looker)
    took_s, own_s = time.monotonic() - began_s, time.process_time() - own_s
    if not report.equal or report.plain()["records"] != records:
        raise SystemExit(f"not what it should be: {report.plain()}")
    spark = f", Spark's processes {used.cpu_s:.1f} s" if make_looker else ""
    print(f"  {title:<24}{took_s:6.1f} s  {records / took_s:9,.0f} records/s  CPU {own_s:.1f} s{spark}", flush=True)


async def measure(pair: tuple[DevCluster, DevCluster], options: argparse.Namespace) -> None:
    """Copy, and verify in both ways; twice, for the first time Spark compiles."""
    async with Replicated(*pair) as flow:
        flow.remote(TOPIC, options.partitions)
        await flow.copy([TOPIC], timeout_s=300)
        settings = flow.settings()
        print(f"{options.records:,} records of {RECORD_BYTES} bytes in {options.partitions} partitions", flush=True)
        for _ in range(2):
            await timed("this process", settings, options.records, None)
        if options.plain_only:
            return
        with ExitStack() as stack:
            began_s = time.monotonic()
            stack.enter_context(some_ray("benchmark-verify", None))
            spark: SparkSession = stack.enter_context(spark_session("benchmark", SparkSettings()))
            print(f"  Ray and Spark start in  {time.monotonic() - began_s:6.1f} s", flush=True)
            clusters = settings.clusters["A"], settings.clusters["B"]
            for _ in range(2):
                await timed(
                    "Spark, one executor core",
                    settings,
                    options.records,
                    lambda logs, plain: SparkLooker(spark, clusters, logs, plain),
                )


def main() -> None:
    """Start brokers, fill one, copy, verify."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--plain-only", action="store_true", help="without Spark")
    options = parser.parse_args()
    pair = DevCluster("A", heap="1g"), DevCluster("B", heap="1g")
    try:
        start_all(pair)
        fill(pair[0], options.records, options.partitions)
        asyncio.run(measure(pair, options))
    finally:
        for each in pair:
            each.close()


if __name__ == "__main__":
    main()
