"""A broker on loopback that answers each request with what a test gives it, or speaks something else altogether."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import SaslSettings, SecuritySettings
from mirror_ray.kafka.primitives import uvarint

PLAINTEXT = SecuritySettings()
BY_SCRAM = SecuritySettings(
    protocol="SASL_PLAINTEXT",
    sasl=SaslSettings(mechanism="SCRAM-SHA-256", username="alice", password=Secret("hush-hush")),
)


class Asked(NamedTuple):
    """A request as it comes in. ``body``: behind the fixed part of its header, so client id and tags come first."""

    api_key: int
    version: int
    correlation_id: int
    body: bytes = b""


#: The bytes to send, length and header included; None: hang up.
Answers = Callable[[Asked], bytes | None]

_HEAD = struct.Struct(">ihhi")
_VERSIONS = {0: (3, 8), 1: (4, 12), 3: (9, 12), 17: (1, 1), 18: (0, 3), 36: (0, 2)}


def frame(correlation_id: int, body: bytes, *, flexible: bool = False) -> bytes:
    """An answer as it is on the wire."""
    content = struct.pack(">i", correlation_id) + (b"\0" if flexible else b"") + body
    return struct.pack(">i", len(content)) + content


def api_versions(asked: Asked) -> bytes:
    """What a good broker answers to ApiVersions."""
    version, correlation_id = asked.version, asked.correlation_id
    ranges = [struct.pack(">hhh", key, *bounds) for key, bounds in _VERSIONS.items()]
    if version == 0:
        return frame(correlation_id, struct.pack(">hi", 0, len(ranges)) + b"".join(ranges))
    body = struct.pack(">h", 0) + bytes([len(ranges) + 1]) + b"".join(encoded + b"\0" for encoded in ranges)
    return frame(correlation_id, body + bytes(5))


def sasl_answers(said: bytes | Callable[[Asked], bytes]) -> Answers:
    """ApiVersions and SaslHandshake well, and this to every SaslAuthenticate."""

    def answer(asked: Asked) -> bytes:
        if asked.api_key == 18:
            return api_versions(asked)
        if asked.api_key == 17:
            return frame(asked.correlation_id, struct.pack(">hi", 0, 0))
        text = said(asked) if callable(said) else said
        if asked.version < 2:
            body = struct.pack(">hhi", 0, -1, len(text)) + text + (bytes(8) if asked.version else b"")
            return frame(asked.correlation_id, body)
        body = struct.pack(">h", 0) + b"\0" + uvarint(len(text) + 1) + text + bytes(8) + b"\0"
        return frame(asked.correlation_id, body, flexible=True)

    return answer


@contextmanager
def serving(answers: Answers | bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port that it answers on meanwhile. Bytes are sent to whatever comes, and end the connection."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError, EOFError):
                _serve(
                    self.request if context is None else context.wrap_socket(self.request, server_side=True), answers
                )

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def _serve(sock: socket.socket, answers: Answers | bytes) -> None:
    while True:
        size, key, version, correlation_id = _HEAD.unpack(_exactly(sock, _HEAD.size))
        if isinstance(answers, bytes):
            sock.sendall(answers)
            return
        answer = answers(Asked(key, version, correlation_id, _exactly(sock, size - 8)))
        if answer is None:
            return
        sock.sendall(answer)


def _exactly(sock: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        if not (piece := sock.recv(count - len(received))):
            raise EOFError
        received += piece
    return received


def server_context(directory: Path, *, host: str = "127.0.0.1", days: int = 1) -> tuple[ssl.SSLContext, Path]:
    """A certificate for a host, valid until so many days from now, signed by itself; and the file to trust it by."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(until - dt.timedelta(days=2))
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "ca.pem").write_bytes(pem)
    (directory / "own.pem").write_bytes(private + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "own.pem")
    return context, directory / "ca.pem"
