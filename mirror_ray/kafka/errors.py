"""Kafka's error codes: their names, and what a client should do about them; and what it means that nobody answers.

Names and retriability come from Kafka's own table (org.apache.kafka.common.protocol.Errors, by way of kio); which of
them mean that the client's metadata is out of date are the subclasses of Kafka's InvalidMetadataException.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from mirror_ray.model.errors import AccessDeniedError, ClusterUnreachableError, KafkaProtocolError, MirrorError

if TYPE_CHECKING:
    from mirror_ray.config.settings import ClusterSettings

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

#: Names of the errors that may be over when one asks again. CORRUPT_MESSAGE is retriable by Kafka's table, but damaged
#: bytes on a disk stay so.
PASSING = frozenset(info.name for info in _TABLE.values() if info.retriable) - {"CORRUPT_MESSAGE"}


def error_info(code: int) -> ErrorInfo:
    """The error of a code; one that is newer than our table is called ``UNKNOWN_<code>`` and not retriable."""
    known = _TABLE.get(code)
    return known or ErrorInfo(code=code, name=f"UNKNOWN_{code}", retriable=False, invalid_metadata=False)


def protocol_error(code: int, what: str) -> KafkaProtocolError:
    """The error to raise for a code that a broker answered ``what`` with (the request and its object)."""
    return KafkaProtocolError(code, error_info(code).name, what)


def may_pass(error: BaseException) -> bool:
    """Whether a request that failed so may succeed when it is sent again."""
    if isinstance(error, KafkaProtocolError):
        return error.name in PASSING
    return isinstance(error, OSError | ClusterUnreachableError) and not isinstance(error, AccessDeniedError)


def no_broker_answers(settings: ClusterSettings, problems: Iterable[str]) -> ClusterUnreachableError:
    """No connection to any broker came about; ``problems``: why each did not."""
    return ClusterUnreachableError(
        f"cluster {settings.alias}: no broker answers ({'; '.join(problems)}); "
        f"check {settings.alias}.bootstrap.servers, the network and security.protocol"
    )


def no_broker_in_service(settings: ClusterSettings) -> ClusterUnreachableError:
    """The cluster's metadata names no broker: one answers, and none leads anything."""
    return ClusterUnreachableError(
        f"cluster {settings.alias} ({', '.join(settings.bootstrap_servers)}) has no broker in service: all of them are "
        f"fenced, as they are while their controller does not hear from them. Check the controllers, and the brokers' "
        f"way to them; then try again"
    )


def did_not_answer(settings: ClusterSettings, what: str, cause: BaseException | str) -> MirrorError:
    """``what`` was tried until the time was over; ``cause``: why the last try failed."""
    if isinstance(cause, MirrorError):
        return cause
    return ClusterUnreachableError(
        f"cluster {settings.alias} did not answer ({what}: {str(cause) or 'no answer in time'}): check "
        f"{settings.alias}.bootstrap.servers = {', '.join(settings.bootstrap_servers)} and that its brokers are up"
    )
