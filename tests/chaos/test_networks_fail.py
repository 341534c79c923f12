"""Slow, dead and cut networks, and brokers that throttle: copying stalls, recovers, and loses nothing."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.proxy import Proxy
from tests.chaos.test_brokers_are_killed import KEEP, PARTITIONS, fill, more_copied
from tests.support.clusters import Clusters, TopicMaker, set_quota
from tests.support.reading import assert_equal_copies
from tests.support.replicated import Replicated

SHORT_MS = 1_500


@pytest.mark.parametrize("side", ["source", "target"])
async def test_network_slow_then_dead_then_cut(clusters: Clusters, make_topic: TopicMaker, side: str) -> None:
    """What a dead network delivers late, after we gave up and sent it anew, does no harm."""
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 30_000, 365)
    broker = (clusters.a if side == "source" else clusters.b).brokers[0]
    async with Replicated(clusters.a, clusters.b) as flow, Proxy(broker.port) as proxy:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        engine = await flow.engine(
            advertised=lambda host, port: (host, proxy.port if port == broker.port else port),
            request_timeout_ms=SHORT_MS,
        )
        engine.assign(await flow.assignments([topic]))
        proxy.delay_s = 0.02
        await more_copied(engine, 1_000)
        for _ in range(2):
            proxy.hold()
            await asyncio.sleep(SHORT_MS / 1000 + 0.7)
            before = engine.look() and engine.records
            await asyncio.sleep(0.3)
            assert engine.look()
            assert engine.records == before
            proxy.release()
            await more_copied(engine, 1_000)
            proxy.cut()
            await more_copied(engine, 1_000)
        proxy.delay_s = 0.0
        fill(clusters.a, topic, 1_000, first=30_000)
        await engine.caught_up(40)
        await engine.stop()
        assert engine.stops == []
        assert_equal_copies(clusters.a.confluent_config(), clusters.b.confluent_config(), topic, remote)


@pytest.mark.parametrize("kind", ["producer_byte_rate", "consumer_byte_rate"])
async def test_throttled_by_a_quota(
    clusters: Clusters, make_topic: TopicMaker, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """A broker that is silent because it throttles is waited for, even beyond the request timeout.

    What was sent before it said so may stand unread at a target until the kernel gives it up for the lease: once on
    each connection, for there is one request in flight from then on.
    """
    caplog.set_level(logging.INFO, "mirror_ray")
    limited: DevCluster = clusters.b if kind == "producer_byte_rate" else clusters.a
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 45_000, compressed=False)
    async with Replicated(clusters.a, clusters.b) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        await set_quota(limited, kind, 700_000)
        try:
            engine = await flow.engine(request_timeout_ms=SHORT_MS)
            begun = time.monotonic()
            engine.assign(await flow.assignments([topic]))
            await engine.caught_up(60)
            assert time.monotonic() - begun > 2
        finally:
            await set_quota(limited, kind, None)
        await engine.stop()
        assert engine.stops == []
        lost = [record.message for record in caplog.records if "to broker" in record.message]
        assert kind == "producer_byte_rate" or not lost
        assert len(set(lost)) == len(lost), lost
        assert all("Connection timed out" in message for message in lost)
        assert_equal_copies(clusters.a.confluent_config(), clusters.b.confluent_config(), topic, remote)
