"""Schemas go along: what Confluent's serializers write on A, its deserializers read on B by B's registry alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.schema_registry import SchemaRegistryError
from google.protobuf.timestamp_pb2 import Timestamp

from mirror_ray.config.settings import MirrorSettings, RegistrySettings, SchemaSettings, TopicSettings
from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from tests.support.clusters import Clusters, TopicMaker
from tests.support.import_registry import ImportRegistry
from tests.support.local import LocalSystem, aside
from tests.support.reading import read_all
from tests.support.serialized import JSON_ORDER, MONEY, ORDER_V1, ORDER_V2, PRICED, SchemaReader, SchemaWriter, register
from tests.support.systems import settings_of
from tests.support.transforms import transforms
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("no_schema_ids")]


@pytest.fixture
def source_registry() -> Iterator[ImportRegistry]:
    """The source's."""
    with ImportRegistry("source") as registry:
        yield registry


def settings(
    clusters: Clusters, topics: str, source_url: str, target_url: str, *, errors: str = "stop", **schemas: Any
) -> MirrorSettings:
    """A flow of some topics, with their schemas; ``errors``: what becomes of records whose schema is nowhere."""
    found = settings_of(
        {"A": clusters.a, "B": clusters.b},
        "A->B",
        topics=TopicSettings(include=(topics,), refresh_interval_s=0.5),
        schemas=SchemaSettings(**schemas),
        transforms=transforms(errors=errors),
    )
    urls = {"A": source_url, "B": target_url}
    with_registries = {
        alias: cluster.model_copy(update={"registry": RegistrySettings(urls=(urls[alias],))})
        for alias, cluster in found.clusters.items()
    }
    return MirrorSettings.model_validate(found.model_copy(update={"clusters": with_registries}).model_dump())


async def copied(clusters: Clusters, topic: str, count: int) -> list[bytes]:
    """The values on the target, once there are so many."""
    found: list[bytes] = []

    def all_there() -> bool:
        # There is no such topic at first.
        with suppress(KafkaException):
            found[:] = [one.value or b"" for one in read_all(clusters.b.confluent_config(), f"A.{topic}")[0]]
        return len(found) >= count

    await wait_until_async(lambda: aside(all_there), 60.0, f"{count} records are in A.{topic}")
    return found


async def test_every_kind_is_read_by_the_targets_registry_alone(
    clusters: Clusters,
    make_topic: TopicMaker,
    apicurio: ApicurioRegistry,
    source_registry: ImportRegistry,
    subject_prefix: str,
) -> None:
    """Old records and new ones, evolution in the middle of the stream, references; what has no schema stays."""
    avro, jsons, protobuf, plain, priced = (make_topic(clusters.a) for _ in range(5))
    write, money = SchemaWriter(clusters.a, source_registry.url), f"{subject_prefix}Money"
    await aside(lambda: register(source_registry.url, money, MONEY))
    await aside(lambda: write.avro(avro, ORDER_V1, {"id": 1}, {"id": 2}))
    await aside(lambda: write.raw(plain, b"", b"\0\0\0", (300_000_000).to_bytes(8, "big"), b"text"))
    wanted = settings(clusters, f"{avro}|{jsons}|{protobuf}|{plain}|{priced}", source_registry.url, apicurio.url)
    read = SchemaReader(apicurio.url)
    async with LocalSystem(wanted) as system:
        values = await copied(clusters, avro, 2)
        assert read.avro(f"A.{avro}", values) == [{"id": 1}, {"id": 2}]
        await aside(lambda: write.avro(avro, ORDER_V2, {"id": 3, "note": "new"}))
        await aside(lambda: write.json(jsons, JSON_ORDER, {"id": 4}))
        await aside(lambda: write.protobuf(protobuf, Timestamp(seconds=5)))
        with_price = {"id": 6, "price": {"cents": 7}}
        await aside(lambda: write.avro(priced, PRICED, with_price, references=[("Money", money, 1)]))
        values = await copied(clusters, avro, 3)
        assert read.avro(f"A.{avro}", values)[2] == {"id": 3, "note": "new"}
        assert read.json(f"A.{jsons}", await copied(clusters, jsons, 1)) == [{"id": 4}]
        assert read.protobuf(f"A.{protobuf}", Timestamp, await copied(clusters, protobuf, 1)) == [Timestamp(seconds=5)]
        assert read.avro(f"A.{priced}", await copied(clusters, priced, 1)) == [with_price]
        assert await copied(clusters, plain, 4) == [b"", b"\0\0\0", (300_000_000).to_bytes(8, "big"), b"text"]
        await wait_until_async(
            lambda: told(system, f"each value of topic {plain} is copied as it is"), 30.0, "an event"
        )
        found = {status.subject: status for status in await system.coordinator.schemas("A->B")}
        assert found[f"{avro}-value"].state == "mirrored"
        assert found[f"{avro}-value"].target_subject == f"A.{avro}-value"


async def told(system: LocalSystem, text: str) -> bool:
    """Whether an event says so."""
    return any(text in event.text for event in await system.coordinator.events(100))


async def test_guids_in_headers(
    clusters: Clusters, make_topic: TopicMaker, source_registry: ImportRegistry, import_registry: ImportRegistry
) -> None:
    """A schema that refers to another subject on the target has another GUID there; the value stays as it is."""
    topic = make_topic(clusters.a)
    write = SchemaWriter(clusters.a, source_registry.url)
    await aside(lambda: register(source_registry.url, "Money", MONEY))
    # What is shorter than an id with its magic byte this deserializer refuses, wherever the schema is said.
    first, second = ({"id": number << 40, "price": {"cents": number}} for number in (1, 2))
    priced = PRICED | {"doc": "the second"}

    def wrote(schema: dict[str, Any], value: dict[str, Any]) -> None:
        write.avro(topic, schema, value, references=[("Money", "Money", 1)], in_header=True)

    await aside(lambda: wrote(PRICED, first))
    wanted = settings(
        clusters, topic, source_registry.url, import_registry.url, ids="translated", subjects_map={"Money": "A.Money"}
    )
    async with LocalSystem(wanted):
        await copied(clusters, topic, 1)
        await aside(lambda: wrote(priced, second))
        await copied(clusters, topic, 2)
    there, here = [
        await aside(partial(read_all, cluster.confluent_config(), name))
        for cluster, name in ((clusters.b, f"A.{topic}"), (clusters.a, topic))
    ]
    records = there[0]
    assert [one.value for one in records] == [one.value for one in here[0]]
    assert not {one.headers for one in records} & {one.headers for one in here[0]}
    assert SchemaReader(import_registry.url).avro_by_headers(f"A.{topic}", records) == [first, second]


async def test_the_same_ids_where_the_target_takes_them(
    clusters: Clusters, make_topic: TopicMaker, source_registry: ImportRegistry
) -> None:
    """An empty registry with mode IMPORT gets the ids of the source; records stay as they are, byte for byte."""
    topic = make_topic(clusters.a)
    write = SchemaWriter(clusters.a, source_registry.url)
    await aside(lambda: register(source_registry.url, "other", ORDER_V2))
    await aside(lambda: write.avro(topic, ORDER_V1, {"id": 1}))
    with ImportRegistry("target") as target:
        async with LocalSystem(settings(clusters, topic, source_registry.url, target.url)) as system:
            await copied(clusters, topic, 1)
            await wait_until_async(lambda: decided(system), 30.0, "it is decided how ids are copied")
            await aside(lambda: write.avro(topic, ORDER_V2, {"id": 2, "note": None}))
            values = await copied(clusters, topic, 2)
            originals = [one.value for one in await aside(lambda: read_all(clusters.a.confluent_config(), topic)[0])]
            assert values == originals
            read = SchemaReader(target.url)

            def readable() -> bool:
                with suppress(SchemaRegistryError):
                    return read.avro(f"A.{topic}", values) == [{"id": 1}, {"id": 2, "note": None}]
                return False

            await wait_until_async(lambda: aside(readable), 5.0, "the schema has come, too")
        async with LocalSystem(settings(clusters, topic, source_registry.url, target.url)) as system:
            await wait_until_async(lambda: decided(system), 30.0, "what was decided holds")
            await aside(lambda: write.avro(topic, ORDER_V1, {"id": 3}))
            assert len(await copied(clusters, topic, 3)) == 3


async def decided(system: LocalSystem) -> bool:
    """Whether ids are copied as they are."""
    running = system.coordinator.parts.settings
    return running is not None and running.flows[0].schemas.ids == "same"


def problems(system: LocalSystem) -> list[str]:
    """What keeps the registries apart."""
    flow = system.coordinator.parts.schemas.flows.get("A->B")
    return [] if flow is None else [*filter(None, [flow.problem]), *flow.problems]


async def test_a_registry_that_dies_holds_records_and_loses_none(
    clusters: Clusters, make_topic: TopicMaker, source_registry: ImportRegistry
) -> None:
    """Records of known schemas go on; one of a new schema waits, the fault is named, and it comes once it is over."""
    topic, other = make_topic(clusters.a), make_topic(clusters.a)
    write = SchemaWriter(clusters.a, source_registry.url)
    await aside(lambda: write.avro(topic, ORDER_V1, {"id": 1}))
    await aside(lambda: write.avro(other, ORDER_V1, {"id": 1}))
    with ImportRegistry("target") as target:
        wanted = settings(clusters, f"{topic}|{other}", source_registry.url, target.url, ids="translated", wait_ms=1000)
        async with LocalSystem(wanted) as system:
            await copied(clusters, topic, 1)
            await copied(clusters, other, 1)
            target.kill()
            await aside(lambda: write.avro(topic, ORDER_V2, {"id": 2, "note": "held"}, {"id": 3, "note": None}))
            await aside(lambda: write.avro(other, ORDER_V1, {"id": 2}))
            await copied(clusters, other, 2)

            async def named() -> bool:
                line = await system.partition(topic)
                stopped = line is not None and line.state == "stopped" and "schema" in (line.reason or "")
                return stopped and any("schema registry of B" in text for text in problems(system))

            await wait_until_async(named, 60.0, "the partition says what it waits for, and the flow why")
            assert len(await copied(clusters, topic, 1)) == 1
            target.start()
            values = await copied(clusters, topic, 3)
            found = SchemaReader(target.url).avro(f"A.{topic}", values)
            assert [one["id"] for one in found] == [1, 2, 3]


async def test_a_schema_that_is_nowhere(
    clusters: Clusters, make_topic: TopicMaker, source_registry: ImportRegistry, import_registry: ImportRegistry
) -> None:
    """Its records are left out where that is the policy, once they have waited; what is no framing stays."""
    topic = make_topic(clusters.a)
    write = SchemaWriter(clusters.a, source_registry.url)
    await aside(lambda: write.avro(topic, ORDER_V1, {"id": 1}))
    await aside(lambda: write.raw(topic, b"\0" + (4711).to_bytes(4, "big") + b"x", b"plain"))
    await aside(lambda: write.avro(topic, ORDER_V1, {"id": 2}))
    wanted = settings(
        clusters, topic, source_registry.url, import_registry.url, errors="skip", ids="translated", wait_ms=1000
    )
    async with LocalSystem(wanted):
        values = await copied(clusters, topic, 3)
        assert values[1] == b"plain"
        assert SchemaReader(import_registry.url).avro(topic, [values[0], values[2]]) == [{"id": 1}, {"id": 2}]


async def test_a_registry_that_knows_a_schema_later_than_its_records_come(
    clusters: Clusters, make_topic: TopicMaker, source_registry: ImportRegistry, import_registry: ImportRegistry
) -> None:
    """A node may lag behind the one that registered it: the topic is not taken for one without schemas."""
    topic = make_topic(clusters.a)
    await aside(lambda: register(import_registry.url, "theirs", ORDER_V2))
    write = SchemaWriter(clusters.a, source_registry.url)
    await aside(lambda: write.raw(topic, b"\0\0\0\0\x01\x02"))
    wanted = settings(clusters, topic, source_registry.url, import_registry.url, ids="translated", wait_ms=500)
    async with LocalSystem(wanted) as system:

        async def waits() -> bool:
            line = await system.partition(topic)
            return (
                line is not None
                and line.state == "stopped"
                and any("no such schema" in one for one in problems(system))
            )

        await wait_until_async(waits, 30.0, "the record waits")
        assert await aside(lambda: register(source_registry.url, f"{topic}-value", ORDER_V1)) == 1
        values = await copied(clusters, topic, 1)
        assert values == [b"\0\0\0\0\x02\x02"]
        assert SchemaReader(import_registry.url).avro(topic, values) == [{"id": 1}]
        await wait_until_async(lambda: nothing_wrong(system), 10.0, "the problem is over")


async def nothing_wrong(system: LocalSystem) -> bool:
    """Whether nothing keeps the registries apart."""
    return not problems(system)


async def test_a_target_that_was_restored_from_an_old_backup(
    clusters: Clusters, make_topic: TopicMaker, source_registry: ImportRegistry
) -> None:
    """A schema that gets another id than its records have is named, with both."""
    topic = make_topic(clusters.a)
    write = SchemaWriter(clusters.a, source_registry.url)
    await aside(lambda: write.avro(topic, ORDER_V1, {"id": 1}))
    with ImportRegistry("old") as old, ImportRegistry("target") as target:
        wanted = settings(clusters, topic, source_registry.url, target.url, ids="translated")
        async with LocalSystem(wanted):
            await copied(clusters, topic, 1)
        await aside(lambda: register(old.url, "pad", ORDER_V2))
        restored = settings(clusters, topic, source_registry.url, old.url, ids="translated")
        async with LocalSystem(restored) as system:

            async def named() -> bool:
                return any("old backup" in text for text in problems(system))

            await wait_until_async(named, 30.0, "the lost schema is named")
