"""What a flow's schema ids became, so that records are compared with what was made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.transforms import translates_schema_ids
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.model.errors import TopicMissingError
from mirror_ray.model.internal_topics import schemas_topic
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.records.schema_id_records import Forgotten, IdsDecision, IdsWay, decode
from mirror_ray.transforms.chain import TransformChain
from mirror_ray.transforms.met_schemas import SchemaCollector
from mirror_ray.transforms.schema_ids import SchemaIdMap

_PATIENCE_S: Final = 30.0


_Transform: TypeAlias = Callable[[Sequence[DecodedRecord]], Sequence[DecodedRecord]]


def seen_by(
    collector: SchemaCollector | None, source: TopicPartition, chain: TransformChain | None
) -> tuple[_Transform | None, Callable[[Sequence[RecordBatch]], None]]:
    """What makes of a partition's records what is copied, and what gets its batches, for a collector of schemas.

    It gets the records as the transforms leave them, before ids are translated: what they leave out has no schema on
    the target.
    """
    if chain is None:
        return None, _ignore if collector is None else collector.take
    if collector is None or not chain.steps:
        return lambda records: chain.apply(source, records).kept, _ignore if collector is None else collector.take
    steps, ids = replace(chain, schema_ids=None), replace(chain, steps=())

    def transform(records: Sequence[DecodedRecord]) -> Sequence[DecodedRecord]:
        kept = steps.apply(source, records).kept
        collector.take_records(kept)
        return ids.apply(source, kept).kept

    return transform, _ignore


def _ignore(batches: Sequence[RecordBatch]) -> None:
    """Nothing is looked for in them."""


async def with_schema_ids(
    flow: FlowSettings, target: ClusterConnections, patience_s: float = _PATIENCE_S
) -> tuple[FlowSettings, SchemaIdMap]:
    """Read the flow's topic on the target; returns the map, and the settings with the way that was decided.

    Nothing is asked where ids stay as they are. Where there is no such topic, nothing was decided or translated.

    Raises:
        ClusterUnreachableError, KafkaProtocolError: The topic can't be read.
        CorruptRecordError: A record of it can't be.
    """
    known = SchemaIdMap()
    if not translates_schema_ids(flow):
        return flow, known
    way: IdsWay | None = None
    try:
        async for chunk in InternalTopicReader(target, schemas_topic(flow.name.source)).to_end(patience_s):
            if chunk.restarted:
                known.clear()
                way = None
            for record in chunk.records:
                match decode(*record.fields()[:2]):
                    case IdsDecision(ids):
                        way = ids
                    case Forgotten(None):
                        way = None
                    case None:
                        pass
                    case entry:
                        known.update([entry])
    except TopicMissingError:
        pass
    if way is None or flow.schemas.ids != "auto":
        return flow, known
    return flow.model_copy(update={"schemas": flow.schemas.model_copy(update={"ids": way})}), known
