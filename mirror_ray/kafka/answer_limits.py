"""How large an answer may be, by what was asked: before anything is allocated for it.

Before a broker has proved who it is, nothing but the three small answers below is asked for.
"""

from __future__ import annotations

from typing import Final

from mirror_ray.kafka import fetch, sasl
from mirror_ray.kafka.handshake import API_VERSIONS_KEY

#: What a broker says before it has let us in is a list of numbers, or some hundred bytes of SASL.
SETUP_LIMIT_BYTES: Final = 64 << 10
#: As librdkafka's default (``receive.message.max.bytes``) for all answers: metadata of a million partitions in three
#: replicas is 60 MB, and lists of groups, offsets and configs are asked for in pieces.
ANSWER_LIMIT_BYTES: Final = 100_000_000
#: A fetch brings its first batch whole, however large: far more than any broker's ``message.max.bytes``.
FETCH_LIMIT_BYTES: Final = 256 << 20

_LIMITS: Final = {
    API_VERSIONS_KEY: SETUP_LIMIT_BYTES,
    sasl.HANDSHAKE_KEY: SETUP_LIMIT_BYTES,
    sasl.AUTHENTICATE_KEY: SETUP_LIMIT_BYTES,
    fetch.API_KEY: FETCH_LIMIT_BYTES,
}


def most_bytes(api_key: int) -> int:
    """The largest answer to a request of this API that is received."""
    return _LIMITS.get(api_key, ANSWER_LIMIT_BYTES)
