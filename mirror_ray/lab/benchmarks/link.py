"""One partition over a long link: how much of it a copy fills, on either side.

::

    make bench-link
    .venv/bin/python -m mirror_ray.lab.benchmarks.link [target] [source] [replicated] [--delay-ms 50] [--seconds 10]

One source broker, three target brokers, and a proxy that holds every byte back by the delay, each way, are started on
this machine; 16 KB batches of one partition are copied by one replicator's core in this process. Each figure is what
was acknowledged per second, from the first acknowledgement on, for the seconds asked for or to the end. All of it
shares the machine's processors, so that figures are to be compared within one run: what is possible here at all is said
by the first one of each link, without a delay.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.proxy import long_link
from mirror_ray.model.assignment import PartitionReport
from mirror_ray.replication import flow
from mirror_ray.replication.sender import Sender
from tests.support.engine import Advertised, Engine, Replicated
from tests.support.kafka import Message, create_topic, produce

TOPIC = "link"
BATCH_RECORDS, RECORD_BYTES = 16, 1000
POLL_S = 0.01
BUFFER_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LongLink:
    """Where the long link is."""

    title: str
    side: str
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPath:
    """One way to copy, of those that stand side by side."""

    name: str
    sender: dict[str, Any]
    delayed: bool = True


LINKS = {
    "target": LongLink(title="target far away, replication factor 1", side="target", replication_factor=1),
    "source": LongLink(title="source far away, replication factor 1", side="source", replication_factor=1),
    "replicated": LongLink(title="target far away, replication factor 3", side="target", replication_factor=3),
}
WAYS = (
    CopyPath(name="no delay", sender={}, delayed=False),
    CopyPath(name="as it is", sender={}),
    CopyPath(name="acks=all for each batch", sender={"group_bytes": 0}),
    CopyPath(name="acks=all, five in flight", sender={"group_bytes": 0, "most_requests": 5}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The clusters, and how long to measure."""

    source: DevCluster
    target: DevCluster
    delay_s: float
    seconds: float
    numbers: Iterator[int]

    async def copy(self, link: LongLink, way: CopyPath) -> float:
        """MB/s of one way over one link, into a new remote topic."""
        with ExitStack() as stack:
            if way.delayed:
                far = self.target if link.side == "target" else self.source
                advertised = stack.enter_context(away(far, self.delay_s))
            else:
                advertised = None
            stack.enter_context(mock.patch.object(flow, "Sender", partial(Sender, **way.sender)))
            async with Replicated(self.source, self.target, prefix=f"{next(self.numbers)}.") as replicated:
                replicated.remote(TOPIC, 1, link.replication_factor)
                engine = await replicated.engine(advertised=advertised, buffer_bytes=BUFFER_BYTES)
                engine.assign(await replicated.assignments([TOPIC]))
                return await megabytes_per_s(engine, self.seconds)


@contextmanager
def away(cluster: DevCluster, delay_s: float) -> Iterator[Advertised]:
    """Where to reach the cluster's brokers behind the long link."""
    with long_link([broker.port for broker in cluster.brokers], delay_s) as ports:
        yield lambda host, port: (host, ports.get(port, port))


async def megabytes_per_s(engine: Engine, seconds: float) -> float:
    """Bytes acknowledged per second, from the first acknowledgement on."""
    await engine.until(lambda: engine.records, 60, "a first acknowledgement")
    begun, began_s = seen(engine), time.monotonic()
    now = begun
    while time.monotonic() - began_s < seconds and not 0 <= now.source_end <= now.position:
        await asyncio.sleep(POLL_S)
        now = seen(engine)
    return (now.bytes - begun.bytes) / 1e6 / (time.monotonic() - began_s)


def seen(engine: Engine) -> PartitionReport:
    """The partition's last report."""
    (report,) = engine.look().values()
    return report


def fill(cluster: DevCluster, megabytes: int) -> None:
    """One partition of batches of 16 records."""
    create_topic(cluster.confluent_config(), TOPIC)
    values = [random.randbytes(RECORD_BYTES) for _ in range(997)]
    messages = (Message(values[number % 997]) for number in range(megabytes * 1_000_000 // RECORD_BYTES))
    produce(cluster.confluent_config(), TOPIC, messages, batch_num_messages=BATCH_RECORDS, linger_ms=50)


async def main() -> None:
    """Measure what is asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("links", nargs="*", default=list(LINKS), metavar="|".join(LINKS))
    parser.add_argument("--delay-ms", type=float, default=50.0, help="each way")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each figure")
    parser.add_argument("--megabytes", type=int, default=800, help="in the source partition")
    options = parser.parse_args()
    with DevCluster("A", heap="1g") as source, DevCluster("B", 3, heap="700m") as target:
        fill(source, options.megabytes)
        bench = Bench(
            source=source,
            target=target,
            delay_s=options.delay_ms / 1000,
            seconds=options.seconds,
            numbers=itertools.count(),
        )
        for name in options.links:
            print(
                f"{LINKS[name].title}; {2 * options.delay_ms:g} ms round trip, 16 KB batches, one partition:",
                flush=True,
            )
            # The brokers' machines compile what they run often.
            await bench.copy(LINKS[name], WAYS[0])
            for way in WAYS:
                if link_differs(LINKS[name], way):
                    print(f"  {way.name:<26}{await bench.copy(LINKS[name], way):8.1f} MB/s", flush=True)


def link_differs(link: LongLink, way: CopyPath) -> bool:
    """Whether the way is another one on this link: with one replica each acknowledgement is one of all."""
    return link.replication_factor > 1 or way.name != "acks=all for each batch"


if __name__ == "__main__":
    asyncio.run(main())
