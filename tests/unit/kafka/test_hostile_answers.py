"""A broker that answers with changed bytes, to each request there is: nothing but the room's errors, and soon."""

from __future__ import annotations

import asyncio
import base64
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import ClusterSettings, SaslMechanism, SaslSettings, SecuritySettings
from mirror_ray.kafka import fetch, produce
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.partition_reader import fetch_at
from mirror_ray.model.errors import CorruptBatchError, MirrorError
from mirror_ray.model.names import NO_TOPIC_ID, TopicPartition
from tests.support.fuzzing import EDITS, Edit, edited, fuzzing
from tests.unit.kafka.hostile_broker import Asked, api_versions, frame, sasl_answers, serving

METADATA, FETCH, AUTHENTICATE, VERSIONS = 3, 1, 36, 18
TOPIC = TopicPartition("t", 0)


def server_first(asked: Asked) -> bytes:
    """Of SCRAM."""
    nonce = asked.body.rpartition(b"r=")[2].rstrip(b"\0")
    return b"r=" + nonce + b"x,s=" + base64.b64encode(b"sixteen bytes ok") + b",i=4096"


class Broker:
    """Answers well, up to one request, whose answer is changed; then it hangs up."""

    def __init__(self) -> None:
        self.port = 0
        self.changed, self.edits, self.keep_length = -1, list[Edit](), True
        self._over = False
        self._scram = sasl_answers(server_first)
        self._plain = sasl_answers(b"")
        self.mechanism: SaslMechanism = "PLAIN"

    def prepare(self, changed: int, edits: list[Edit], *, keep_length: bool) -> None:
        """For the next connection."""
        self.changed, self.edits, self.keep_length, self._over = changed, edits, keep_length, False

    def __call__(self, asked: Asked) -> bytes | None:
        """Answer the request, or hang up."""
        if self._over:
            self._over = False
            return None
        answer = self._good(asked)
        if asked.api_key != self.changed:
            return answer
        self._over = True
        changed = edited(answer[4:], self.edits)
        return (answer[:4] if not self.keep_length else struct.pack(">i", len(changed))) + changed

    def _good(self, asked: Asked) -> bytes:
        if asked.api_key == VERSIONS:
            return api_versions(asked)
        if asked.api_key == METADATA:
            return frame(asked.correlation_id, self._metadata(), flexible=True)
        if asked.api_key == FETCH:
            return frame(asked.correlation_id, fetched(12), flexible=True)
        return (self._scram if self.mechanism != "PLAIN" else self._plain)(asked) or b""

    def _metadata(self) -> bytes:
        broker = struct.pack(">i", 1) + b"\x0a127.0.0.1" + struct.pack(">i", self.port) + b"\0\0"
        partition = struct.pack(">hiii", 0, 0, 1, 3) + b"\x02\0\0\0\x01" * 2 + b"\x01\0"
        topic = (
            struct.pack(">h", 0)
            + b"\x02t"
            + bytes(15)
            + b"\x07"
            + b"\0\x02"
            + partition
            + struct.pack(">i", -1)
            + b"\0"
        )
        return struct.pack(">i", 0) + b"\x02" + broker + b"\x03id" + struct.pack(">i", 1) + b"\x02" + topic + b"\0"


def fetched(version: int) -> bytes:
    """A good answer to a fetch, of 40 bytes that are no batch."""
    head = struct.pack(">ihi", 0, 0, 0)
    numbers = struct.pack(">ihqqq", 0, 0, 10, 10, 0)
    if version < 12:
        one = numbers + struct.pack(">iqqii", 1, 5, 6, -1, 40) + b"r" * 40
        return head + struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 1) + one
    topic = b"\x02t" if version == 12 else bytes(16)
    one = numbers + b"\x02" + struct.pack(">qq", 5, 6) + b"\0" + struct.pack(">i", -1) + b"\x29" + b"r" * 40 + b"\0"
    return head + b"\x02" + topic + b"\x02" + one + b"\0\0"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One for all examples."""
    found = Broker()
    with serving(found) as port:
        found.port = port
        yield found


async def ask_everything(port: int, mechanism: SaslMechanism, patience_ms: int) -> None:
    """Connect, authenticate, ask for metadata, and fetch."""
    sasl = SaslSettings(mechanism=mechanism, username="alice", password=Secret("hush-hush"))
    settings = ClusterSettings(
        alias="A",
        bootstrap_servers=(f"127.0.0.1:{port}",),
        security=SecuritySettings(protocol="SASL_PLAINTEXT", sasl=sasl),
        connection_setup_timeout_ms=patience_ms,
        request_timeout_ms=patience_ms,
    )
    cluster = ClusterConnections(settings, "test")
    try:
        metadata = await cluster.refresh()
        for broker in metadata.brokers:
            connection = await cluster.connect(broker, "data")
            await fetch_at(connection, {TOPIC: NO_TOPIC_ID}, {TOPIC: 0})
    finally:
        await cluster.close()


def test_unchanged_answers_are_read(broker: Broker) -> None:
    """Or else nothing would be learned from changed ones."""
    broker.mechanism = "SCRAM-SHA-256"
    broker.prepare(-1, [], keep_length=True)
    with pytest.raises(MirrorError, match="not what SCRAM wants"):
        asyncio.run(ask_everything(broker.port, broker.mechanism, 10_000))
    broker.mechanism = "PLAIN"
    asyncio.run(ask_everything(broker.port, broker.mechanism, 10_000))


@fuzzing(40)
@given(st.sampled_from((VERSIONS, 17, AUTHENTICATE, METADATA, FETCH)), EDITS, st.booleans(), st.booleans())
def test_changed_answers_are_named(
    broker: Broker, changed: int, edits: list[Edit], keep_length: bool, scram: bool
) -> None:
    """Whatever is changed, and wherever: nothing waits longer than its time limit."""
    broker.mechanism = "SCRAM-SHA-256" if scram else "PLAIN"
    broker.prepare(changed, edits, keep_length=keep_length)
    began_s = time.monotonic()
    try:
        asyncio.run(ask_everything(broker.port, broker.mechanism, 200))
    except (ConnectionError, MirrorError) as error:
        assert "hush-hush" not in str(error)  # noqa: PT017 - it may also come about
    assert time.monotonic() - began_s < 6


@fuzzing(200)
@given(st.sampled_from((11, 12, 13, 16)), EDITS)
def test_changed_fetches_are_corrupt_and_nothing_else(version: int, edits: list[Edit]) -> None:
    """Of each version, without a connection."""
    began_s = time.process_time()
    with suppress(CorruptBatchError):
        fetch.decode_fetch(version, memoryview(bytearray(edited(fetched(version), edits))))
    assert time.process_time() - began_s < 1


@fuzzing(200)
@given(st.sampled_from((8, 9, 10, 13)), st.binary(max_size=80), EDITS)
def test_random_produce_answers_are_corrupt_and_nothing_else(version: int, data: bytes, edits: list[Edit]) -> None:
    """As above."""
    began_s = time.process_time()
    with suppress(CorruptBatchError):
        produce.decode_produce(version, memoryview(bytearray(edited(data, edits))))
    assert time.process_time() - began_s < 1
