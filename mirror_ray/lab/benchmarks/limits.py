"""How exactly limits hold, measured in the target's own log files.

::

    .venv/bin/python -m mirror_ray.lab.benchmarks.limits [--seconds 10] [--batch-records 20]

Real brokers, a real Ray, two replicators, two topics of four partitions with a backlog of records of 1 KB. Bytes are
those by which the logs on the target grow in so many seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from mirror_ray.cli import launch
from mirror_ray.config.limits import LimitSettings
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings, TopicSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import start_all
from mirror_ray.mirror import Mirror
from mirror_ray.model.names import FlowName

_TOPICS = ("first", "second")
_BACKLOG_S = 16
#: Until a change is shared out, and an answer that was asked for under a higher limit is paid off under the new one.
_SETTLED_S = 5.0
_MEGABYTE = 1_000_000
#: What is set, and the bytes a second that each topic should come to; None: as many as are left.
_CASES: tuple[tuple[dict[str, str | None], int | None, int | None], ...] = (
    ({"bytes_per_second": str(_MEGABYTE)}, None, None),
    ({"bytes_per_second": str(10 * _MEGABYTE)}, None, None),
    ({"bytes_per_second": None, "topics": f"first={_MEGABYTE},second={2 * _MEGABYTE}"}, _MEGABYTE, 2 * _MEGABYTE),
    ({"bytes_per_second": str(4 * _MEGABYTE), "topics": f"first={_MEGABYTE}"}, _MEGABYTE, 3 * _MEGABYTE),
    ({"bytes_per_second": str(4 * _MEGABYTE), "topics": None, "priorities": "second=1"}, 400_000, 3_600_000),
)


def main() -> None:
    """Print what was asked for, what came, and how far apart they are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--batch-records", type=int, default=20)
    chosen = parser.parse_args()
    clusters = [DevCluster("A"), DevCluster("B")]
    try:
        start_all(clusters)
        _fill(clusters[0], round(_BACKLOG_S * (chosen.seconds + _SETTLED_S)), chosen.batch_records)
        settings = _settings(clusters)
        with launch.start(settings, "bench-limits", None, replicators=2, detach=False) as started:
            system = started.system
            while not system.flows or system.flows[0].copying < 8:
                time.sleep(0.1)
            for limits, first, second in _CASES:
                _measure(system, clusters[1], chosen.seconds, limits, (first, second))
            system.down()
    finally:
        for cluster in clusters:
            cluster.close()


def _settings(clusters: Sequence[DevCluster]) -> MirrorSettings:
    flow = FlowSettings(
        name=FlowName("A", "B"),
        enabled=True,
        topics=TopicSettings(include=_TOPICS),
        limits=LimitSettings(bytes_per_second=_MEGABYTE),
    )
    aliases = dict(zip("AB", clusters, strict=True))
    return MirrorSettings(
        clusters={
            alias: ClusterSettings(alias=alias, bootstrap_servers=(each.bootstrap,)) for alias, each in aliases.items()
        },
        flows=(flow,),
    )


def _fill(cluster: DevCluster, megabytes: int, batch_records: int) -> None:
    config = dict(cluster.confluent_config())
    admin = AdminClient(config)
    for future in admin.create_topics([NewTopic(topic, 4, 1) for topic in _TOPICS]).values():
        future.result()
    producer = Producer({**config, "batch.num.messages": batch_records, "linger.ms": 5})
    for number in range(megabytes * 1000):
        for topic in _TOPICS:
            producer.produce(topic, b"v" * 1000, partition=number % 4)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def _measure(
    system: Mirror, target: DevCluster, seconds: float, limits: dict[str, str | None], wanted: tuple[int | None, ...]
) -> None:
    system.set("A->B", {f"limits.{key}": value for key, value in limits.items()})
    time.sleep(_SETTLED_S)
    before, began_s = [target.log_bytes(f"A.{topic}") for topic in _TOPICS], time.monotonic()
    time.sleep(seconds)
    after, took_s = [target.log_bytes(f"A.{topic}") for topic in _TOPICS], time.monotonic() - began_s
    rates = [(end - start) / took_s for start, end in zip(before, after, strict=True)]
    print(" ".join(f"{key}={value}" for key, value in limits.items() if value))
    whole = limits.get("bytes_per_second")
    if whole is not None:
        _show("flow", sum(rates), int(whole))
    for topic, rate, asked in zip(_TOPICS, rates, wanted, strict=True):
        _show(topic, rate, asked)


def _show(what: str, rate: float, asked: int | None) -> None:
    off = "" if asked is None else f"  of {asked:>12,}  {rate / asked - 1:+.1%}"
    print(f"  {what:6} {rate:>12,.0f} bytes/s{off}", flush=True)


if __name__ == "__main__":
    main()
