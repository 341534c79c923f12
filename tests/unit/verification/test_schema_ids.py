"""Records are compared with what their schema ids became, by the way that was decided for the flow."""

from __future__ import annotations

from typing import Any

from mirror_ray.config.settings import FlowSettings, SchemaSettings
from mirror_ray.model.names import FlowName
from mirror_ray.records.schema_id_records import FieldDecision, IdsDecision, IdTranslation, encode
from mirror_ray.verification.schema_ids import with_schema_ids
from tests.unit.kafka.log_broker import LogBroker


def flow(**schemas: Any) -> FlowSettings:
    """A flow that mirrors schemas."""
    settings = SchemaSettings(sync_enabled=True, **schemas)
    return FlowSettings(name=FlowName("A", "B"), enabled=True, schemas=settings)


async def test_the_map_and_the_way_are_read() -> None:
    """A way that settings say is left."""
    log = LogBroker("mm2-ray-schemas.A.internal")
    entries = IdTranslation(1, 11), FieldDecision("t", "value", True), IdsDecision("same")
    log.append([encode(entry) for entry in entries])
    for said, way in (("auto", "same"), ("translated", "translated")):
        found, known = await with_schema_ids(flow(ids=said), log.as_cluster())
        assert (found.schemas.ids, known.ids, known.framing("t", "value")) == (way, {1: 11}, "framed")


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
