"""What a connection's socket is told before it connects, and what is said where no connection came about."""

from __future__ import annotations

import os
import socket
import ssl
from typing import NoReturn

from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.model.errors import ClusterUnreachableError

#: Unacknowledged bytes make the kernel give up after this long, so that nothing of ours is delivered much later.
TCP_USER_TIMEOUT_MS = 20_000


def set_options(sock: socket.socket, receive_bytes: int, send_bytes: int, user_timeout_ms: int) -> None:
    """Make a socket ready to connect. Buffer sizes of -1 are left to the kernel."""
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


def raise_setup_error(error: BaseException, name: str, security: ClientSecurity, setup_timeout_s: float) -> NoReturn:
    """Say why there is no connection with the broker ``name``, of the cluster whose ``security`` it is.

    Raises:
        ConnectionError: No connection came about.
        ClusterUnreachableError: The broker's certificate, or ours, was not accepted.
        BaseException: ``error`` itself, where it needs no explanation.
    """
    refusal = next((e for e in (error, error.__cause__) if isinstance(e, ssl.SSLError)), None)
    if refusal is not None:
        raise ClusterUnreachableError(
            f"cluster {security.alias}: no TLS with {name}: {security.explain_tls(refusal)}"
        ) from error
    if isinstance(error, TimeoutError):
        reason = f"no connection within {setup_timeout_s:g} s"
        raise ConnectionError(f"{name}: {reason}") from error
    if isinstance(error, OSError) and not (isinstance(error, ConnectionError) and error.errno is None):
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise ConnectionError(f"{name}: {reason}") from error
    raise error
