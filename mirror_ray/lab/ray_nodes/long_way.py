"""The way between two regions: two TUN devices, and a process that carries packets from one to the other, later.

Run as a process of its own: it is told the delay, and the network namespace of the far end.
"""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import select
import struct
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Final

_TUNSETIFF: Final = 0x400454CA
#: IP packets as they are, nothing before them.
_TUN_WITHOUT_HEADER: Final = 0x0001 | 0x1000
_PACKET_BYTES: Final = 65_536
#: Packets under way in one direction; what does not fit is lost, as in a router.
_MOST_PACKETS: Final = 50_000


@contextlib.contextmanager
def long_way(near: str, far: str, delay_s: float) -> Iterator[None]:
    """Devices of these names in this network namespace, packets between which take ``delay_s``; one may be moved."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=_carry, args=(theirs, near, far, delay_s), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield
    finally:
        process.terminate()
        process.join()


def _carry(ready: Connection, near: str, far: str, delay_s: float) -> None:
    ends = [_open(near), _open(far)]
    other = dict(zip(ends, reversed(ends), strict=True))
    under_way: dict[int, deque[tuple[float, bytes]]] = {end: deque() for end in ends}
    ready.send(None)
    while True:
        due_s = min((packets[0][0] for packets in under_way.values() if packets), default=None)
        wait_s = None if due_s is None else max(0.0, due_s - time.monotonic())
        readable, _, _ = select.select(ends, [], [], wait_s)
        now_s = time.monotonic()
        for end in readable:
            packet = os.read(end, _PACKET_BYTES)
            if len(under_way[end]) < _MOST_PACKETS:
                under_way[end].append((now_s + delay_s, packet))
        for end, packets in under_way.items():
            while packets and packets[0][0] <= now_s:
                # A device that is down, or whose queue is full, loses it.
                with contextlib.suppress(OSError):
                    os.write(other[end], packets.popleft()[1])


def _open(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TUN_WITHOUT_HEADER))
    return device
