"""Copies records that only one side has to a topic on the other side, or to files, before they are given up."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.topics import NewRemoteTopic
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.reversal.cut import LogSpan, TopicCut
from mirror_ray.verification.partition_log import PartitionLog

#: The header that says which offset a record had.
OFFSET_HEADER: Final = b"mirror-ray.diverged.offset"
#: The header that says by which reversal of the flow it was copied.
TURN_HEADER: Final = b"mirror-ray.diverged.reversal"
#: The value of the option that asks for topics.
TO_TOPICS: Final = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergedExport:
    """Where to; an export that broke off goes on where it was."""

    #: A directory for files; None: topics on the target.
    directory: Path | None
    audit_log: AuditLog

    @property
    def where(self) -> str:
        """For people."""
        return f"files in {self.directory}" if self.directory is not None else "topics SOURCE.TOPIC.diverged"

    async def copy(
        self, source: ClusterConnections, target: ClusterConnections, topics: Sequence[TopicCut], turn: int
    ) -> None:
        """Copy what only ``source`` has of these topics; ``turn``: of the reversal, which tells exports apart.

        Raises:
            OSError, MirrorError: Some of it may not be there; copy it again.
        """
        for topic in topics:
            for span in topic.spans:
                log = PartitionLog(source, span.partition, topic.source_side.topic_id, purpose="reversal")
                if self.directory is not None:
                    await _to_file(self.directory, log, span, turn)
                else:
                    await self._to_topic(target, log, span, (topic.source_side.partitions, turn))

    async def _to_topic(
        self, target: ClusterConnections, log: PartitionLog, span: LogSpan, size: tuple[int, int]
    ) -> None:
        partitions, turn = size
        name = f"{log.cluster.settings.alias}.{span.partition.topic}.diverged"
        await asyncio.to_thread(self._create, target, name, partitions)
        await target.refresh([name])
        there = TopicPartition(name, span.partition.partition)
        copied_to = await _copied_to(PartitionLog(target, there, target.metadata.topics[name].topic_id), turn)
        writer = InternalTopicWriter(target, name, there.partition, cleanup_policy="delete")
        async for records in log.records(max(span.start, copied_to), span.end):
            if records:
                await writer.append_decoded([_marked(record, turn) for record in records])

    def _create(self, target: ClusterConnections, name: str, partitions: int) -> None:
        editor = ClusterEditor(target.settings, "mirror-ray-reversal", self.audit_log)
        try:
            if name not in editor.list_topics():
                errors = editor.create_topics(
                    [NewRemoteTopic(name=name, partitions=partitions, configs={"retention.ms": "-1"})]
                )
                for error in filter(None, errors.values()):
                    raise error
        finally:
            editor.close()


def _open(directory: Path, name: str) -> TextIO:
    directory.mkdir(parents=True, exist_ok=True)
    return (directory / name).open("w", encoding="utf-8")


async def _to_file(directory: Path, log: PartitionLog, span: LogSpan, turn: int) -> None:
    name = f"{log.cluster.settings.alias}.{span.partition}.reversal-{turn}.diverged.jsonl"
    with await asyncio.to_thread(_open, directory, name) as file:
        async for records in log.records(span.start, span.end):
            file.writelines(json.dumps(_document(record)) + "\n" for record in records)


async def _copied_to(log: PartitionLog, turn: int) -> int:
    """The offset behind the last record that the export of this turn has copied; 0: it has copied none."""
    start, end = await log.start(), await log.end()
    async for records in log.records(max(start, end - 1), end):
        for record in records:
            headers = dict(record.headers)
            if headers.get(TURN_HEADER) == b"%d" % turn:
                return int(headers.get(OFFSET_HEADER) or b"-1") + 1
    return 0


def _marked(record: DecodedRecord, turn: int) -> DecodedRecord:
    key, value, headers = record.fields()
    marks = ((OFFSET_HEADER, b"%d" % record.offset), (TURN_HEADER, b"%d" % turn))
    return DecodedRecord(record.offset, record.timestamp, record_tail(key, value, (*headers, *marks)))


def _document(record: DecodedRecord) -> dict[str, object]:
    key, value, headers = record.fields()
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _text(key),
        "value": _text(value),
        "headers": [[name.decode(errors="replace"), _text(content)] for name, content in headers],
    }


def _text(content: bytes | None) -> str | None:
    """Base64, so that any bytes are kept."""
    return None if content is None else base64.b64encode(content).decode()
