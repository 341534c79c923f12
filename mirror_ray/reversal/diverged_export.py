"""Copies records that only one side has to a topic on the other side, or to files, before they are given up."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
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
from mirror_ray.reversal.cut import PartitionCut, TopicCut
from mirror_ray.verification.partition_log import PartitionLog

#: The header that says which offset a record had.
OFFSET_HEADER: Final = b"mirror-ray.diverged.offset"
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

    async def copy(self, source: ClusterConnections, target: ClusterConnections, topics: Sequence[TopicCut]) -> None:
        """Copy what only ``source`` has of these topics.

        Raises:
            OSError, MirrorError: Some of it may not be there; copy it again.
        """
        for topic in topics:
            for cut in topic.partitions:
                if cut.diverged.count:
                    log = PartitionLog(source, cut.source, topic.source_side.topic_id, purpose="reversal")
                    if self.directory is not None:
                        await self._to_file(self.directory, log, cut)
                    else:
                        await self._to_topic(target, log, cut, topic)

    async def _to_file(self, directory: Path, log: PartitionLog, cut: PartitionCut) -> None:
        name = f"{log.cluster.settings.alias}.{cut.source}.diverged.jsonl"
        with await asyncio.to_thread(_open, directory, name) as file:
            async for records in _diverged(log, cut):
                file.writelines(json.dumps(_document(record)) + "\n" for record in records)

    async def _to_topic(
        self, target: ClusterConnections, log: PartitionLog, cut: PartitionCut, topic: TopicCut
    ) -> None:
        name = f"{log.cluster.settings.alias}.{topic.topic}.diverged"
        await asyncio.to_thread(self._create, target, name, topic.source_side.partitions)
        await target.refresh([name])
        there = TopicPartition(name, cut.source.partition)
        copied_to = await _copied_to(PartitionLog(target, there, target.metadata.topics[name].topic_id))
        writer = InternalTopicWriter(target, name, there.partition, cleanup_policy="delete")
        async for records in _diverged(log, cut):
            fresh = [_with_offset(record) for record in records if record.offset >= copied_to]
            if fresh:
                await writer.append_decoded(fresh)

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


async def _diverged(log: PartitionLog, cut: PartitionCut) -> AsyncIterator[list[DecodedRecord]]:
    if cut.pair is not None:
        async for records in log.records(cut.pair.source_offset, cut.source_end):
            yield records


async def _copied_to(log: PartitionLog) -> int:
    """The offset behind the last record that an export has copied."""
    start, end = await log.start(), await log.end()
    async for records in log.records(max(start, end - 1), end):
        for record in records:
            return int(dict(record.headers).get(OFFSET_HEADER) or b"-1") + 1
    return 0


def _with_offset(record: DecodedRecord) -> DecodedRecord:
    key, value, headers = record.fields()
    tail = record_tail(key, value, (*headers, (OFFSET_HEADER, b"%d" % record.offset)))
    return DecodedRecord(record.offset, record.timestamp, tail)


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
