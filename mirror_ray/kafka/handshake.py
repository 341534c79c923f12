"""The first request on a connection: ApiVersions (KIP-35, KIP-511), by hand: old brokers answer in another form."""

from __future__ import annotations

import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.framing import API_VERSIONS_KEY
from mirror_ray.kafka.primitives import compact_text, read_uvarint, skip_tags
from mirror_ray.model.errors import KafkaProtocolError

UNSUPPORTED_VERSION: Final = 35

#: API key to the lowest and the highest version that a broker speaks.
ApiVersions = dict[int, tuple[int, int]]

_SOFTWARE_NAME, _SOFTWARE_VERSION = b"mirror-ray", b"1"
_VERSION_RANGE: Final = struct.Struct(">hhh")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


async def negotiate(
    send: Callable[[int, int, bool, Sequence[bytes]], Awaitable[memoryview]],
) -> tuple[ApiVersions, float]:
    """Ask a broker for the versions that it speaks, by ``send`` of a connection.

    Returns:
        The versions, and how many seconds the answer took.

    Raises:
        ConnectionError: The connection was lost, or the answer can't be read.
    """
    for version in (3, 0):
        began_s = time.monotonic()
        body = await send(API_VERSIONS_KEY, version, version == 3, [api_versions_body(version)])
        took_s = time.monotonic() - began_s
        try:
            versions = parse_api_versions(body, version)
        except (struct.error, IndexError, KafkaProtocolError) as error:
            raise ConnectionError(f"its answer to ApiVersions can't be read: {error}") from error
        if versions is not None:
            return versions, took_s
    raise ConnectionError("it speaks no version of ApiVersions that we know")


def api_versions_body(api_version: int) -> bytes:
    """The body of an ApiVersions request of version 0 or 3."""
    return b"" if api_version == 0 else compact_text(_SOFTWARE_NAME) + compact_text(_SOFTWARE_VERSION) + b"\0"


def parse_api_versions(body: memoryview, api_version: int) -> ApiVersions | None:
    """The versions in an answer; None when the broker asks for version 0 of this request.

    Raises:
        KafkaProtocolError: The broker answered with an error.
        struct.error, IndexError: The bytes are no such answer.
    """
    (code,) = _SHORT.unpack_from(body, 0)
    if code == UNSUPPORTED_VERSION and api_version != 0:
        return None
    if code:
        raise protocol_error(code, "ApiVersions")
    versions: ApiVersions = {}
    if api_version == 0:
        (count,) = _INT.unpack_from(body, 2)
        for key, lowest, highest in _VERSION_RANGE.iter_unpack(body[6 : 6 + 6 * count]):
            versions[key] = (lowest, highest)
        return versions
    length, at = read_uvarint(body, 2)
    for _ in range(length - 1):
        key, lowest, highest = _VERSION_RANGE.unpack_from(body, at)
        versions[key] = (lowest, highest)
        at = skip_tags(body, at + _VERSION_RANGE.size)
    return versions
