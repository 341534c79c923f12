"""A first pass by Spark and one in this process lead to the same report, on copies with and without a fault."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslSettings, SecuritySettings, SslSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.lab.devcluster import DevCluster, DevSecurity
from mirror_ray.model.errors import ClusterUnreachableError
from mirror_ray.model.names import NO_TOPIC_ID, TopicPartition
from mirror_ray.records import kernel
from mirror_ray.spark.verification import SparkFirstPass
from mirror_ray.spark.verification_pieces import JobPiece, tasks_of
from mirror_ray.verification.first_pass import InProcessFirstPass
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.partition_log import PartitionLog
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.ranges import PositionPair
from mirror_ray.verification.run import MakeFirstPass, verification
from tests.support.clusters import Clusters, TopicMaker
from tests.support.factories import compare_job
from tests.support.kafka import Message, create_topic, delete_records, produce, produce_transactions, sample_messages
from tests.support.kinds import KINDS, compact, create_every_kind, fill_every_kind
from tests.support.planted_checks import check_by_verify, table
from tests.support.planted_faults import Fault, Kind, cases
from tests.support.planting import Planted
from tests.support.replicated import FLOW, Replicated
from tests.support.verifying import FAULTS, plant, verified, with_copy

pytestmark = pytest.mark.timeout(600)

SPARKED = {"zstd", "transactional", "compacted", "headers", "tombstones", "large", "append-time"}


@pytest.fixture
async def flow(clusters: Clusters) -> AsyncIterator[Replicated]:
    """``A->B`` between the shared clusters."""
    async with Replicated(clusters.a, clusters.b) as replicated:
        yield replicated


@pytest.fixture
def by_spark(spark: SparkSession, flow: Replicated) -> MakeFirstPass:
    """Makes a first pass by Spark."""
    clusters = flow.settings().clusters
    return lambda logs, plain: SparkFirstPass(spark, (clusters["A"], clusters["B"]), logs, plain, small_offsets=1)


async def test_every_kind_of_topic_is_equal(flow: Replicated, by_spark: MakeFirstPass) -> None:
    """With the same figures as without Spark."""
    mark = f"verify-{uuid.uuid4().hex[:6]}"
    topics = create_every_kind(flow.source, mark)
    fill_every_kind(flow.source, mark)
    compact(flow.source, mark)
    for topic, (partitions, _) in zip(topics, KINDS.values(), strict=True):
        flow.remote(topic, partitions, retention_ms="-1")
    await flow.copy(topics)
    # Many small partitions cost Spark a task each.
    topics = [topic for topic in topics if topic.removeprefix(f"{mark}-") in SPARKED]
    for sample in (1.0, 0.1):
        plain = await verified(flow.settings(), topics, range_offsets=20, sample=sample)
        sparked = await verified(flow.settings(), topics, by_spark, range_offsets=20, sample=sample)
        assert sparked.plain() == plain.plain()
        assert sparked.equal


async def test_each_fault_is_told_alike(flow: Replicated, make_topic: TopicMaker, by_spark: MakeFirstPass) -> None:
    """In a transactional topic and in a compacted one."""
    topic, keyed = make_topic(flow.source), make_topic(flow.source, topic_config={"cleanup.policy": "compact"})
    remotes = {topic: flow.remote(topic), keyed: flow.remote(keyed, cleanup_policy="compact")}
    config = flow.source.confluent_config()
    transactions = [(sample_messages(40, first=40 * number), number % 4 != 1) for number in range(8)]
    produce_transactions(config, topic, transactions, transactional_id=uuid.uuid4().hex)
    produce(config, keyed, [Message(b"%d" % n, b"key %d" % (n % 40)) for n in range(100)])
    await flow.copy([topic, keyed])
    jobs: list[CompareJob] = []
    async with verification(flow.settings(), FLOW) as verifying:
        for job in await verifying.planner.plan(VerifyRequest(topics=(topic, keyed), range_offsets=50)):
            assert job.compacted == (job.source.topic == keyed)
            for fault, _, _ in FAULTS.values():
                planted = plant(flow.target, remotes[job.source.topic], fault, 70)
                jobs.append(await with_copy(verifying, job, planted, flow.target))
        plain, sparked = await verifying.verify(jobs), await verifying.verify(jobs, by_spark)
    assert [verdict.plain() for verdict in sparked] == [verdict.plain() for verdict in plain]
    assert [verdict.outcome for verdict in sparked] == ["differs"] * 2 * len(FAULTS)


async def test_planted_faults(clusters: Clusters, spark: SparkSession) -> None:
    """A task for each partition: so some of them; `make planted` has all kinds of topics, faults and places."""
    kinds: tuple[Kind, ...] = ("transactional", "compacted", "merged")
    faults: tuple[Fault, ...] = ("foreign", "doubled", "missing", "value", "swapped")
    planted = Planted(clusters, kinds, {kind: cases(kind, faults, ("middle",)) for kind in kinds})
    await planted.plant()
    both = planted.settings.clusters[planted.mark], planted.settings.clusters["B"]
    results = await check_by_verify(
        planted, lambda logs, plain: SparkFirstPass(spark, both, logs, plain, small_offsets=1)
    )
    wrong = [str(result) for result in results if not result.good]
    assert wrong == [], table(results)


async def test_records_that_are_removed_meanwhile(
    flow: Replicated, make_topic: TopicMaker, by_spark: MakeFirstPass
) -> None:
    """What is gone by the time that Spark reads is no difference; the rest is compared."""
    topic = make_topic(flow.source)
    flow.remote(topic)
    produce(flow.source.confluent_config(), topic, sample_messages(300))
    await flow.copy([topic])
    async with verification(flow.settings(), FLOW) as verifying:
        (job,) = await verifying.planner.plan(VerifyRequest(topics=(topic,), range_offsets=50))
        await asyncio.to_thread(delete_records, flow.source.confluent_config(), topic, 120)
        (found,) = await verifying.verify([job], by_spark)
    assert found.outcome == "equal"
    assert found.checked.records == 180
    assert found.checked.notes == ("120 source offsets were removed from a log before they were compared",)


async def test_keys_that_are_too_many_for_a_task_are_divided(
    flow: Replicated, make_topic: TopicMaker, by_spark: MakeFirstPass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same result, also of what differs; as often as it takes."""
    topic = make_topic(flow.source, topic_config={"cleanup.policy": "compact"})
    remote = flow.remote(topic, cleanup_policy="compact")
    produce(flow.source.confluent_config(), topic, [Message(b"%d" % n, b"key %d" % (n % 200)) for n in range(500)])
    await flow.copy([topic])
    runs: list[int] = []

    def counted(pieces: Sequence[JobPiece], cores: int) -> list[list[JobPiece]]:
        runs.append(len(pieces))
        return tasks_of(pieces, cores)

    monkeypatch.setattr("mirror_ray.spark.verification.tasks_of", counted)
    monkeypatch.setattr("mirror_ray.spark.verification.MAX_KEY_BYTES", 8_000)
    async with verification(flow.settings(), FLOW) as verifying:
        (job,) = await verifying.planner.plan(VerifyRequest(topics=(topic,)))
        fault, _, _ = next(iter(FAULTS.values()))
        jobs = [job, await with_copy(verifying, job, plant(flow.target, remote, fault, 470), flow.target)]
        plain = await verifying.verify(jobs)
        sparked = await verifying.verify(jobs, by_spark)
    assert [verdict.plain() for verdict in sparked] == [verdict.plain() for verdict in plain]
    assert [verdict.outcome for verdict in sparked] == ["equal", "differs"]
    # 200 keys take 27 KB, or 80 KB without the kernel.
    assert runs[:2] == [2, 8]


async def test_executors_without_the_kernel(
    flow: Replicated,
    make_topic: TopicMaker,
    spark: SparkSession,
    by_spark: MakeFirstPass,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where it was not built, or is left aside, its reference compares."""
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: kernel.is_available()).first()
    monkeypatch.setitem(spark.sparkContext.environment, kernel.OFF_VARIABLE, "1")
    assert not spark.sparkContext.parallelize([0], 1).map(lambda _: kernel.is_available()).first()
    topic, keyed = make_topic(flow.source), make_topic(flow.source, topic_config={"cleanup.policy": "compact"})
    flow.remote(topic, compression_type="gzip")
    flow.remote(keyed, cleanup_policy="compact")
    config = flow.source.confluent_config()
    produce(config, topic, sample_messages(300))
    produce(config, keyed, [Message(b"%d" % n, b"key %d" % (n % 40)) for n in range(100)])
    await flow.copy([topic, keyed])
    plain = await verified(flow.settings(), [topic, keyed], range_offsets=50)
    sparked = await verified(flow.settings(), [topic, keyed], by_spark, range_offsets=50)
    assert sparked.plain() == plain.plain()
    assert sparked.equal


async def test_secrets_go_with_the_code(
    spark: SparkSession, unique_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SASL_SSL with SCRAM, from stores that only this process reads; code of any size goes through no file."""
    with DevCluster("A", security=DevSecurity.scram_over_tls()) as cluster:
        config = cluster.confluent_config()
        create_topic(config, unique_topic)
        produce(config, unique_topic, sample_messages(100))
        given = cluster.client_properties(store_type="PEM")
        authorities = await asyncio.to_thread(Path(given["ssl.truststore.location"]).read_text)
        security = SecuritySettings(
            protocol="SASL_SSL",
            ssl=SslSettings(truststore_certificates=authorities * 5000),
            sasl=SaslSettings(
                mechanism="SCRAM-SHA-512", username="admin", password=Secret(str(config["sasl.password"]))
            ),
        )
        assert len(authorities * 5000) > 2 << 20
        settings = ClusterSettings(alias="A", bootstrap_servers=(cluster.bootstrap,), security=security)

        def broadcast(*_: object) -> None:
            raise AssertionError

        monkeypatch.setattr(SparkContext, "broadcast", broadcast)
        at = TopicPartition(unique_topic, 0)
        connections = ClusterConnections(settings, "test")
        topic_id = (await connections.refresh([unique_topic])).topics[unique_topic].topic_id
        await connections.close()
        log, ids = PartitionLog(connections, at, topic_id), {"source_topic_id": topic_id, "target_topic_id": topic_id}
        job = compare_job(PositionPair(0, 0), PositionPair(100, 100), source=at, target=at, **ids)
        plain = InProcessFirstPass(lambda _: (log, log))
        first_pass = SparkFirstPass(spark, (settings, settings), lambda _: (log, log), plain, 1)
        assert await first_pass.run([job]) == [FirstPassResult(records=100, target_records=100)]


async def test_a_cluster_that_does_not_answer(spark: SparkSession) -> None:
    """What a task says of it is the command's error, and no error of Spark."""
    closed = ClusterSettings(alias="A", bootstrap_servers=("127.0.0.1:1",))
    log = PartitionLog(ClusterConnections(closed, "test"), TopicPartition("t", 0), NO_TOPIC_ID)
    plain = InProcessFirstPass(lambda _: (log, log))
    job = compare_job(PositionPair(0, 0), PositionPair(100, 100))
    with pytest.raises(ClusterUnreachableError, match=r"cluster A: .*127\.0\.0\.1:1"):
        await SparkFirstPass(spark, (closed, closed), lambda _: (log, log), plain, 1).run([job])


async def test_nothing_to_look_at(flow: Replicated, by_spark: MakeFirstPass) -> None:
    """No job, no Spark job."""
    async with verification(flow.settings(), FLOW) as verifying:
        none: list[CompareJob] = []
        assert await verifying.verify(none, by_spark) == []
