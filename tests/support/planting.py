"""Copies with one fault each, of every kind of topic, with the state and the offset maps of a flow that made them.

Each partition of a remote topic has one fault, or none. Kafka's own client writes the source's records, and reads them
again: they are what the copy should hold.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirror_ray.config.settings import MirrorSettings, TopicSettings
from mirror_ray.config.transforms import flow_chains
from mirror_ray.kafka import produce
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.fetch import PartitionKey
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.kafka.metadata import topic_id_bytes
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.segment import Segment, SegmentBlock
from mirror_ray.records import decode
from mirror_ray.records.batch import rewrite
from mirror_ray.records.repack import encode as encode_batch
from mirror_ray.records.segment_block import encode_key, encode_value
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FlowRecord
from mirror_ray.state.schema import FLOW, PARTITION, state_topic
from tests.support.clusters import Clusters, ensure_topic
from tests.support.kafka import Message, append, create_topic, produce_transactions
from tests.support.kafka import produce as produce_messages
from tests.support.planted_faults import RECORDS, Case, Kind, Line, with_fault
from tests.support.reading import Record, end_offsets, read_placed
from tests.support.systems import settings_of
from tests.support.transforms import suffix, transforms

#: Of partitions that are still being copied: so many are acknowledged, and so many more were written.
_ACKNOWLEDGED, _IN_FLIGHT = 8, 3
_APPEND_TIME: Mapping[str, str] = {"message.timestamp.type": "LogAppendTime"}
_CONFIGS: Mapping[Kind, Mapping[str, str]] = {"compacted": {"cleanup.policy": "compact"}, "append-time": _APPEND_TIME}
_KEPT = {"retention.ms": "-1"}
#: Records of a batch of the target.
_USUAL, _LARGE = 4, 100


@dataclass(slots=True)
class Planted:
    """A flow's settings, and on both clusters the topics of each kind with their cases."""

    clusters: Clusters
    kinds: Sequence[Kind]
    cases: Mapping[Kind, Sequence[Case]]
    #: Whether the remote topics have LogAppendTime.
    append_time: bool = False
    mark: str = field(default_factory=lambda: f"p{uuid.uuid4().hex[:6]}")

    @property
    def flow(self) -> FlowName:
        """A flow of its own: its state and map are nobody else's."""
        return FlowName(self.mark, "B")

    def sources(self, kind: Kind) -> list[str]:
        """Source topics of a kind: the faults are in the copy of the first one."""
        return [f"{self.mark}-{kind}"] + ([f"{self.mark}-beside"] if kind == "merged" else [])

    def remote(self, kind: Kind) -> str:
        """The remote topic of a kind."""
        return f"{self.mark}-both" if kind == "merged" else f"{self.mark}.{self.mark}-{kind}"

    @property
    def settings(self) -> MirrorSettings:
        """The flow's settings."""
        names = dict.fromkeys(self.sources("merged"), self.remote("merged")) if "merged" in self.kinds else {}
        topics = TopicSettings(include=tuple(name for kind in self.kinds for name in self.sources(kind)), map=names)
        step = transforms(suffix())
        (only,) = step.steps
        only = only.model_copy(update={"topics": (f"{self.mark}-transformed",)})
        return settings_of(
            {self.mark: self.clusters.a, "B": self.clusters.b},
            str(self.flow),
            topics=topics,
            transforms=step.model_copy(update={"steps": (only,)}),
        )

    async def plant(self) -> None:
        """Write sources, copies, state and map."""
        ensure_topic(self.clusters.b, segments_topic(self.mark))
        settings = self.settings
        source, target = (ClusterConnections(settings.clusters[alias], "planting") for alias in (self.mark, "B"))
        try:
            producer, foreign = await target.init_producer_id(), await target.init_producer_id()
            await source.refresh([])
            await target.refresh([])
            documents: dict[str, object] = {
                FLOW.key(""): FLOW.write(
                    FlowRecord(
                        producer_id=producer[0],
                        producer_epoch=producer[1],
                        source_cluster_id=source.metadata.cluster_id,
                        target_cluster_id=target.metadata.cluster_id,
                        selection="",
                    )
                )
            }
            for kind in self.kinds:
                copy = _Copy(self, kind, source, target, producer, foreign)
                documents |= await copy.make()
            messages = [Message(json.dumps(value).encode(), key.encode()) for key, value in documents.items()]
            append(self.clusters.b.confluent_config(), state_topic(self.mark), messages)
        finally:
            await source.close()
            await target.close()


class _Copy:
    """One kind's remote topic."""

    def __init__(
        self,
        planted: Planted,
        kind: Kind,
        source: ClusterConnections,
        target: ClusterConnections,
        producer: tuple[int, int],
        foreign: tuple[int, int],
    ) -> None:
        self._planted, self._kind = planted, kind
        self._source, self._target = source, target
        self._producer, self._foreign = producer, foreign
        self._cases = planted.cases[kind]
        self._shared = kind == "merged"

    async def make(self) -> dict[str, object]:
        """Write everything; returns the records of the flow's state topic."""
        planted, kind = self._planted, self._kind
        config = planted.clusters.a.confluent_config()
        for name in planted.sources(kind):
            create_topic(config, name, len(self._cases), topic_config={**_KEPT, **_CONFIGS.get(kind, {})})
            records = RECORDS if name == planted.sources(kind)[0] else RECORDS - 2
            small = {"batch.num.messages": 2} if kind == "rebatched" else {}
            _fill({**config, **small}, name, len(self._cases), records, transactional=kind == "transactional")
        remote = planted.remote(kind)
        own = {**_KEPT, **({"cleanup.policy": "compact"} if kind == "compacted" else {})}
        own |= _APPEND_TIME if planted.append_time else {}
        create_topic(planted.clusters.b.confluent_config(), remote, len(self._cases), topic_config=own)
        await self._source.refresh(planted.sources(kind))
        await self._target.refresh([remote])
        held = {name: read_placed(config, name) for name in planted.sources(kind)}
        ends = {name: end_offsets(config, name) for name in planted.sources(kind)}
        producers = dict.fromkeys(planted.sources(kind), self._producer)
        if self._shared:
            producers = {name: await self._target.init_producer_id() for name in producers}
        copies = {case.partition: self._lines(case, held, producers) for case in self._cases}
        await self._write(remote, copies)
        documents: dict[str, object] = {}
        blocks = []
        for case in self._cases:
            for name in planted.sources(kind):
                record, block = self._state_of(case, name, copies[case.partition], ends[name], producers[name])
                documents |= PARTITION.documents(TopicPartition(name, case.partition), record)
                blocks.append(KeyedRecord(encode_key(block.key), encode_value(block)))
        topic = segments_topic(planted.mark)
        await self._target.refresh([topic])
        await InternalTopicWriter(self._target, topic).append(blocks)
        return documents

    def _lines(
        self,
        case: Case,
        held: Mapping[str, Mapping[int, Sequence[tuple[int, Record]]]],
        producers: Mapping[str, tuple[int, int]],
    ) -> list[tuple[Line, tuple[int, int]]]:
        """The records of the remote partition with their producers: the first topic's, and others' in between."""
        first, *others = held
        lines = [Line(self._made(record), source=offset) for offset, record in held[first][case.partition]]
        whole = with_fault(lines, case)
        if case.under_way:
            behind = lines[_ACKNOWLEDGED : _ACKNOWLEDGED + _IN_FLIGHT]
            whole = [*lines[:_ACKNOWLEDGED], *with_fault(behind, case)]
        made = [(line, producers[first] if line.ours else self._foreign) for line in whole]
        for name in others:
            for at, (offset, record) in enumerate(held[name][case.partition]):
                made.insert(2 * at + 2, (Line(record, source=offset), producers[name]))
        return made

    def _made(self, record: Record) -> Record:
        made = record._replace(timestamp_type=1)
        return made._replace(value=(made.value or b"") + b"!") if self._kind == "transformed" else made

    async def _write(self, remote: str, copies: Mapping[int, Sequence[tuple[Line, tuple[int, int]]]]) -> None:
        """Batches of one producer each, in the order of the lines; all partitions at once."""
        most = _LARGE if self._kind == "rebatched" else _USUAL
        batches = {number: _batches(lines, most) for number, lines in copies.items()}
        while any(batches.values()):
            now = {number: waiting.pop(0) for number, waiting in batches.items() if waiting}
            by_leader: dict[int, list[tuple[int, memoryview]]] = {}
            for number, view in now.items():
                leader = self._target.metadata.leader(TopicPartition(remote, number))
                by_leader.setdefault(leader, []).append((number, view))
            for leader, some in by_leader.items():
                refused = [code for code in await self._answers(leader, remote, some) if code]
                assert not refused, refused

    async def _answers(self, leader: int, remote: str, batches: Sequence[tuple[int, memoryview]]) -> list[int]:
        """The error codes of all batches; a leader that does not know yet that it is one is asked again."""
        connection = await self._target.connect(leader, "planting")
        version = connection.best_version(produce.API_KEY, produce.LOWEST_VERSION, produce.HIGHEST_VERSION)
        by_id = version >= produce.FIRST_TOPIC_ID_VERSION
        name = topic_id_bytes(self._target.metadata.topics[remote].topic_id) if by_id else remote.encode()
        body = produce.encode_produce(
            version, produce.ALL_REPLICAS, 30_000, [(PartitionKey(name, number), view) for number, view in batches]
        )
        flexible = version >= produce.FIRST_FLEXIBLE_VERSION
        response = produce.decode_produce(version, await connection.send(produce.API_KEY, version, flexible, body))
        answers = response.partitions
        again = {answer.key.partition for answer in answers if error_info(answer.error_code).invalid_metadata}
        told = [answer.error_code for answer in answers if answer.key.partition not in again]
        if again:
            await asyncio.sleep(0.1)
            told += await self._answers(leader, remote, [batch for batch in batches if batch[0] in again])
        return told

    def _state_of(
        self,
        case: Case,
        name: str,
        lines: Sequence[tuple[Line, tuple[int, int]]],
        ends: Mapping[int, int],
        producer: tuple[int, int],
    ) -> tuple[PartitionRecord, SegmentBlock]:
        """What the flow believes of a partition: it wrote what it wrote, and no more of it than it was to write."""
        ours = [(at, line) for at, (line, who) in enumerate(lines) if who == producer and line.source >= 0]
        first = name == self._planted.sources(self._kind)[0]
        if case.under_way and first:
            ours = ours[:_ACKNOWLEDGED]
        source_end = ours[-1][1].source + 1 if case.under_way else ends[case.partition]
        target_end = ours[-1][0] + 1
        segments = _segments(ours)
        remote = self._planted.remote(self._kind)
        ids = (self._source.metadata.topics[name].topic_id, self._target.metadata.topics[remote].topic_id)
        transform = ""
        if self._kind == "transformed":
            (flow,) = (flow for flow in self._planted.settings.flows if flow.name == self._planted.flow)
            chain = flow_chains(flow, lambda: ("a", "b")).chain(name)
            transform = chain.identity if chain is not None else ""
        record = PartitionRecord(
            source_topic_id=ids[0],
            target_topic=remote,
            target_topic_id=ids[1],
            source_offset=source_end,
            target_offset=target_end,
            sequence=len(ours) if self._shared else None,
            producer_id=producer[0] if self._shared else None,
            shared=self._shared,
            origin_source_offset=0,
            origin_target_offset=0,
            origin_sequence=0 if self._shared else None,
            transforms=transform,
        )
        block = SegmentBlock(
            source=TopicPartition(name, case.partition),
            source_topic_id=ids[0],
            target_topic_id=ids[1],
            epoch=1,
            segments=(Segment(0, 0, 0, 0), *segments),
            source_next=source_end,
            transforms=transform,
        )
        return record, block


def _segments(ours: Sequence[tuple[int, Line]]) -> list[Segment]:
    found: list[Segment] = []
    for number, (at, line) in enumerate(ours):
        last = found[-1] if found else None
        if last is not None and (last.source + last.length, last.target + last.length) == (line.source, at):
            found[-1] = last._replace(length=last.length + 1)
        else:
            found.append(Segment(line.source, at, 1, number))
    return found


def _batches(lines: Sequence[tuple[Line, tuple[int, int]]], most: int) -> list[memoryview]:
    """So many records in a batch at most, all by the same producer."""
    runs: list[tuple[tuple[int, int], list[Record]]] = []
    for line, who in lines:
        if runs and runs[-1][0] == who and len(runs[-1][1]) < most:
            runs[-1][1].append(line.record)
        else:
            runs.append((who, [line.record]))
    found: list[memoryview] = []
    sequences: dict[tuple[int, int], int] = {}
    for who, records in runs:
        batch = encode_batch([_encoded(at, record) for at, record in enumerate(records)], "none")
        rewrite(batch, *who, sequences.get(who, 0))
        sequences[who] = sequences.get(who, 0) + len(records)
        found.append(batch.view)
    return found


def _encoded(at: int, record: Record) -> decode.DecodedRecord:
    headers = tuple((name.encode(), value) for name, value in record.headers)
    return decode.DecodedRecord(at, record.timestamp_ms, decode.record_tail(record.key, record.value, headers))


def _fill(
    config: Mapping[str, str | int | float | bool], topic: str, partitions: int, records: int, *, transactional: bool
) -> None:
    """The same number of records in every partition; five keys come again and again."""

    def messages(first: int, end: int) -> list[Message]:
        return [
            Message(
                b"%s %d %d" % (topic.encode(), number, partition),
                b"key %d" % (number % 5),
                (("number", b"%d" % number), ("null", None)),
                partition,
                1_700_000_000_000 + number,
            )
            for number in range(first, end)
            for partition in range(partitions)
        ]

    if not transactional:
        produce_messages(config, topic, messages(0, records))
        return
    parts = [(messages(0, 5), True), (messages(50, 53), False), (messages(5, records), True), (messages(60, 62), False)]
    produce_transactions(config, topic, parts, transactional_id=topic)
