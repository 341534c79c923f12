"""What is shown of schemas is what the registries have."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from mirror_ray.observe.problems import Problem
from mirror_ray.observe.schemas import SchemaStatus
from tests.broker.test_schemas import settings
from tests.support.clusters import Clusters, TopicMaker
from tests.support.import_registry import ImportRegistry
from tests.support.local import LocalSystem, aside
from tests.support.serialized import MONEY, PRICED, register
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.usefixtures("no_schema_ids")


async def test_a_version_that_the_target_does_not_delete_is_shown_with_the_reason(
    clusters: Clusters, make_topic: TopicMaker, import_registry: ImportRegistry
) -> None:
    """Something on the target refers to it. It is mirrored all the same, and a problem of the flow."""
    with ImportRegistry("target") as target:
        await aside(lambda: register(import_registry.url, "money-value", MONEY))
        wanted = settings(
            clusters, make_topic(clusters.a), import_registry.url, target.url, ids="translated", full_interval_s=1.0
        )
        async with LocalSystem(wanted) as system:

            async def shown() -> list[SchemaStatus]:
                return [one for one in await system.coordinator.schemas("A->B") if one.state == "mirrored"]

            await wait_until_async(shown, 20.0, "it is mirrored")
            user = Schema(json.dumps(PRICED), "AVRO", [SchemaReference("Money", "A.money-value", 1)])
            await aside(lambda: SchemaRegistryClient({"url": target.url}).register_schema("user", user))
            await aside(lambda: SchemaRegistryClient({"url": import_registry.url}).delete_version("money-value", 1))

            async def found() -> list[SchemaStatus]:
                return [one for one in await shown() if one.problem]

            (status,) = await wait_until_async(found, 20.0, "the problem is shown")
            assert (status.deleted, status.differs) == (True, True)
            assert "money-value version 1 is soft-deleted on the source" in str(status.problem)
            assert "references exist" in str(status.problem)

            async def problems() -> list[Problem]:
                now = await system.coordinator.status()
                return [one for one in now.problems if one.kind == "schemas_failing"]

            (problem,) = await wait_until_async(problems, 10.0, "it is a problem")
            assert problem.text.startswith("money-value version 1 is soft-deleted on the source")
            schemas = (await system.coordinator.status()).flows[0].schemas
            assert schemas is not None
            assert (schemas.versions, schemas.mirrored, schemas.problem_count) == (1, 1, 1)
