"""The figures of the README: real clusters on this machine, the real command line, one replicator.

::

    make bench
    .venv/bin/python benchmarks/figures.py [throughput] [small-batches] [idle] [--records N] [--with KEY=VALUE]...

The copy is timed from outside: the target's log ends are polled by a client of its own; CPU and memory are the
operating system's for the replicator's process. A figure of one machine says little by itself.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirror_ray.attach import attach
from mirror_ray.devcluster import DevCluster
from mirror_ray.devcluster.clusters import mm2_properties, start_all
from mirror_ray.mirror import Mirror

NAME = "figures"
POLL_S = 0.02
PARTITIONS = 8
IDLE_PARTITIONS = 2000
IDLE_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Records of one size in batches of one size."""

    records: int
    record_bytes: int
    batch_records: int
    codec: str


@dataclass(slots=True)
class Ends:
    """The sum of a topic's log ends, read by a client that shares no code with what is measured."""

    consumer: Consumer
    topic: str
    partitions: int

    def total(self) -> int:
        """Records in the topic; 0 while it does not exist."""
        try:
            return sum(
                self.consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=5)[1]
                for number in range(self.partitions)
            )
        except KafkaException:
            return 0


def fill(cluster: DevCluster, topic: str, work: Workload) -> None:
    """Create the topic and write the records in batches of exactly the size that is asked for."""
    create(cluster, topic, PARTITIONS)
    words = [random.randbytes(10).hex().encode() for _ in range(1000)]
    values = [b" ".join(random.choices(words, k=work.record_bytes // 21 + 1))[: work.record_bytes] for _ in range(997)]
    producer = Producer(
        {
            **cluster.confluent_config(),
            "compression.type": work.codec,
            "batch.num.messages": work.batch_records,
            "batch.size": 1_000_000,
            "linger.ms": 200,
            "queue.buffering.max.messages": 500_000,
        }
    )
    for number in range(work.records):
        while True:
            try:
                producer.produce(topic, values[number % 997], partition=number // work.batch_records % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def create(cluster: DevCluster, topic: str, partitions: int) -> None:
    """Create a topic."""
    admin = AdminClient(dict(cluster.confluent_config()))
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)


def start(clusters: list[DevCluster], config: Path) -> str:
    """Start a system on a Ray of its own; how long until the first record is on the target."""
    fill(clusters[0], "start", Workload(records=10, record_bytes=100, batch_records=10, codec="none"))
    ends = ends_of(clusters[1], "A.start")
    began_s = time.monotonic()
    process = subprocess.Popen([*COMMAND, "up", str(config), "--name", NAME, "--detach"], stderr=subprocess.DEVNULL)
    while not ends.total():
        if process.poll():
            raise SystemExit(f"mirror-ray up: exit {process.returncode}; is the machine too busy to start Ray?")
        time.sleep(POLL_S)
    seconds = time.monotonic() - began_s
    process.wait(60)
    return f"first record on the target {seconds:.1f} s after the process began, Ray's start included"


def copy(clusters: list[DevCluster], mirror: Mirror, topic: str, work: Workload) -> str:
    """Fill a topic while it is paused, then time its copy from the first record on."""
    mirror.pause("A->B", topic)
    fill(clusters[0], topic, work)
    while not any(each.topic == topic and each.state == "paused" for each in mirror.topics()):
        time.sleep(0.5)
    ends = ends_of(clusters[1], f"A.{topic}")
    replicator = psutil.Process(mirror.replicators[0].pid)
    cpu_s, peak_bytes = cpu_of(replicator), 0
    mirror.resume("A->B", topic)
    while not (first := ends.total()):
        time.sleep(POLL_S)
    began_s = time.monotonic()
    while ends.total() < work.records:
        peak_bytes = max(peak_bytes, replicator.memory_info().rss)
        time.sleep(POLL_S)
    seconds = time.monotonic() - began_s
    return (
        f"{work.records:,} records of {work.record_bytes} B, {work.batch_records} in a batch, {work.codec}: "
        f"{(work.records - first) / seconds:,.0f} records/s, {cpu_of(replicator) - cpu_s:.2f} CPU s, "
        f"peak memory {peak_bytes / 1e6:.0f} MB"
    )


def ends_of(cluster: DevCluster, topic: str) -> Ends:
    """The log ends of a topic."""
    return Ends(Consumer({**cluster.confluent_config(), "group.id": "figures", "log_level": 0}), topic, PARTITIONS)


def cpu_of(process: psutil.Process) -> float:
    """CPU seconds of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def idle(clusters: list[DevCluster], mirror: Mirror) -> str:
    """Two thousand partitions of which ten are busy: what they cost each process."""
    create(clusters[0], "idle", IDLE_PARTITIONS)
    began_s = time.monotonic()
    while sum(each.copying for each in mirror.topics() if each.topic == "idle") < IDLE_PARTITIONS:
        time.sleep(0.5)
    settled_s = time.monotonic() - began_s
    processes = {
        "replicator": psutil.Process(mirror.replicators[0].pid),
        "coordinator": psutil.Process(mirror.status().coordinator_pid),
    }
    before = {name: cpu_of(process) for name, process in processes.items()}
    trickle(clusters[0], "idle", IDLE_SECONDS)
    costs = ", ".join(
        f"{name} {(cpu_of(process) - before[name]) / IDLE_SECONDS:.1%} of a core and "
        f"{process.memory_info().rss / 1e6:.0f} MB"
        for name, process in processes.items()
    )
    return f"{IDLE_PARTITIONS} new partitions copying {settled_s:.1f} s after their creation; ten of them busy: {costs}"


def trickle(cluster: DevCluster, topic: str, seconds: float) -> None:
    """Five hundred records a second into ten partitions."""
    producer = Producer({**cluster.confluent_config(), "linger.ms": 5})
    began_s = time.monotonic()
    while time.monotonic() - began_s < seconds:
        for partition in range(10):
            producer.produce(topic, b"x" * 100, partition=partition)
        producer.poll(0)
        time.sleep(0.02)
    producer.flush()


COMMAND = (sys.executable, "-m", "mirror_ray")


def write_config(clusters: list[DevCluster], directory: Path, more: list[str]) -> Path:
    """An mm2.properties that copies from A to B; ``more``: further lines."""
    path = directory / "mm2.properties"
    path.write_text("\n".join((mm2_properties(clusters), "B->A.enabled = false", *more, "")))
    return path


def main() -> None:
    """Measure what is asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["throughput", "small-batches", "idle"])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument(
        "--with",
        dest="more",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property that the configuration has, too; may be given several times",
    )
    options = parser.parse_args()
    work = {
        "throughput": Workload(records=options.records, record_bytes=1000, batch_records=500, codec="zstd"),
        "small-batches": Workload(records=options.records, record_bytes=100, batch_records=10, codec="none"),
    }
    with tempfile.TemporaryDirectory() as directory:
        clusters = [DevCluster("A", heap="1g"), DevCluster("B", heap="1g")]
        start_all(clusters)
        try:
            print(f"start: {start(clusters, write_config(clusters, Path(directory), options.more))}", flush=True)
            with attach(NAME) as mirror:
                for what in options.what:
                    figures = copy(clusters, mirror, what, work[what]) if what in work else idle(clusters, mirror)
                    print(f"{what}: {figures}", flush=True)
        finally:
            subprocess.run([*COMMAND, "down", "--name", NAME], check=False, stderr=subprocess.DEVNULL)
            for cluster in clusters:
                cluster.close()


if __name__ == "__main__":
    main()
