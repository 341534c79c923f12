"""Records are compared with what their schema ids became, by the way that was decided for the flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mirror_ray.config.settings import FlowSettings, SchemaSettings
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode as batch_of
from mirror_ray.records.schema_id_records import FieldDecision, IdsDecision, IdTranslation, encode
from mirror_ray.transforms import FilterByKey
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from mirror_ray.transforms.met_schemas import SchemaCollector, SchemasWanted
from mirror_ray.transforms.schema_ids import SchemaIdMap, TopicSchemaIds
from mirror_ray.verification.schema_ids import seen_by, with_schema_ids
from tests.unit.kafka.log_broker import LogBroker


def flow(**schemas: Any) -> FlowSettings:
    """A flow that mirrors schemas."""
    settings = SchemaSettings(sync_enabled=True, **schemas)
    return FlowSettings(name=FlowName("A", "B"), enabled=True, schemas=settings)


def values(records: Sequence[DecodedRecord]) -> list[bytes | None]:
    """What they have."""
    return [record.value for record in records]


def test_schemas_are_looked_for_before_they_are_translated() -> None:
    """And behind the transforms: what they leave out is not on the target."""
    source = TopicPartition("t", 0)
    known = SchemaIdMap((IdTranslation(1, 11), IdTranslation(2, 12)))
    steps = (NamedTransform("filter", FilterByKey("k.*")),)
    chain = TransformChain(steps, "it", "", TopicSchemaIds(known, "t", framed=True))
    fields = ((b"k", b"\0\0\0\0\1"), (b"other", b"\0\0\0\0\2"))
    records = [DecodedRecord(at, 1, record_tail(key, value, ())) for at, (key, value) in enumerate(fields)]
    for collector in (SchemaCollector(SchemasWanted("plain", "framed", (0, 9))), None):
        transform, take = seen_by(collector, source, chain)
        assert transform is not None
        take([batch_of(records, "none")])
        assert values(transform(records)) == [b"\0\0\0\0\x0b"]
        if collector is not None:
            assert collector.found().schemas == {1}


def test_without_transforms_batches_are_looked_at_as_they_are() -> None:
    """Ids are translated for the comparison alone."""
    records = [DecodedRecord(0, 1, record_tail(None, b"\0\0\0\0\1", ()))]
    ids = TransformChain((), "it", "", TopicSchemaIds(SchemaIdMap((IdTranslation(1, 11),)), "t", framed=True))
    for chain, made in ((None, None), (ids, [b"\0\0\0\0\x0b"])):
        collector = SchemaCollector(SchemasWanted("plain", "framed", (0, 9)))
        transform, take = seen_by(collector, TopicPartition("t", 0), chain)
        take([batch_of(records, "none")])
        assert (values(transform(records)) if transform is not None else None) == made
        assert collector.found().schemas == {1}


async def test_the_map_and_the_way_are_read() -> None:
    """A way that settings say is left."""
    log = LogBroker("mm2-ray-schemas.A.internal")
    entries = IdTranslation(1, 11), FieldDecision("t", "value", True), IdsDecision("same")
    log.append([encode(entry) for entry in entries])
    for said, way in (("auto", "same"), ("translated", "translated")):
        found, known = await with_schema_ids(flow(ids=said), log.as_cluster())
        assert (found.schemas.ids, known.ids, known.framing("t", "value")) == (way, {1: 11}, "framed")


async def test_a_way_that_was_forgotten_is_none() -> None:
    """Somebody has deleted the decision, for it to be made anew."""
    log = LogBroker("mm2-ray-schemas.A.internal")
    key, value = encode(IdsDecision("same"))
    log.append([(key, value), (key, None)])
    settings = flow(ids="auto")
    assert (await with_schema_ids(settings, log.as_cluster()))[0] is settings


async def test_nothing_is_asked_where_ids_stay() -> None:
    """Or where no schemas are mirrored."""
    log = LogBroker("mm2-ray-schemas.A.internal")
    for settings in (flow(ids="same"), FlowSettings(name=FlowName("A", "B"), enabled=True)):
        assert (await with_schema_ids(settings, log.as_cluster()))[0] is settings
    assert not log.refreshed


async def test_a_topic_that_is_not_there_says_nothing() -> None:
    """Then nothing was translated."""
    log = LogBroker("mm2-ray-schemas.A.internal")
    log.exists = False
    settings = flow()
    found, known = await with_schema_ids(settings, log.as_cluster(), 0.05)
    assert (found is settings, known.ids) == (True, {})
