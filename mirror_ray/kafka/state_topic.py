"""A flow's state: a compacted topic on the target, written by one coordinator at a time.

Blocking: asyncio callers wrap calls in ``asyncio.to_thread``.
"""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore, and are public all the same

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.credential_renewal import CredentialRenewal
from mirror_ray.kafka.internal_topic_reader import latest_records
from mirror_ray.kafka.librdkafka import client_config, kafka_error, mirror_error, until_answered
from mirror_ray.kafka.topic_editor import ClusterEditor
from mirror_ray.model.errors import MirrorError, StateFencedError
from mirror_ray.model.names import FlowName
from mirror_ray.records.decode import DecodedRecord

_LOG = logging.getLogger(__name__)

Document = dict[str, Any]
_T = TypeVar("_T")

#: Names the coordinator that writes: it has read all that was written before it. Not visible to callers.
_OWNER_KEY: Final = "owner"
#: Written by a coordinator that begins a new producer and has to find out who owns the state. Not visible to callers.
_RECONNECTED_KEY: Final = "reconnected"
_OWN_KEYS: Final = (_OWNER_KEY, _RECONNECTED_KEY)

#: Written every second while records flow, and read whole at each start: ten seconds of thousands of partitions.
_SEGMENT_BYTES: Final = 4 << 20

#: How long a write or an open outlives unreachable brokers.
_DEADLINE_S: Final = 60.0
#: How long a command that only reads waits for them.
_PATIENCE_S: Final = 15.0
#: The timeout of one call into the transactional producer; it goes on where it was when called again.
_CALL_S: Final = 5.0
#: Longer than _DEADLINE_S, so that a transaction that waits for brokers is not mistaken for a fenced one; below the
#: brokers' default transaction.max.timeout.ms (15 minutes). A successor's init_transactions ends it at once.
_TRANSACTION_TIMEOUT_MS: Final = 300_000
#: Unacknowledged records that may wait in the producer: a whole flow's partitions in one transaction.
_QUEUE_RECORDS: Final = 1_000_000

_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.FENCED_INSTANCE_ID}
)
_HOPELESS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.MSG_SIZE_TOO_LARGE,
    }
)


def transactional_id(flow: FlowName) -> str:
    """The transactional id of a flow's state; without the system's name, so that two systems of one flow fence."""
    own = f"mirror-ray-{flow.source}-to-{flow.target}"
    if flow.route:
        return f"{own}-route-{flow.route}"
    return f"{own}-backfill-{flow.backfill}" if flow.backfill else own


def gaps_transactional_id(flow: FlowName, replicator: str) -> str:
    """The transactional id by which a replicator fills offset gaps of a flow."""
    return f"{transactional_id(flow)}-gaps-{replicator}"


class StateStore:
    """The state topic of one flow. One call at a time: another one waits, as behind one whose caller was cancelled.

    Guarantees: a write is in the topic whole or not at all, and is there when ``write`` returns, whatever the brokers
    did meanwhile. Once a second store has been opened with the same transactional id, the first one's writes fail with
    StateFencedError and change nothing. The producer's epoch keeps two transactions apart; the owner's key says who may
    go on: a store that was fenced by one that does not own the state takes it back.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        topic: str,
        transactional_id: str,
        audit_log: AuditLog,
        replication_factor: int | None = None,
    ) -> None:
        self._audit_log = audit_log
        self.cluster = cluster
        self.topic = topic
        self.transactional_id = transactional_id
        self._replication_factor = replication_factor
        self._owner = uuid.uuid4().hex
        self._producer: Producer | None = None
        self._renewal = CredentialRenewal(cluster)
        self._fenced = False
        self._call = threading.RLock()

    def open(self) -> dict[str, Document]:
        """Create the topic where it is missing, fence an older coordinator, and read the last value of every key.

        Raises:
            ClusterUnreachableError: The target did not answer within a minute.
            AdminError: A right is missing, or the topic can't be created.
            MirrorError: The topic is not compacted: values would be lost with time.
        """
        admin = ClusterEditor(self.cluster, self.transactional_id, self._audit_log)
        if not admin.ensure_compacted_topic(self.topic, 1, self._replication_factor, _SEGMENT_BYTES):
            _check_compacted(admin, self.topic)
        with self._call:
            self._fenced = False
            # One that has been opened before can't be initialised again.
            self.close()
            self._until_done("open", self._connect)
            # Before reading: this commit also ends our predecessor's last transaction, which a broker that was frozen
            # may have left open although it had confirmed the commit.
            self._commit({_OWNER_KEY: {"session": self._owner}}, self._connect)
        documents = read_state(self.cluster, self.topic, _DEADLINE_S)
        return {key: document for key, document in documents.items() if key not in _OWN_KEYS}

    def write(self, changes: Mapping[str, Document | None]) -> int:
        """Write all of ``changes`` in one transaction; None deletes a key.

        Returns:
            An offset of the topic from which on all of them can be read; -1 when only its start is sure to be one.

        Raises:
            StateFencedError: Another coordinator has opened the store. Nothing was written.
            ClusterUnreachableError: Brokers did not answer for a minute; the changes may or may not be there.
            AdminError: A right is missing, or a value is too large. Nothing was written.
        """
        if not changes:
            return -1
        if own := changes.keys() & _OWN_KEYS:
            raise ValueError(f"keys {own} are the store's own")
        with self._call:
            if self._producer is not None and not self._renewal.renew(self._producer):
                self.close()
            return self._commit(changes, self._reconnect)

    def close(self) -> None:
        """Close the producer. A store can be opened again."""
        with self._call:
            producer, self._producer = self._producer, None
            if producer is not None:
                producer.close()

    def _commit(self, changes: Mapping[str, Document | None], begin: Callable[[], Producer]) -> int:
        """Write all changes in one transaction; ``begin`` makes a producer where there is none."""
        records = [(key.encode(), encode_document(document)) for key, document in changes.items()]
        return self._until_done("write", lambda: self._transaction(self._producer or begin(), records))

    def _until_done(self, what: str, act: Callable[[], _T]) -> _T:
        """Do ``act`` until it succeeds, another coordinator owns the state, or the deadline has passed."""
        if self._fenced:
            raise self._fenced_error()
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            try:
                return act()
            except KafkaException as failure:
                error = kafka_error(failure)
                if error is None or error.code() in _HOPELESS or time.monotonic() > deadline:
                    self._producer = None
                    raise mirror_error(self.cluster, f"{what} state topic {self.topic}", failure) from failure
                _LOG.info("state topic %s: %s, trying again after %s", self.topic, what, error.str())
                if error.code() in _FENCED:
                    # The owner's key says by whom: it may be a store that had to give up since.
                    self._producer = None
                elif what == "write":
                    self._recover(error)
                time.sleep(0.05)

    def _fenced_error(self) -> StateFencedError:
        return StateFencedError(
            f"state topic {self.topic} on cluster {self.cluster.alias} was taken over by another coordinator "
            f"(transactional id {self.transactional_id}): this one must stop; see that only one system runs the flow"
        )

    def _connect(self) -> Producer:
        """Begin a producer; from here on an older one with the same transactional id is fenced."""
        if self._producer is None:
            self._renewal = CredentialRenewal(self.cluster)
            self._producer = Producer(
                client_config(self.cluster, self.transactional_id)
                | {
                    "transactional.id": self.transactional_id,
                    "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                    "linger.ms": 0,
                    "queue.buffering.max.messages": _QUEUE_RECORDS,
                }
            )
            self._await_broker(self._producer)
        self._producer.init_transactions(_CALL_S)
        return self._producer

    def _await_broker(self, producer: Producer) -> None:
        """Connect to a broker: without one librdkafka asks for the transaction coordinator only after half a second.

        The connection to a bootstrap server ends with its first answer, so one answer is not enough.
        """
        for _ in range(2):
            producer.list_topics(self.topic, _CALL_S)

    def _transaction(self, producer: Producer, records: Iterable[tuple[bytes, bytes | None]]) -> int:
        """Write the records; returns the first one's offset, -1 where the broker did not send it."""
        producer.begin_transaction()
        offsets: list[int] = []
        for index, (key, value) in enumerate(records):
            on_delivery = None if index else lambda _error, message: offsets.append(message.offset())
            producer.produce(self.topic, value=value, key=key, partition=0, on_delivery=on_delivery)

        def commit(timeout_s: float) -> None:
            self._renewal.renew(producer)
            producer.commit_transaction(timeout_s)

        until_answered(commit, _DEADLINE_S)
        return max(offsets[-1], -1) if offsets else -1

    def _recover(self, error: KafkaError) -> None:
        """Bring the producer back to where a transaction can begin; otherwise drop it."""
        producer = self._producer
        if producer is None or error.fatal():
            self._producer = None
            return
        try:
            until_answered(producer.abort_transaction, _DEADLINE_S)
        except KafkaException:
            self._producer = None

    def _reconnect(self) -> Producer:
        """Begin a new producer, if no other coordinator owns the state.

        A store that opened the state while our producer began is fenced by it, but has read more than we know: so the
        owner is checked again. The write in between ends a transaction that was left open, as ``open`` does.
        """
        self._check_owner()
        try:
            producer = self._connect()
            self._transaction(producer, [(_RECONNECTED_KEY.encode(), encode_document({"session": self._owner}))])
            self._check_owner()
        except BaseException:
            self._producer = None
            raise
        return producer

    def _check_owner(self) -> None:
        owner = read_state(self.cluster, self.topic, _DEADLINE_S).get(_OWNER_KEY, {})
        if owner.get("session") not in (self._owner, None):
            self._fenced = True
            raise self._fenced_error()


def read_state(cluster: ClusterSettings, topic: str, patience_s: float = _PATIENCE_S) -> dict[str, Document]:
    """The last committed value of every key, as of now; also of a store that another process writes.

    Of that one, the last commit may be missing for some milliseconds: it is confirmed before its marker is in the log.

    Raises:
        ClusterUnreachableError: The cluster did not answer for so long.
        MirrorError: The topic doesn't exist, may not be read, or holds something else.
    """
    records = latest_records(cluster, topic, patience_s=patience_s)
    return dict(_document(topic, record) for record in records.values())


def _document(topic: str, record: DecodedRecord) -> tuple[str, Document]:
    key, value, _ = record.fields()
    try:
        return (key or b"").decode(), json.loads(value or b"")
    except ValueError as error:
        raise MirrorError(
            f"state topic {topic}, offset {record.offset}: not written by mirror-ray ({error}); name the system's "
            f"topics apart, or delete the record"
        ) from error


def encode_document(document: Document | None) -> bytes | None:
    """A record's value; None: its tombstone."""
    if document is None:
        return None
    return json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _check_compacted(admin: ClusterAdmin, topic: str) -> None:
    """A state topic of another cleanup policy forgets, and what is forgotten may be copied twice.

    A broker that does not know the topic yet is asked again.
    """
    deadline = time.monotonic() + _DEADLINE_S
    while (configs := admin.try_describe_topic_configs([topic]).get(topic)) is None:
        if time.monotonic() > deadline:
            raise MirrorError(
                f"state topic {topic} on cluster {admin.cluster.alias} is listed, but its brokers don't know its "
                f"configs: was it deleted just now? Start again"
            )
        time.sleep(0.05)
    policy = configs["cleanup.policy"].value if isinstance(configs, dict) and "cleanup.policy" in configs else None
    if policy not in (None, "compact"):
        raise MirrorError(
            f"state topic {topic} on cluster {admin.cluster.alias} has cleanup.policy={policy}: its records would be "
            f"lost with time. Set cleanup.policy=compact on it"
        )
