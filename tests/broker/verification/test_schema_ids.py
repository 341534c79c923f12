"""verify compares records with what their schema ids became."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from mirror_ray.model.names import FlowName
from mirror_ray.verification.planner import VerifyRequest
from mirror_ray.verification.run import verify_flow
from tests.broker.test_schemas import copied, settings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.import_registry import ImportRegistry
from tests.support.local import LocalSystem, aside
from tests.support.reading import read_all
from tests.support.serialized import ORDER_V1, ORDER_V2, SchemaWriter, register

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
        await system.caught_up(topic, 2)
    report = await verify_flow(flow, FlowName("A", "B"), VerifyRequest(topics=(topic,)))
    assert [(verdict.outcome, verdict.checked.records) for verdict in report.partitions] == [("equal", 2)]
