"""Ports that stay free while their broker is down."""

from __future__ import annotations

import random
import socket

# Below the ephemeral ports (from 32768 on Linux, from 49152 on macOS): an outgoing connection could take one of those
# between a broker's end and its restart.
_FIRST, _LAST = 20_000, 32_000

LOOPBACK = "127.0.0.1"

_given: set[int] = set()


def free_port() -> int:
    """A port on loopback that nobody listens on, and that this process has not been given before."""
    while True:
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - so that two processes seldom try the same
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
