"""The record of a flow's statistics topic: what was copied of one partition in one interval.

Key: ``A->B|topic|partition``. Value: one JSON object whose names are the fields of ``PartitionStatistics``, so that any
reader of JSON, Spark's ``from_json`` among them, reads it. Fields that a reader does not know are passed over.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.records.batch import Codec

_PER_FACTOR_OF_TEN: Final = 8
_LONGEST_LATENCY_MS: Final = 100 * 86_400_000

#: Upper bounds, inclusive, of the latency histogram's buckets in ms: 0, then 8 per factor of ten (whole numbers, so a
#: few less below 10 ms) up to 100 days. The last bucket has no upper bound.
LATENCY_BOUNDS_MS: Final = (
    0,
    *sorted({round(10 ** (step / _PER_FACTOR_OF_TEN)) for step in range(10 * _PER_FACTOR_OF_TEN)}),
    _LONGEST_LATENCY_MS,
)
_LAST_BUCKET: Final = len(LATENCY_BOUNDS_MS) - 1


def latency_bucket(latency_ms: int) -> int:
    """The bucket of a latency: its smallest bound that is not below it; a negative latency is in bucket 0."""
    return LATENCY_BOUNDS_MS[bisect_left(LATENCY_BOUNDS_MS, latency_ms, 0, _LAST_BUCKET)]


class PartitionStatistics(BaseModel):
    """One partition of one flow from ``from_ms`` to ``to_ms``; offsets are positions, the next one to come.

    Counts are sums over the interval's acknowledgements, so those of several records of a partition may be added.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    version: Literal[1] = 1
    #: As ``A->B``.
    flow: str
    topic: str
    partition: NonNegativeInt
    target_topic: str
    target_partition: NonNegativeInt
    #: Empty where a cluster has no topic ids.
    source_topic_id: str
    target_topic_id: str
    #: Others write to the remote topic too: its offsets advance by their records as well.
    shared: bool
    replicator: str
    #: Of the assignment; grows each time the partition is handed out.
    epoch: int
    #: Ms since the epoch; no full minute lies between, or with intervals over a minute no full hour.
    from_ms: int
    to_ms: int
    #: The offset pair (source position, target end) that was acknowledged at ``from_ms``, and at ``to_ms``.
    source_from: int
    source_to: int
    target_from: int
    target_to: int
    records: NonNegativeInt
    batches: NonNegativeInt
    #: Of the record batches as the target's log holds them, headers included.
    wire_bytes: NonNegativeInt
    #: Of the same records as the source's log holds them; null where the writer did not count it.
    source_bytes: NonNegativeInt | None = None
    #: Part of ``wire_bytes``, and what it unpacks to: batches merged or not compressed, and at most one other.
    sampled_wire_bytes: NonNegativeInt
    sampled_uncompressed_bytes: NonNegativeInt
    #: Of the batch that was acknowledged last; null where there was none.
    codec: Codec | None
    #: Number of records by ``latency_bucket``: from a batch's largest timestamp to its acknowledgement.
    latency_ms: dict[int, NonNegativeInt]
    #: At ``to_ms``; null where unknown.
    lag_records: NonNegativeInt | None
    lag_ms: NonNegativeInt | None
    #: The largest in the interval.
    lag_records_max: NonNegativeInt | None
    #: How often the position was recovered after an error or a lost connection.
    restarts: NonNegativeInt

    @property
    def key(self) -> bytes:
        """The record's key."""
        return f"{self.flow}|{self.topic}|{self.partition}".encode()

    def encode(self) -> tuple[bytes, bytes]:
        """Write it as (key, value)."""
        return self.key, self.model_dump_json().encode()


def decode_statistics(value: bytes | None) -> PartitionStatistics:
    """Read a record's value.

    Raises:
        CorruptRecordError: The bytes are no statistics of a version that is known; the text says what is wrong.
    """
    try:
        return PartitionStatistics.model_validate_json(value or b"")
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        what = f"{field}: {first['msg']}" if field else first["msg"]
        raise CorruptRecordError(f"statistics: {what}: {(value or b'')[:80]!r}") from error
