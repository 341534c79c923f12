"""How far MM2's source connector has come, as Kafka Connect keeps it in ``mm2-offsets.<source>.internal``.

Sources: ``MirrorUtils.wrapPartition``/``wrapOffset`` and ``MirrorSourceTask`` of Kafka 4.3, Connect's
``OffsetStorageWriter`` and ``JsonConverter`` without schemas. Connect looks keys up by their bytes, so the fields must
come in the order of MM2's ``HashMap``: cluster, partition, topic.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Self

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicPartition

#: The connector's name in dedicated mode.
SOURCE_CONNECTOR: Final = "MirrorSourceConnector"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """How far MM2 has copied a source partition. ``offset``: of the last record copied; None: deleted, MM2 restarts."""

    connector: str
    #: The source cluster's alias.
    cluster: str
    #: The source's.
    partition: TopicPartition
    offset: int | None

    def encode(self) -> tuple[bytes, bytes | None]:
        """Write it as (key, value), byte for byte as MM2 does."""
        fields = {"cluster": self.cluster, "partition": self.partition.partition, "topic": self.partition.topic}
        return _json([self.connector, fields]), None if self.offset is None else _json({"offset": self.offset})

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Self | None:
        """Read it from a record of Connect's offsets topic; None: it is another kind of connector's.

        Raises:
            CorruptRecordError: The bytes are no source offset.
        """
        match _parsed(key):
            case [str(connector), {"cluster": str(cluster), "partition": int(number), "topic": str(topic)}]:
                partition = TopicPartition(topic, number)
            case _:
                return None
        if value is None:
            return cls(connector=connector, cluster=cluster, partition=partition, offset=None)
        match _parsed(value):
            case {"offset": int(offset)}:
                # A negative one means nothing committed (MirrorSourceTask.isUncommitted).
                return cls(
                    connector=connector, cluster=cluster, partition=partition, offset=offset if offset >= 0 else None
                )
            case _:
                raise CorruptRecordError(f"source offset of {partition}: {value[:60]!r} is no offset of MM2's")


def _parsed(data: bytes | None) -> Any:
    try:
        return json.loads(data or b"null")
    except ValueError as error:
        raise CorruptRecordError(f"source offset: {(data or b'')[:60]!r} is not JSON: {error}") from error


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
