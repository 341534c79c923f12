"""Failover and failback of flows that mirror schemas: producers can register on the side that they come to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.schema_registry import SchemaRegistryError

from mirror_ray.config.settings import MirrorSettings, PolicySettings, RegistrySettings, SchemaSettings, TopicSettings
from mirror_ray.failover.plan import FailoverOptions, FailoverPlan, FailoverStep
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.policy import IDENTITY_POLICY_CLASS
from mirror_ray.registry.client import RegistryClient
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.schema import Schema, Subject, SubjectVersion
from tests.support.clusters import Clusters, TopicMaker
from tests.support.failover import Names, caught_up, new_names, often, order
from tests.support.groups import commit
from tests.support.import_registry import ImportRegistry
from tests.support.kafka import create_topic
from tests.support.local import LocalSystem, aside
from tests.support.reading import read_all
from tests.support.serialized import ORDER_V1, ORDER_V2, SchemaReader, SchemaWriter, register
from tests.support.systems import settings_of
from tests.support.unrecorded import carry_out
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.timeout(300)

ORDER_V3: dict[str, Any] = ORDER_V2 | {"fields": [*ORDER_V2["fields"], {"name": "more", "type": "int", "default": 0}]}


class Scene(NamedTuple):
    """A system that copies one topic of serialized records, whose producers change sides."""

    clusters: Clusters
    names: Names
    urls: tuple[str, str]
    system: LocalSystem

    async def move(self, kind: Any, *, dry: bool = False, **options: Any) -> FailoverPlan:
        """Fail over or back, to the end."""
        wanted = order(self.names.flow, kind, options=FailoverOptions(**options), dry=dry)
        plan = (await carry_out(self.system.settings, wanted, self.system.coordinator)).plan
        assert plan.finished, plan.results
        return plan

    async def write(self, side: int, schema: dict[str, Any], *values: dict[str, Any]) -> None:
        """Write on one side, by its registry."""
        await aside(lambda: SchemaWriter(self.clusters[side], self.urls[side]).avro(self.names.topic, schema, *values))

    async def read(self, side: int, topic: str, *expected: dict[str, Any]) -> None:
        """Wait until these can be read on one side by its registry alone."""
        reader, cluster = SchemaReader(self.urls[side]), self.clusters[side]

        def there() -> bool:
            with suppress(KafkaException, SchemaRegistryError):
                return reader.avro(topic, values(cluster, topic)) == [*expected]
            return False

        await wait_until_async(lambda: aside(there), 60.0, f"{expected} are in {topic}")


def values(cluster: DevCluster, topic: str) -> list[bytes]:
    """What is in the first partition."""
    return [one.value or b"" for one in read_all(cluster.confluent_config(), topic)[0]]


@asynccontextmanager
async def scene(
    clusters: Clusters, make_topic: TopicMaker, urls: tuple[str, str], ids: Any, *, both: bool = False, **more: Any
) -> AsyncIterator[Scene]:
    """``both``: a flow back is configured, too."""
    names = new_names(make_topic(clusters.a))
    writer = SchemaWriter(clusters.a, urls[0])
    await aside(lambda: writer.avro(names.topic, ORDER_V1, {"id": 1}, {"id": 2}))
    await aside(lambda: commit(clusters.a, names.group, {(names.topic, 0): 1}))
    pair = {names.flow.source: clusters.a, names.flow.target: clusters.b}
    flows = [str(names.flow), str(names.flow.back)] if both else [str(names.flow)]
    topics = TopicSettings(include=(names.topic,), refresh_interval_s=0.5)
    schemas = SchemaSettings(ids=ids, sync_interval_s=0.1, full_interval_s=0.3, subjects=(f".*{names.topic}.*",))
    found = settings_of(pair, *flows, topics=topics, groups=often(f"{names.group}.*"), schemas=schemas, **more)
    by_alias = dict(zip(names.flow[:2], urls, strict=True))
    with_registries = {
        alias: cluster.model_copy(update={"registry": RegistrySettings(urls=(by_alias[alias],))})
        for alias, cluster in found.clusters.items()
    }
    config = MirrorSettings.model_validate(found.model_copy(update={"clusters": with_registries}).model_dump())
    async with LocalSystem(config, groups=True) as system:
        yield Scene(clusters, names, urls, system)


async def mode(url: str, name: str) -> str | None:
    """A subject's own mode."""
    async with RegistryClient("X", RegistrySettings(urls=(url,))) as client:
        return await SchemaRegistry(client).mode(Subject(".", name))


async def set_mode(url: str, name: str, wanted: Any) -> None:
    """Set a subject's mode."""
    async with RegistryClient("X", RegistrySettings(urls=(url,))) as client:
        await SchemaRegistry(client).set_mode(Subject(".", name), wanted)


async def test_ids_that_are_the_same_there_and_back(
    clusters: Clusters, make_topic: TopicMaker, import_registry: ImportRegistry
) -> None:
    """Subjects are in mode IMPORT where they are mirrored to, and nowhere else, in topics that keep their names."""
    identity = PolicySettings(class_name=IDENTITY_POLICY_CLASS)
    with ImportRegistry("target") as target:
        urls = (import_registry.url, target.url)
        async with scene(clusters, make_topic, urls, "auto", policy=identity) as there:
            topic = there.names.topic
            subject, closed, late = f"{topic}-value", f"closed-{topic}", f"late-{topic}"
            await there.read(1, topic, {"id": 1}, {"id": 2})
            await until_decided(there.system)
            await aside(lambda: register(urls[0], closed, ORDER_V3))
            await set_mode(urls[0], closed, "READONLY")
            await until_mode(urls[1], closed, "IMPORT")
            dry = await there.move("failover", dry=True)
            assert f"2 subjects on {there.names.flow.target}" in dry.results[FailoverStep.REDIRECT].summary
            assert "would be in mode IMPORT no longer" in dry.results[FailoverStep.REDIRECT].summary
            assert await mode(urls[1], subject) == "IMPORT"
            plan = await there.move("failover")
            checked = plan.results[FailoverStep.CHECK]
            assert "schemas on" in checked.summary
            assert (checked.figures["schemas"]["versions"], checked.figures["schemas"]["there"]) == (2, 2)
            ended = plan.results[FailoverStep.REDIRECT].figures["import_ended"]
            assert ended == {"subjects": 2, "modes": {subject: None, closed: "READONLY"}, "left": []}
            await aside(lambda: register(urls[0], late, ORDER_V3))
            await there.write(1, ORDER_V2, {"id": 3, "note": "on B"})
            await asyncio.sleep(1.0)
            assert (await mode(urls[1], subject), await mode(urls[1], closed)) == (None, "READONLY")
            assert not await aside(lambda: is_there(urls[1], late))
            await there.move("failback")
            await there.read(0, topic, {"id": 1}, {"id": 2}, {"id": 3, "note": "on B"})
            assert await aside(lambda: values(clusters.a, topic)) == await aside(lambda: values(clusters.b, topic))
            assert await mode(urls[0], subject) is None
            await there.write(0, ORDER_V3, {"id": 4, "note": None, "more": 4})
            await there.read(
                1, topic, {"id": 1}, {"id": 2}, {"id": 3, "note": "on B"}, {"id": 4, "note": None, "more": 4}
            )
            await until_mode(urls[1], subject, "IMPORT")


async def test_a_source_that_is_gone(
    clusters: Clusters, make_topic: TopicMaker, import_registry: ImportRegistry
) -> None:
    """What was mirrored is known by its ids; what somebody else imports stays so, and is named.

    A target whose registry is down, too, is waited for in the last step.
    """
    with ImportRegistry("target") as target:
        async with scene(clusters, make_topic, (import_registry.url, target.url), "auto") as there:
            remote = there.names.remote
            await there.read(1, remote, {"id": 1}, {"id": 2})
            await import_one(target.url, "others")
            await until_decided(there.system)
            import_registry.kill()
            dry = await there.move("failover", dry=True, source_is_gone=True)
            assert dry.results[FailoverStep.CHECK].figures["schemas"] == {"ids": 1, "lost_ids": []}
            target.kill()
            with pytest.raises(MirrorError, match=r"mode IMPORT of schemas .* can't be ended: .* --force"):
                await there.move("failover", source_is_gone=True)
            target.start()
            plan = await there.move("failover")
            assert "is not known" in plan.results[FailoverStep.CHECK].summary
            ended = plan.results[FailoverStep.REDIRECT].figures["import_ended"]
            assert ended == {"subjects": 1, "modes": {f"{remote}-value": None}, "left": ["others"]}
            assert (await mode(target.url, f"{remote}-value"), await mode(target.url, "others")) == (None, "IMPORT")


async def test_what_is_new_on_the_other_side_is_read_after_the_way_back(
    clusters: Clusters, make_topic: TopicMaker, import_registry: ImportRegistry, apicurio: ApicurioRegistry
) -> None:
    """With ids that are translated, and a flow back; records at the same place differ in their ids alone."""
    # The source's next id is far from what the shared registry, with other tests' schemas, gives next.
    await aside(lambda: [register(import_registry.url, f"other-{n}", ORDER_V3 | {"name": f"O{n}"}) for n in range(300)])
    async with scene(clusters, make_topic, (import_registry.url, apicurio.url), "translated", both=True) as there:
        await there.read(1, there.names.remote, {"id": 1}, {"id": 2})
        plan = await there.move("failover")
        assert plan.results[FailoverStep.VERIFY].figures["compared"] == 1
        assert "import_ended" not in plan.results[FailoverStep.REDIRECT].figures
        await aside(lambda: create_topic(clusters.b.confluent_config(), there.names.topic, 1))
        await there.write(1, ORDER_V2, {"id": 3, "note": "on B"})
        await there.move("failback")
        came = f"{there.names.flow.target}.{there.names.topic}"
        await there.read(0, came, {"id": 3, "note": "on B"})
        await there.write(0, ORDER_V3, {"id": 4, "note": None, "more": 4})
        await there.read(1, there.names.remote, {"id": 1}, {"id": 2}, {"id": 4, "note": None, "more": 4})


async def until_decided(system: LocalSystem) -> None:
    """Wait until it is decided how ids are copied, and the flow has begun anew with that."""

    async def decided() -> bool:
        running = system.coordinator.parts.settings
        return running is not None and running.flows[0].schemas.ids != "auto"

    await wait_until_async(decided, 30.0, "it is decided how ids are copied")
    await caught_up(system, 1)


async def until_mode(url: str, name: str, wanted: str) -> None:
    """Wait until a subject has a mode."""

    async def has() -> bool:
        return await mode(url, name) == wanted

    await wait_until_async(has, 30.0, f"{name} is {wanted}")


def is_there(url: str, name: str) -> bool:
    """Whether a registry has a subject."""
    return name in SchemaReader(url).registry.get_subjects()


async def import_one(url: str, name: str) -> None:
    """Somebody else imports a schema."""
    schema = Schema(kind="AVRO", text=json.dumps(ORDER_V3))
    async with RegistryClient("X", RegistrySettings(urls=(url,))) as client:
        registry = SchemaRegistry(client)
        await registry.set_mode(Subject(".", name), "IMPORT")
        await registry.import_version(SubjectVersion(Subject(".", name), 1), 4711, schema)
