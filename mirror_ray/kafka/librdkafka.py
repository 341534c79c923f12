"""Configuration of confluent-kafka's clients (librdkafka), and the meaning of their errors."""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore, and are public all the same

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.errors import did_not_answer, error_info
from mirror_ray.model.errors import AccessDeniedError, KafkaProtocolError, MirrorError

if TYPE_CHECKING:
    from mirror_ray.kafka.security import ClientSecurity

_LOG = logging.getLogger(__name__)

#: syslog's "emergency": what matters comes by ``error_cb`` and as exceptions.
_LOG_LEVEL_EMERGENCY: Final = 0

_T = TypeVar("_T")

_REPEAT_S: Final = 60.0
#: The timeout of one call into a client; a call that is repeated goes on where it was.
_CALL_S: Final = 5.0
#: Between two checks whether a broker of a cluster whose brokers were all fenced is back in service.
FENCED_PAUSE_S: Final = 0.25

_UNREACHABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._DESTROY,
    }
)
_TRANSIENT: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
REFUSED_CREDENTIALS: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
)

_WORDS: Final = {
    KafkaError._TRANSPORT: "no connection to a broker",
    KafkaError._ALL_BROKERS_DOWN: "no connection to any broker",
    KafkaError._RESOLVE: "a broker's name leads to no address",
    KafkaError._TIMED_OUT: "no answer in time",
    KafkaError._TIMED_OUT_QUEUE: "no answer in time",
    KafkaError._MSG_TIMED_OUT: "no answer in time",
    KafkaError._DESTROY: "its connections were closed since no broker answered",
    KafkaError._SSL: "TLS did not come about",
    KafkaError._AUTHENTICATION: "SASL did not come about",
    KafkaError._BAD_MSG: "what answers does not speak Kafka's protocol",
}
#: How librdkafka names the broker of an error: ``sasl_ssl://HOST:PORT/bootstrap: ...``.
_ADDRESS: Final = re.compile(r"(?:\w+://)?([^\s/]+:\d+)/")

_NEXT_STEPS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant our principal the right (`mirror-ray plan` lists all it needs)",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant our principal the right (`mirror-ray plan` lists all it needs)",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant our principal WRITE and DESCRIBE on the transactional id",
    KafkaError.INVALID_REPLICATION_FACTOR: "set a replication factor that the cluster's brokers can hold",
    KafkaError.POLICY_VIOLATION: "the cluster's create.topic.policy refuses it: create the topic by hand or exclude it",
    KafkaError.INVALID_CONFIG: "exclude the config in config.properties.exclude, or upgrade the cluster",
}


class AdminError(KafkaProtocolError):
    """A broker refused an administrative request. ``detail`` is its own text, ``next_step`` what to do."""

    def __init__(self, code: int, name: str, what: str, detail: str, next_step: str) -> None:
        super().__init__(code, name, what)
        self.args = (code, name, what, detail, next_step)
        self.detail = detail
        self.next_step = next_step

    def __str__(self) -> str:
        step = f" Next step: {self.next_step}." if self.next_step else ""
        return f"{super().__str__()}: {self.detail.rstrip('.')}.{step}"


class ErrorLog:
    """Brings librdkafka's errors to Python's logging; one that repeats is logged once a minute."""

    def __init__(self, alias: str, client_id: str) -> None:
        #: The last error that says what is wrong.
        self.last: KafkaError | None = None
        self._who = f"cluster {alias} ({client_id})"
        self._logged_at: dict[int, float] = {}

    def __call__(self, error: KafkaError) -> None:
        """Log the error; the ``error_cb`` of a client."""
        # "All brokers are down" says less than the connection error before it.
        if self.last is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error
        now = time.monotonic()
        if now - self._logged_at.get(error.code(), -_REPEAT_S) >= _REPEAT_S:
            self._logged_at[error.code()] = now
            _LOG.warning("%s: %s", self._who, described(error))


def client_config(cluster: ClusterSettings, client_id: str) -> dict[str, Any]:
    """Configuration for a confluent-kafka client of this cluster: addresses, security, timeouts, logging.

    Errors go to Python's logging as warnings when the client is polled; nothing goes to stderr. The values hold
    secrets: never log them. Blocking.

    Raises:
        ClusterUnreachableError: There is no token to be had for OAUTHBEARER.
        AccessDeniedError: With SCRAM, a broker refuses us, or we refuse it.
        ConfigError: The security settings can't be used; names the key and the file.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": ",".join(cluster.bootstrap_servers),
        "client.id": client_id,
        "socket.connection.setup.timeout.ms": max(1_000, cluster.connection_setup_timeout_ms),
        "socket.timeout.ms": min(300_000, max(1_000, cluster.request_timeout_ms)),
        "metadata.max.age.ms": max(1_000, cluster.metadata_max_age_ms),
        "log_level": _LOG_LEVEL_EMERGENCY,
        "logger": _LOG,
        "error_cb": ErrorLog(cluster.alias, client_id),
    }
    if cluster.client_rack:
        config["client.rack"] = cluster.client_rack
    if cluster.security.protocol != "PLAINTEXT":
        from mirror_ray.kafka.security import ClientSecurity

        security = ClientSecurity.build(cluster.alias, cluster.security)
        _prove_brokers(cluster, security)
        config.update(security.as_librdkafka())
    return config


def _prove_brokers(cluster: ClusterSettings, security: ClientSecurity) -> None:
    """With SCRAM, authenticate by raw connections first: librdkafka proves the password at any number of iterations.

    They refuse a broker that does not know the password; one that can't be reached now is passed over.

    Raises:
        AccessDeniedError: A broker refuses us, or we refuse it.
    """
    if security.mechanism is not None and security.mechanism.name.startswith("SCRAM"):
        from mirror_ray.kafka.probe import begin_probe

        problem = begin_probe(cluster).result()
        if isinstance(problem, AccessDeniedError):
            raise problem


def kafka_error(error: BaseException) -> KafkaError | None:
    """The KafkaError that an exception of confluent-kafka carries."""
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return error.args[0]
    return None


def until_answered(call: Callable[[float], _T], patience_s: float) -> _T:
    """Make a client's call, which takes its timeout in seconds, again and again while brokers can't answer it.

    Raises:
        KafkaException: A failure that will not pass, or the last one when ``patience_s`` are over.
    """
    deadline = time.monotonic() + patience_s
    while True:
        left = deadline - time.monotonic()
        try:
            return call(max(0.1, min(_CALL_S, left)))
        except KafkaException as failure:
            error = kafka_error(failure)
            again = error is not None and (error.retriable() or error.code() in _TRANSIENT)
            if not again or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def list_in_service(client: Any, topic: str | None, timeout_s: float) -> Any | None:
    """A client's ``list_topics``; None where its answer names no broker: every one of the cluster is fenced.

    Raises:
        KafkaException: Nobody answers, or it is refused.
    """
    try:
        metadata = client.list_topics(topic, timeout=timeout_s) if topic else client.list_topics(timeout=timeout_s)
    except KafkaException as failure:
        # Neither a broker nor a topic: the client takes that for half an answer.
        if (error := kafka_error(failure)) is not None and error.code() == KafkaError._PARTIAL:
            return None
        raise
    return metadata if metadata.brokers else None


def described(error: KafkaError) -> str:
    """The text of an error; of our own where librdkafka's names its keys or counts its connections."""
    words = _WORDS.get(error.code())
    if words is None:
        return str(error.str())
    address = _ADDRESS.match(error.str())
    return f"{words} ({address[1]})" if address else words


def mirror_error(cluster: ClusterSettings, what: str, error: BaseException, cause: str | None = None) -> MirrorError:
    """What a failed call of confluent-kafka means to a user.

    ``what`` is the call and its object ("create topic A.orders"), ``cause`` the connection's last error.
    """
    known = kafka_error(error)
    if known is None:
        return MirrorError(f"cluster {cluster.alias}: {what}: {error}")
    cause = cause or described(known)
    if known.code() in REFUSED_CREDENTIALS:
        return AccessDeniedError(
            f"cluster {cluster.alias} ({', '.join(cluster.bootstrap_servers)}) refused our credentials or certificates "
            f"({cause}): check {cluster.alias}.security.protocol, sasl.* and ssl.*"
        )
    if known.code() in _UNREACHABLE:
        return did_not_answer(cluster, what, cause)
    next_step = _NEXT_STEPS.get(known.code(), "")
    name = error_info(known.code()).name if known.code() > 0 else known.name()
    return AdminError(known.code(), name, f"cluster {cluster.alias}: {what}", known.str(), next_step)
