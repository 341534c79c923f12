"""Kafka's error codes: their names, and what a client should do about them.

Names and retriability come from Kafka's own table (org.apache.kafka.common.protocol.Errors, by way of kio); which of
them mean that the client's metadata is out of date are the subclasses of Kafka's InvalidMetadataException.
"""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from mirror_ray.model.errors import KafkaProtocolError

_INVALID_METADATA = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.network_exception,
        ErrorCode.kafka_storage_error,
        ErrorCode.listener_not_found,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.preferred_leader_not_available,
        ErrorCode.eligible_leaders_not_available,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """One of Kafka's error codes. ``invalid_metadata``: ask for metadata again before trying again."""

    code: int
    name: str
    retriable: bool
    invalid_metadata: bool


_TABLE = {
    int(error.value): ErrorInfo(
        code=int(error.value),
        name=error.name.upper(),
        retriable=error.retriable,
        invalid_metadata=error in _INVALID_METADATA,
    )
    for error in ErrorCode
}

UNKNOWN_SERVER_ERROR = int(ErrorCode.unknown_server_error.value)
OFFSET_OUT_OF_RANGE = int(ErrorCode.offset_out_of_range.value)
#: A new leader does not know yet what is committed (KIP-207).
OFFSET_NOT_AVAILABLE = int(ErrorCode.offset_not_available.value)
UNKNOWN_TOPIC_OR_PARTITION = int(ErrorCode.unknown_topic_or_partition.value)
LEADER_NOT_AVAILABLE = int(ErrorCode.leader_not_available.value)
NETWORK_EXCEPTION = int(ErrorCode.network_exception.value)
REPLICA_NOT_AVAILABLE = int(ErrorCode.replica_not_available.value)
TOPIC_AUTHORIZATION_FAILED = int(ErrorCode.topic_authorization_failed.value)
CLUSTER_AUTHORIZATION_FAILED = int(ErrorCode.cluster_authorization_failed.value)
REQUEST_TIMED_OUT = int(ErrorCode.request_timed_out.value)
UNKNOWN_LEADER_EPOCH = int(ErrorCode.unknown_leader_epoch.value)
#: The broker does not know, or not in this state, the fetch session that a request belongs to (KIP-227).
FETCH_SESSION_ERRORS = frozenset(
    {
        int(ErrorCode.fetch_session_id_not_found.value),
        int(ErrorCode.invalid_fetch_session_epoch.value),
        int(ErrorCode.fetch_session_topic_id_error.value),
    }
)

#: Names of the errors that may be over when one asks again. CORRUPT_MESSAGE is retriable by Kafka's table, but what a
#: disk has spoilt stays so.
PASSING = frozenset(info.name for info in _TABLE.values() if info.retriable) - {"CORRUPT_MESSAGE"}


def error_info(code: int) -> ErrorInfo:
    """What is known of a code; one that is newer than our table is called ``UNKNOWN_<code>`` and not retriable."""
    known = _TABLE.get(code)
    return known or ErrorInfo(code=code, name=f"UNKNOWN_{code}", retriable=False, invalid_metadata=False)


def protocol_error(code: int, what: str) -> KafkaProtocolError:
    """The error to raise for a code that a broker answered ``what`` with (the request and its object)."""
    return KafkaProtocolError(code, error_info(code).name, what)
