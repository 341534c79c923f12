"""The first words on a connection: ApiVersions (KIP-35, KIP-511), by hand: an old broker answers in another form.

Also the request and response headers around every message (Kafka's RequestHeader.json and ResponseHeader.json).
"""

from __future__ import annotations

import struct

from mirror_ray.kafka.errors import protocol_error
from mirror_ray.kafka.primitives import read_uvarint, skip_tags

API_VERSIONS_KEY = 18
UNSUPPORTED_VERSION = 35

_SOFTWARE_NAME = b"mirror-ray"
_SOFTWARE_VERSION = b"1"
_REQUEST_HEAD = struct.Struct(">ihhih")
_VERSION_RANGE = struct.Struct(">hhh")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


def request_header(
    *, api_key: int, api_version: int, correlation_id: int, client_id: bytes, flexible: bool, body_bytes: int
) -> bytes:
    """The length field and the request header (version 2 when flexible, else 1) of a request with that much body."""
    size = _REQUEST_HEAD.size - 4 + len(client_id) + flexible + body_bytes
    head = _REQUEST_HEAD.pack(size, api_key, api_version, correlation_id, len(client_id))
    return head + client_id + (b"\0" if flexible else b"")


def body_start(frame: memoryview, flexible: bool) -> int:
    """Where the body begins in a response frame that starts with the correlation id."""
    if not flexible:
        return 4
    return 5 if frame[4] == 0 else skip_tags(frame, 4)


def api_versions_body(api_version: int) -> bytes:
    """The body of an ApiVersions request of version 0 or 3."""
    if api_version == 0:
        return b""
    name, version = _SOFTWARE_NAME, _SOFTWARE_VERSION
    return bytes([len(name) + 1]) + name + bytes([len(version) + 1]) + version + b"\0"


def parse_api_versions(body: memoryview, api_version: int) -> dict[int, tuple[int, int]] | None:
    """What a broker speaks: API key to (lowest, highest) version; None when it asks for version 0 of this request.

    Raises:
        KafkaProtocolError: The broker answered with an error.
    """
    (code,) = _SHORT.unpack_from(body, 0)
    if code == UNSUPPORTED_VERSION and api_version != 0:
        return None
    if code:
        raise protocol_error(code, "ApiVersions")
    versions: dict[int, tuple[int, int]] = {}
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
