"""verify compares records with what their schema ids became, and the schemas of both registries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.kafka.portable_settings import portable
from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.spark.verification_task import TaskSettings, compare_jobs
from mirror_ray.transforms.met_schemas import SchemasWanted
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.report import VerifyReport
from mirror_ray.verification.run import verification, verify_flow
from tests.broker.failover.test_schema_handover import until_decided
from tests.broker.test_schemas import copied, settings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.import_registry import ImportRegistry
from tests.support.local import LocalSystem, aside
from tests.support.reading import read_all
from tests.support.serialized import ORDER_V1, ORDER_V2, SchemaWriter, register
from tests.support.systems import settings_of

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("no_schema_ids")]


@pytest.fixture
def registry() -> Iterator[ImportRegistry]:
    """The source's."""
    with ImportRegistry("source") as registry:
        yield registry


async def test_translated_records_are_equal(
    clusters: Clusters, make_topic: TopicMaker, apicurio: ApicurioRegistry, registry: ImportRegistry
) -> None:
    """Of a registry that gives ids of its own; the settings leave it to the target how ids are copied."""
    topic = make_topic(clusters.a)
    write = SchemaWriter(clusters.a, registry.url)
    # The source's next id is far from what the shared registry, with other tests' schemas, gives next.
    await aside(lambda: [register(registry.url, f"other-{n}", ORDER_V2 | {"name": f"Other{n}"}) for n in range(300)])
    await aside(lambda: write.avro(topic, ORDER_V1, {"id": 1}, {"id": 2}))
    flow = settings(clusters, topic, registry.url, apicurio.url, subjects_exclude=("other-.*",))
    async with LocalSystem(flow) as system:
        values = await copied(clusters, topic, 2)
        assert values != [record.value for record in read_all(clusters.a.confluent_config(), topic)[0]]
        # Partitions begin, and count, anew once it is decided what ``auto`` means.
        await until_decided(system)
        await aside(lambda: write.avro(topic, ORDER_V1, {"id": 3}))
        await system.caught_up(topic, 3)
        (shown,) = await system.coordinator.topics()
        assert shown.schema_ids_translated in {1, 3}
        assert shown.schema_ids_unframed == 0
    report = await verify_flow(flow, FlowName("A", "B"), VerifyRequest(topics=(topic,), schemas=True))
    assert [(verdict.outcome, verdict.checked.records) for verdict in report.partitions] == [("equal", 3)]
    assert [(found.met, found.outcome, list(found.sentences)) for found in report.schemas or ()] == [(1, "equal", [])]


async def test_schemas_are_looked_up_on_both_sides(
    clusters: Clusters, make_topic: TopicMaker, registry: ImportRegistry
) -> None:
    """Of a good topic; then of a target registry that lacks one, has another one, does not answer, or is not there."""
    topic = make_topic(clusters.a)
    write = SchemaWriter(clusters.a, registry.url)
    await aside(lambda: write.avro(topic, ORDER_V1, {"id": 1}))
    await aside(lambda: write.avro(topic, ORDER_V2, {"id": 2, "note": "new"}, {"id": 3, "note": None}))

    async def verified(target: ImportRegistry) -> VerifyReport:
        flow = settings(clusters, topic, registry.url, target.url, ids="translated")
        return await verify_flow(flow, FlowName("A", "B"), VerifyRequest(topics=(topic,), schemas=True))

    with ImportRegistry("target") as target, ImportRegistry("restored") as restored:
        await aside(lambda: register(target.url, "other", ORDER_V2 | {"name": "Other"}))
        async with LocalSystem(settings(clusters, topic, registry.url, target.url, ids="translated")) as system:
            await copied(clusters, topic, 3)
            await system.caught_up(topic, 3)
        report = await verified(target)
        assert (report.outcome, [found.met for found in report.schemas or ()]) == ("equal", [2])
        # Of ids 2 and 3 one is another schema's there, and one nobody's.
        await aside(lambda: [register(restored.url, f"other-{n}", ORDER_V2 | {"name": f"Other{n}"}) for n in range(2)])
        report = await verified(restored)
        assert (report.outcome, [verdict.outcome for verdict in report.partitions]) == ("differs", ["equal"])
        (found,) = report.schemas or ()
        assert [(one.source, one.target) for one in (*found.different, *found.missing)] == [(1, 2), (2, 3)]
        text = str(found.different[0])
        assert "id 1, which became id 2: it is another schema on the target: source: AVRO" in text
        assert "Other1" in text
        restored.kill()
        report = await verified(restored)
        (found,) = report.schemas or ()
        assert (report.equal, found.outcome, len(found.reasons)) == (False, "not_checked", 1)
        assert "the schema registry of B does not answer" in found.reasons[0]
    without = settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=TopicSettings(include=(topic,)))
    with pytest.raises(ConfigError, match=r"set A\.schema\.registry\.url and B\.schema\.registry\.url"):
        await verify_flow(without, FlowName("A", "B"), VerifyRequest(topics=(topic,), schemas=True))
    await check_task(settings(clusters, topic, registry.url, target.url, ids="translated"), topic)


async def check_task(flow: MirrorSettings, topic: str) -> None:
    """A task of Spark finds the schemas of its part of a partition."""
    async with verification(flow, FlowName("A", "B")) as verifying:
        (job,) = await verifying.planner.plan(VerifyRequest(topics=(topic,)))
    source, target = (portable(flow.clusters[alias]) for alias in "AB")
    task = TaskSettings(source=source, target=target, read_committed=True, max_key_bytes=1 << 20)
    jobs = [replace(job, schemas=SchemasWanted("plain", "framed", (1, 9))), job]
    found = await asyncio.to_thread(compare_jobs, task, jobs)
    assert not isinstance(found, MirrorError)
    assert [one and one.met.schemas for one in found] == [{2}, frozenset()]
