"""How exactly limits of bytes per second hold, measured in the target's own log files.

::

    make bench-limits
    .venv/bin/python -m mirror_ray.lab.benchmarks.limits [--seconds 10] [--batch-records 20]

Real brokers, a real Ray, two replicators, two topics of four partitions with a backlog of records of 1 KB. Bytes are
those by which the logs on the target grow in so many seconds.
"""

from __future__ import annotations

import time

from mirror_ray.config.limits import LimitSettings
from mirror_ray.config.settings import TopicSettings
from mirror_ray.lab.bench.dataset import fill
from mirror_ray.lab.bench.measurements import DataSpec
from mirror_ray.lab.benchmarks.harness import (
    cluster_pair,
    elapsed,
    flow_settings,
    parse_arguments,
    running_system,
    wait_until_copying,
)
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.mirror import Mirror

TOPICS = ("first", "second")
PARTITIONS = 4
BACKLOG_MEGABYTES_PER_S = 16
#: Until a change reaches every replicator, and what was fetched under a higher limit has been written.
SETTLED_S = 5.0
MEGABYTE = 1_000_000
#: What is set, and the bytes a second that each topic should get; None: no certain number.
CASES: tuple[tuple[dict[str, str | None], int | None, int | None], ...] = (
    ({"bytes_per_second": str(MEGABYTE)}, None, None),
    ({"bytes_per_second": str(10 * MEGABYTE)}, None, None),
    ({"bytes_per_second": None, "topics": f"first={MEGABYTE},second={2 * MEGABYTE}"}, MEGABYTE, 2 * MEGABYTE),
    ({"bytes_per_second": str(4 * MEGABYTE), "topics": f"first={MEGABYTE}"}, MEGABYTE, 3 * MEGABYTE),
    ({"bytes_per_second": str(4 * MEGABYTE), "topics": None, "priorities": "second=1"}, 400_000, 3_600_000),
)


def measure(
    system: Mirror, target: DevCluster, seconds: float, limits: dict[str, str | None], wanted: tuple[int | None, ...]
) -> None:
    """Set limits, and print the rates at which the remote topics grow."""
    system.set("A->B", {f"limits.{key}": value for key, value in limits.items()})
    time.sleep(SETTLED_S)
    with elapsed() as measured:
        before = [target.log_bytes(f"A.{topic}") for topic in TOPICS]
        time.sleep(seconds)
        after = [target.log_bytes(f"A.{topic}") for topic in TOPICS]
    rates = [(end - start) / measured.seconds for start, end in zip(before, after, strict=True)]
    print(" ".join(f"{key}={value}" for key, value in limits.items() if value))
    if (flow_limit := limits.get("bytes_per_second")) is not None:
        show_rate("flow", sum(rates), int(flow_limit))
    for topic, rate, limit in zip(TOPICS, rates, wanted, strict=True):
        show_rate(topic, rate, limit)


def show_rate(name: str, rate: float, limit: int | None) -> None:
    """Print a rate, and how far it is from the limit."""
    off = "" if limit is None else f"  of {limit:>12,}  {rate / limit - 1:+.1%}"
    print(f"  {name:6} {rate:>12,.0f} bytes/s{off}", flush=True)


def main() -> None:
    options = parse_arguments(
        __doc__, seconds=(10.0, "for each figure"), batch_records=(20, "records of each batch on the source")
    )
    megabytes = round(BACKLOG_MEGABYTES_PER_S * (options.seconds + SETTLED_S))
    data = DataSpec(
        records=megabytes * 1000,
        record_bytes=1000,
        batch_records=options.batch_records,
        codec="none",
        partitions=PARTITIONS,
    )
    with cluster_pair("512m") as pair:
        for topic in TOPICS:
            fill(pair[0], topic, data)
        limited = LimitSettings(bytes_per_second=MEGABYTE)
        settings = flow_settings(pair, topics=TopicSettings(include=TOPICS), limits=limited)
        with running_system(settings, "bench-limits", replicators=2) as system:
            wait_until_copying(system, len(TOPICS) * PARTITIONS)
            for limits, first, second in CASES:
                measure(system, pair[1], options.seconds, limits, (first, second))


if __name__ == "__main__":
    main()
