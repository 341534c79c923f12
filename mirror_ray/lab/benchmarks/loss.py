"""A link that loses packets: what several connections to a broker bring.

::

    make bench-loss
    .venv/bin/python -m mirror_ray.lab.benchmarks.loss [target] [source] [--loss 0.001] [--delay-ms 50] [--seconds 8]

Linux, as root: packets go through an interface that delays each of them and loses some. One broker on each side, 16 KB
batches without compression, one replicator's core in this process. Each figure is what was acknowledged per second,
from the first acknowledgement on. The interface carries some 80 MB/s on two cores, so figures are to be compared
within one run.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from unittest import mock

from mirror_ray.lab.bench.dataset import fill
from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.benchmarks.harness import parse_arguments
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import running_clusters
from mirror_ray.lab.devcluster.lossy_link import FAR_ADDRESS, lossy_link
from mirror_ray.replication import broker_connections
from tests.support.engine import Engine
from tests.support.replicated import Replicated

PARTITIONS = (1, 8)
CONGESTION = ("cubic", "bbr")
BUFFER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class LossBench:
    """The clusters, and how long to measure."""

    source: DevCluster
    target: DevCluster
    seconds: float
    numbers: Iterator[int]

    async def copy(self, side: str, partitions: int, *, many: bool) -> float:
        """MB/s into a new remote topic; ``many``: by as many connections as a long link has."""
        far = {broker.port for broker in (self.target if side == "target" else self.source).brokers}
        with ExitStack() as stack:
            if not many:
                stack.enter_context(mock.patch.object(broker_connections, "LONG_LINK_CONNECTIONS", 1))
            async with Replicated(self.source, self.target, prefix=f"{next(self.numbers)}.") as replicated:
                replicated.remote(topic_of(partitions), partitions)
                engine = await replicated.engine(
                    advertised=lambda host, port: (FAR_ADDRESS if port in far else host, port),
                    buffer_bytes=BUFFER_BYTES,
                )
                engine.assign(await replicated.assignments([topic_of(partitions)]))
                await engine.until(lambda: engine.records, 60, "a first acknowledgement")
                first, began_s = copied_bytes(engine), time.monotonic()
                over_s = began_s + self.seconds
                await engine.until(lambda: time.monotonic() >= over_s, 2 * self.seconds, "the end of the time")
                return (copied_bytes(engine) - first) / 1e6 / (time.monotonic() - began_s)


def copied_bytes(engine: Engine) -> int:
    return sum(report.bytes for report in engine.look().values())


def topic_of(partitions: int) -> str:
    return f"loss-{partitions}"


async def main() -> None:
    options = parse_arguments(
        __doc__,
        ("target", "source"),
        loss=(0.001, "share of the packets, in each direction"),
        delay_ms=(50.0, "in each direction"),
        seconds=(8.0, "for each figure"),
        megabytes=(800, "in each source topic"),
    )
    with running_clusters(DevCluster("A", heap="1g"), DevCluster("B", heap="1g")) as (source, target):
        for partitions in PARTITIONS:
            records = options.megabytes * 1000
            fill(
                source,
                topic_of(partitions),
                DataSpec(records=records, record_bytes=1000, batch_records=16, codec="none", partitions=partitions),
            )
        bench = LossBench(source, target, options.seconds, itertools.count())
        for side, congestion, loss in itertools.product(options.chosen, CONGESTION, (0.0, options.loss)):
            print(f"{side} far away, {2 * options.delay_ms:g} ms, {loss:.2%} lost, {congestion}:", flush=True)
            far = target if side == "target" else source
            with lossy_link([broker.port for broker in far.brokers], options.delay_ms / 1000, loss, congestion):
                for partitions in PARTITIONS:
                    rates = [await bench.copy(side, partitions, many=many) for many in (False, True)]
                    print(
                        f"  {partitions} partitions: {rates[0]:6.1f} MB/s, {rates[1]:6.1f} MB/s with more connections"
                    )


if __name__ == "__main__":
    asyncio.run(main())
