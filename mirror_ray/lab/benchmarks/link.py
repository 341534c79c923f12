"""One partition over a long link: how much of it a copy fills, on either side.

::

    make bench-link
    .venv/bin/python -m mirror_ray.lab.benchmarks.link [target] [source] [replicated] [--delay-ms 50] [--seconds 10]

One source broker, three target brokers, and a proxy that delays every byte, in each direction, are started on this
machine; 16 KB batches of one partition are copied by one replicator's core in this process. Each figure is what was
acknowledged per second, from the first acknowledgement on, for so many seconds or to the end. Everything shares the
machine's processors, so figures are to be compared within one run: the first one of each link, without a delay, shows
what is possible here at all.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

from mirror_ray.lab.bench.dataset import fill
from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.benchmarks.harness import parse_arguments
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import running_clusters
from mirror_ray.lab.devcluster.proxy import long_link
from mirror_ray.model.assignment import PartitionReport
from mirror_ray.replication import flow_parts
from mirror_ray.replication.sender import Sender
from tests.support.engine import Advertised, Engine
from tests.support.replicated import Replicated

TOPIC = "link"
BATCH_RECORDS, RECORD_BYTES = 16, 1000
POLL_S = 0.01
BUFFER_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LongLink:
    title: str
    side: str
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMode:
    """One of the modes of producing that are compared."""

    name: str
    #: Arguments of the sender.
    sender: dict[str, Any]
    delayed: bool = True


LINKS = {
    "target": LongLink(title="target far away, replication factor 1", side="target", replication_factor=1),
    "source": LongLink(title="source far away, replication factor 1", side="source", replication_factor=1),
    "replicated": LongLink(title="target far away, replication factor 3", side="target", replication_factor=3),
}
MODES = (
    CopyMode(name="no delay", sender={}, delayed=False),
    CopyMode(name="as it is", sender={}),
    CopyMode(name="acks=all for each batch", sender={"group_bytes": 0}),
    CopyMode(name="acks=all, five in flight", sender={"group_bytes": 0, "most_requests": 5}),
)


@dataclass(frozen=True, slots=True)
class LinkBench:
    """The clusters, and how long to measure."""

    source: DevCluster
    target: DevCluster
    delay_s: float
    seconds: float
    numbers: Iterator[int]

    async def copy(self, link: LongLink, mode: CopyMode) -> float:
        """MB/s of one mode over one link, into a new remote topic."""
        with ExitStack() as stack:
            far = self.target if link.side == "target" else self.source
            advertised = stack.enter_context(delayed(far, self.delay_s)) if mode.delayed else None
            stack.enter_context(mock.patch.object(flow_parts, "Sender", partial(Sender, **mode.sender)))
            async with Replicated(self.source, self.target, prefix=f"{next(self.numbers)}.") as replicated:
                replicated.remote(TOPIC, 1, link.replication_factor)
                engine = await replicated.engine(advertised=advertised, buffer_bytes=BUFFER_BYTES)
                engine.assign(await replicated.assignments([TOPIC]))
                return await megabytes_per_s(engine, self.seconds)


@contextmanager
def delayed(cluster: DevCluster, delay_s: float) -> Iterator[Advertised]:
    """The addresses of the cluster's brokers behind the long link."""
    with long_link([broker.port for broker in cluster.brokers], delay_s) as ports:
        yield lambda host, port: (host, ports.get(port, port))


async def megabytes_per_s(engine: Engine, seconds: float) -> float:
    """Bytes acknowledged per second, from the first acknowledgement on."""
    await engine.until(lambda: engine.records, 60, "a first acknowledgement")
    first, began_s = last_report(engine), time.monotonic()
    now = first
    while time.monotonic() - began_s < seconds and not 0 <= now.source_end <= now.position:
        await asyncio.sleep(POLL_S)
        now = last_report(engine)
    return (now.bytes - first.bytes) / 1e6 / (time.monotonic() - began_s)


def last_report(engine: Engine) -> PartitionReport:
    (report,) = engine.look().values()
    return report


async def main() -> None:
    options = parse_arguments(
        __doc__,
        tuple(LINKS),
        delay_ms=(50.0, "in each direction"),
        seconds=(10.0, "for each figure"),
        megabytes=(800, "in the source partition"),
    )
    records = options.megabytes * 1_000_000 // RECORD_BYTES
    data = DataSpec(records=records, record_bytes=RECORD_BYTES, batch_records=BATCH_RECORDS, codec="none", partitions=1)
    with running_clusters(DevCluster("A", heap="1g"), DevCluster("B", 3, heap="700m")) as (source, target):
        fill(source, TOPIC, data)
        bench = LinkBench(source, target, options.delay_ms / 1000, options.seconds, itertools.count())
        for name in options.chosen:
            link, round_trip = LINKS[name], f"{2 * options.delay_ms:g} ms round trip"
            print(f"{link.title}; {round_trip}, 16 KB batches, one partition:", flush=True)
            # The brokers' virtual machines compile what they run often.
            await bench.copy(link, MODES[0])
            for mode in MODES:
                # With one replica, every acknowledgement is from all replicas.
                if link.replication_factor > 1 or mode.name != "acks=all for each batch":
                    print(f"  {mode.name:<26}{await bench.copy(link, mode):8.1f} MB/s", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
