"""Limits of a running system, measured in the target's own log files, and quotas of a real broker."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from mirror_ray.config.limits import LimitSettings
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.mirror import Mirror
from tests.support.clusters import Clusters, TopicMaker, set_quota
from tests.support.kafka import Message, produce
from tests.support.reading import assert_equal_copies
from tests.support.systems import run, settings_of
from tests.support.waiting import wait_until

#: What a limit may be exceeded by in the seconds that are measured. A machine that has no time for us for longer than
#: half a second reads less; how exactly a limit is used is `make bench-limits`' business.
_MOST, _LEAST = 1.05, 0.85
_SECONDS = 5.0
#: Until limits that were changed are shared, and what waits before them is through.
_SETTLED_S = 2.5
_LIMIT = 1_000_000
_TRIES = 3


def _fill(cluster: DevCluster, topic: str, megabytes: int) -> None:
    values = (Message(b"v" * 1000, partition=number % 4) for number in range(1000 * megabytes))
    produce(cluster.confluent_config(), topic, values, batch_num_messages=20)


def _rates(cluster: DevCluster, *topics: str) -> list[float]:
    """Bytes a second by which each topic grows."""
    before, began_s = [cluster.log_bytes(name) for name in topics], time.monotonic()
    time.sleep(_SECONDS)
    grown, took_s = [cluster.log_bytes(name) for name in topics], time.monotonic() - began_s
    return [(after - earlier) / took_s for earlier, after in zip(before, grown, strict=True)]


def _kept(cluster: DevCluster, *topics: str) -> list[float]:
    """The topics' rates, which are together as the limit says in one of three measurements.

    In the seconds of another the machine may have stood still.
    """
    sums: list[float] = []
    while len(sums) < _TRIES:
        rates = _rates(cluster, *topics)
        sums.append(sum(rates))
        if _LEAST * _LIMIT <= sums[-1] <= _MOST * _LIMIT:
            return rates
    pytest.fail(f"limit {_LIMIT}, measured {sums}")


def _set(mirror: Mirror, **limits: str | None) -> None:
    assert "configured" in str(mirror.set("A->B", {f"limits.{key}": value for key, value in limits.items()}))
    time.sleep(_SETTLED_S)


def _lag(mirror: Mirror, topic: str) -> int | None:
    return next(row.lag_records for row in mirror.topics() if row.topic == topic)


def _assigned(mirror: Mirror) -> int:
    return sum("assigned" in event.text for event in mirror.events(1000))


def test_limits_hold_and_quotas_are_reported(clusters: Clusters, make_topic: TopicMaker, system: str) -> None:
    """Of a flow in two replicators, by priority, of a topic, by the time of the week; changed while all of it runs."""
    first, second = make_topic(clusters.a, 4), make_topic(clusters.a, 4)
    copies = f"A.{first}", f"A.{second}"
    # Of the first, enough is left for the quota at the end also where everything took its longest.
    _fill(clusters.a, first, 60)
    _fill(clusters.a, second, 30)
    both = {"A": clusters.a, "B": clusters.b}
    limits = LimitSettings(bytes_per_second=_LIMIT)
    mirror = run(system, settings_of(both, "A->B", topics=f"{first}|{second}", replicators=2, limits=limits))
    wait_until(lambda: mirror.flows and mirror.flows[0].copying == 8, 30, "all copies")
    assigned = _assigned(mirror)
    time.sleep(_SETTLED_S)
    _kept(clusters.b, *copies)
    assert mirror.flows[0].why == f"held back by its limits ({_LIMIT:,} bytes/s)"

    _set(mirror, priorities=f"{second}=1")
    late, _ = _kept(clusters.b, *copies)
    assert late == pytest.approx(_LIMIT / 10, rel=0.3)

    _set(mirror, bytes_per_second=None, topics=f"{first}={_LIMIT}")
    wait_until(lambda: _lag(mirror, second) == 0, 20, "what has no limit is copied")
    _kept(clusters.b, copies[0])
    assert _assigned(mirror) == assigned

    later = datetime.now(UTC) + timedelta(hours=2)
    _set(mirror, windows=f"{later:%a %H}:00-{later:%H}:59")
    wait_until(lambda: mirror.flows[0].state == "paused", 10, "the window is closed")
    assert mirror.flows[0].why == f"outside limits.windows; goes on {later:%a %H}:00 UTC"
    assert _rates(clusters.b, copies[0]) == [0.0]

    asyncio.run(set_quota(clusters.b, "producer_byte_rate", _LIMIT / 2))
    try:
        _set(mirror, windows=None, topics=None)
        wait_until(lambda: mirror.flows[0].why == "throttled by a quota of B's brokers", 20, "the quota is reported")
    finally:
        asyncio.run(set_quota(clusters.b, "producer_byte_rate", None))
    wait_until(lambda: mirror.flows[0].lag_records == 0, 60, "all is copied")
    for topic, copy in zip((first, second), copies, strict=True):
        assert_equal_copies(clusters.a.confluent_config(), clusters.b.confluent_config(), topic, copy)
