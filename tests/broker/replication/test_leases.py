"""A replicator writes only while the flow's state topic says that it may; who stood still meanwhile gives up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import TopicPartition
from tests.chaos.test_brokers_are_killed import KEEP, PARTITIONS, SMALL_FETCHES, fill
from tests.support.clusters import Clusters, TopicMaker
from tests.support.engine_process import EngineProcess
from tests.support.kafka import produce, sample_messages
from tests.support.lease_gate import LeaseGate
from tests.support.reading import assert_equal_copies, end_offsets
from tests.support.replicated import Replicated
from tests.support.waiting import wait_until_async

_TERMS = LeaseTerms()
#: Some of the looks of ``fragile`` for producers to forget.
_FORGOTTEN_S = 1.0


async def test_frozen_writer_gives_up_by_itself(
    clusters: Clusters, fragile: DevCluster, make_topic: TopicMaker
) -> None:
    """Stopped between composing a request and sending it, it wakes up behind its successor and writes nothing more.

    The brokers have forgotten the producer by then, and would take whatever it sends.
    """
    topic = make_topic(clusters.a, PARTITIONS, KEEP)
    fill(clusters.a, topic, 40_000, 365)
    async with Replicated(clusters.a, fragile) as flow:
        remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
        settings, assignments = flow.settings(fetch=SMALL_FETCHES), await flow.assignments([topic])
        with EngineProcess(settings, assignments, stop_after=8) as frozen:
            await _until(lambda: frozen.stopped, "the first engine stands still")
            assert sum(end_offsets(fragile.confluent_config(), remote).values()) > 0
            successors = await flow.assignments([topic])
            await asyncio.sleep(_TERMS.takeover_s)
            engine = await flow.engine(fetch=SMALL_FETCHES)
            engine.assign(successors)
            await engine.caught_up(60)
            await asyncio.sleep(_FORGOTTEN_S)
            frozen.go_on()
            await _until(lambda: frozen.given_up == PARTITIONS, "the first engine gives up")
            assert "it was handed out with epoch" in frozen.events[0]
            fill(clusters.a, topic, 2_000, first=40_000)
            await engine.caught_up(60)
            await engine.stop()
            assert engine.events == []
        assert_equal_copies(clusters.a.confluent_config(), fragile.confluent_config(), topic, remote)


async def test_nothing_is_sent_by_a_grant_that_was_not_read(flow: Replicated, make_topic: TopicMaker) -> None:
    """An order that comes late is not carried out on trust, though a lease lasts: somebody else has the partition."""
    topics = [make_topic(flow.source), make_topic(flow.source)]
    remotes = [flow.remote(topic) for topic in topics]
    for topic in topics:
        produce(flow.source.confluent_config(), topic, sample_messages(100))
    engine = await flow.engine()
    engine.assign(await flow.assignments(topics[:1]))
    await engine.reached({TopicPartition(topics[0], 0): 100})
    gate = LeaseGate(engine)
    gate.shut()
    (late,) = await flow.assignments(topics[1:])
    await flow.assignments(topics[1:])
    engine.assign([late])
    there = TopicPartition(topics[1], 0)
    await engine.until(lambda: there in engine.reports and engine.reports[there].state == "copying", 1, "it could copy")
    await asyncio.sleep(_TERMS.sending_s / 4)
    assert end_offsets(flow.target.confluent_config(), remotes[1]) == {0: 0}
    gate.open()
    await engine.until(lambda: engine.given_up == [(late.partition, late.epoch)], 10, "given up")
    assert end_offsets(flow.target.confluent_config(), remotes[1]) == {0: 0}


async def test_frozen_writer_without_successor_goes_on(flow: Replicated, make_topic: TopicMaker) -> None:
    """Stopped for longer than its lease and continued, it looks first, and then copies on."""
    topic = make_topic(flow.source, PARTITIONS, KEEP)
    fill(flow.source, topic, 30_000)
    remote = flow.remote(topic, PARTITIONS, retention_ms="-1")
    with EngineProcess(flow.settings(fetch=SMALL_FETCHES), await flow.assignments([topic])) as frozen:
        await _until(lambda: frozen.records > 3_000, "it copies")
        frozen.stop()
        await asyncio.sleep(_TERMS.lease_ms / 1000)
        frozen.go_on()
        await _until(lambda: frozen.records == 30_000, "it goes on")
        assert frozen.given_up == 0
    assert_equal_copies(flow.source.confluent_config(), flow.target.confluent_config(), topic, remote)


async def test_without_the_state_topic_nothing_is_sent(flow: Replicated, make_topic: TopicMaker) -> None:
    """When it can't be read copying stands still after the lease, says why, and goes on by itself."""
    topic = make_topic(flow.source)
    remote = flow.remote(topic)
    config = flow.source.confluent_config()
    produce(config, topic, sample_messages(1_000))
    engine = await flow.engine()
    engine.assign(await flow.assignments([topic]))
    await engine.caught_up()
    gate = LeaseGate(engine)
    gate.shut()
    lapsed = time.monotonic() + _TERMS.sending_s
    await asyncio.sleep(max(0.0, lapsed - time.monotonic()) + 0.5)
    produce(config, topic, sample_messages(1_000, first=1_000))
    partition = TopicPartition(topic, 0)
    await engine.until(lambda: "no lease" in (engine.reports[partition].reason or ""), 20, "the reason is shown")
    assert engine.reports[partition].position == 1_000
    gate.open()
    await engine.caught_up()
    assert engine.reports[partition].reason is None
    assert ["can't be read" in text or "can be read again" in text for text in engine.events] == [True, True]
    await engine.stop()
    assert_equal_copies(config, flow.target.confluent_config(), topic, remote)


async def test_a_higher_epoch_is_seen_at_once(flow: Replicated, make_topic: TopicMaker) -> None:
    """One partition of two is handed out elsewhere: it is dropped, the other goes on; an older order is refused."""
    topics = [make_topic(flow.source), make_topic(flow.source)]
    for topic in topics:
        flow.remote(topic)
    config = flow.source.confluent_config()
    engine = await flow.engine()
    old = await flow.assignments(topics)
    engine.assign(old)
    await engine.caught_up()
    await flow.assignments(topics[:1])
    await engine.until(lambda: len(engine.given_up) == 1, 10, "given up")
    engine.assign(old[:1])
    await engine.until(lambda: len(engine.given_up) == 2, 10, "refused")
    assert engine.given_up == [(old[0].partition, old[0].epoch)] * 2
    produce(config, topics[1], sample_messages(100))
    await engine.reached({TopicPartition(topics[1], 0): 100})
    # One that knows nothing of the state topic reads it from its start.
    engine.assign([replace(assignment, state_offset=-1) for assignment in await flow.assignments(topics[:1])])
    produce(config, topics[0], sample_messages(100))
    await engine.reached({TopicPartition(topics[0], 0): 100})


async def _until(condition: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return condition()

    await wait_until_async(holds, 60, what)
