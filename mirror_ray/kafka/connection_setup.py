"""Connects a socket, and explains why there is no connection."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from enum import Enum
from typing import Final, NoReturn

from mirror_ray.kafka.framing import BadFrameError
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.model.errors import AccessDeniedError

#: Unacknowledged bytes make the kernel give up after this long, so that nothing of ours is delivered much later.
TCP_USER_TIMEOUT_MS = 20_000

#: OpenSSL's reasons not to take a certificate (``X509_V_ERR_…``).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
_WRONG_HOST: Final = frozenset({62, 64})


class SetupStep(Enum):
    """The step of opening a connection that is under way; the value begins the error of one that failed."""

    TCP = "no connection"
    TLS = "no TLS"
    VERSIONS = "no answer to the first request"
    SASL = "not let in"


async def connected_socket(
    host: str, port: int, *, receive_bytes: int, send_bytes: int, user_timeout_ms: int
) -> socket.socket:
    """A socket that is connected to the first of the host's addresses that accepts. Buffer sizes of -1: the kernel's.

    Raises:
        OSError: None accepts; the last one's error.
    """
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for left, (family, kind, protocol, _, address) in zip(range(len(addresses) - 1, -1, -1), addresses, strict=True):
        sock = socket.socket(family, kind, protocol)
        try:
            _set_options(sock, receive_bytes, send_bytes, user_timeout_ms)
            await loop.sock_connect(sock, address)
        except BaseException as error:
            sock.close()
            if not left or not isinstance(error, OSError):
                raise
        else:
            return sock
    raise OSError(f"{host} has no address")


def _set_options(sock: socket.socket, receive_bytes: int, send_bytes: int, user_timeout_ms: int) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Before connecting: the window scale is agreed on in the handshake.
    if receive_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    if send_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)


def raise_setup_error(
    error: BaseException, step: SetupStep, name: str, security: ClientSecurity, setup_timeout_s: float
) -> NoReturn:
    """Raise the reason why there is no connection to the broker ``name``, of the cluster that ``security`` is for.

    Raises:
        ConnectionError: No connection came about; names the key that may be wrong.
        AccessDeniedError: The broker's certificate, or ours, was not accepted.
        BaseException: ``error`` itself, where it needs no explanation.
    """
    refusal = next((e for e in (error, error.__cause__) if isinstance(e, ssl.SSLError)), None)
    if refusal is not None:
        raise AccessDeniedError(
            f"cluster {security.alias}: no TLS with {name}: {explain_tls(security.alias, refusal)}"
        ) from error
    if not isinstance(error, OSError):
        raise error
    frame = error.__cause__ if isinstance(error.__cause__, BadFrameError) else None
    hint = _hint(step, security, frame, silent=isinstance(error, TimeoutError))
    raise ConnectionError(f"{name}: {_reason(error, step, name, setup_timeout_s)}{hint}") from error


def _reason(error: OSError, step: SetupStep, name: str, setup_timeout_s: float) -> str:
    if isinstance(error, TimeoutError) and error.errno is None:
        return f"{step.value} within {setup_timeout_s:g} s"
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    text = (error.strerror or str(error)).removeprefix(f"{name}: ")
    return f"{step.value}: {text}" if text else step.value


def _hint(step: SetupStep, security: ClientSecurity, frame: BadFrameError | None, *, silent: bool) -> str:
    """What may be wrong on our side, where a port accepts TCP and then does not answer as we expect."""
    key = f"{security.alias}.security.protocol = {security.settings.protocol}"
    if frame is not None and frame.protocol is not None:
        return (
            f"; {key} is not for that port"
            if frame.protocol == "TLS"
            else f"; check {security.alias}.bootstrap.servers"
        )
    if silent and step is not SetupStep.TCP:
        return f"; the broker hangs, or its port speaks something else: {key}"
    if step is SetupStep.TLS:
        return f"; does that port speak TLS? check {key}"
    if step is SetupStep.VERSIONS:
        tls = "does a Kafka broker answer there" if security.ssl_context else "is it a port for TLS"
        return f"; {tls}? check {key}"
    if step is SetupStep.SASL:
        return f"; check {key} and {security.alias}.sasl.mechanism"
    return ""


def explain_tls(alias: str, error: ssl.SSLError) -> str:
    """Why TLS did not come about, with the keys to check."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted, {error.verify_message.rstrip('.')}; {_certificate_hint(alias, error)}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason and ("certificate" in reason or "handshake" in reason or "unknown ca" in reason):
        return f"it does not accept our certificate, {reason}; check {alias}.ssl.keystore.*"
    return f"{reason}; does that port speak TLS? check {alias}.security.protocol"


def _certificate_hint(alias: str, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in {_EXPIRED, _NOT_YET_VALID}:
        return "give the broker one that is valid now, and check the clocks"
    if error.verify_code in _WRONG_HOST:
        return (
            f"check {alias}.bootstrap.servers and the names that the broker advertises "
            f"({alias}.ssl.endpoint.identification.algorithm wants them in its certificate)"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return f"check that {alias}.ssl.truststore.location (or .certificates) has the authority that signed it"
    return f"check {alias}.ssl.truststore.*"
