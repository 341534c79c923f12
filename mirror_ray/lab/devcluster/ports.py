"""Ports that stay free while their broker is down."""

from __future__ import annotations

import random
import socket

# Below the range from which systems take the ports of outgoing connections (32768 up on Linux, 49152 up on macOS): one
# from there could be taken by anybody's connection between a broker's end and its restart.
_FIRST, _LAST = 20_000, 32_000

_given: set[int] = set()


def free_port() -> int:
    """A port on loopback that nobody listens on and that was not given out before by this process."""
    while True:
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - so that two processes seldom try the same
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
