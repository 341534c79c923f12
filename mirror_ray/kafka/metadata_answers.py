"""Reads answers about all topics of a cluster: what the last one said is not read again.

Each side of each flow asks every few seconds, and hardly an answer differs from the last one, whoever asked. So a
process decodes one of them for all of its connections, and what they know of a topic is one object.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kio.static.protocol import RequestPayload

from mirror_ray.kafka.kio_messages import decode
from mirror_ray.kafka.metadata import BrokerAddress, ClusterMetadata, TopicMetadata, described
from mirror_ray.kafka.primitives import read_compact_text, read_uvarint, skip_tags

_INT: Final = struct.Struct(">i")
#: ThrottleTimeMs is in front.
_BROKERS_AT: Final = 4


class TopicAnswers:
    """The last answer of each cluster, as bytes and as what they mean."""

    def __init__(self) -> None:
        #: By cluster id and version of the request.
        self._last: dict[tuple[str, int], tuple[bytes, dict[str, TopicMetadata]]] = {}
        #: Answers that were decoded.
        self.decoded = 0

    def read(self, request: type[RequestPayload], body: memoryview) -> ClusterMetadata:
        """An answer to a request for all topics, versions 9 to 12.

        Raises:
            ValueError: It can't be read.
        """
        try:
            cluster_id, brokers, controller_id, at = _head(body)
        except (IndexError, struct.error) as error:
            raise ValueError(f"its answer to {request.__name__} can't be read: {error!r}") from error
        key = (cluster_id, request.__version__)
        known = self._last.get(key)
        if known is None or known[0] != body[at:]:
            answer: Any = decode(request, body)
            known = self._last[key] = bytes(body[at:]), described(answer).topics
            self.decoded += 1
        return ClusterMetadata(cluster_id=cluster_id, brokers=brokers, controller_id=controller_id, topics=known[1])


def _head(body: memoryview) -> tuple[str, dict[int, BrokerAddress], int, int]:
    """Cluster id, brokers and controller, and where the topics begin. KRaft names any broker as the controller."""
    count, at = read_uvarint(body, _BROKERS_AT)
    brokers: dict[int, BrokerAddress] = {}
    for _ in range(count - 1):
        broker, at = read_broker(body, at)
        brokers[broker.id] = broker
    cluster_id, at = read_compact_text(body, at)
    (controller_id,) = _INT.unpack_from(body, at)
    return cluster_id or "", brokers, controller_id, at + _INT.size


def read_broker(body: bytes | memoryview, at: int) -> tuple[BrokerAddress, int]:
    """A broker's id, host, port and rack, as several flexible responses have them; and where it ends.

    Raises:
        struct.error, IndexError: The body ends too early.
    """
    (number,) = _INT.unpack_from(body, at)
    host, at = read_compact_text(body, at + _INT.size)
    (port,) = _INT.unpack_from(body, at)
    rack, at = read_compact_text(body, at + _INT.size)
    return BrokerAddress(id=number, host=host or "", port=port, rack=rack), skip_tags(body, at)


#: Of this process.
TOPIC_ANSWERS: Final = TopicAnswers()
