"""A network interface that delays every packet and loses some of them: TCP behaves as on a link between regions.

Linux alone, as root. Packets to the far address go into a TUN device; a process swaps their addresses, so that they
come back as packets of the far address to this machine. Relays, at the interface's own address, pass connections on to
ports of 127.0.0.1. All traffic stays on this machine.
"""

from __future__ import annotations

import asyncio
import fcntl
import multiprocessing
import os
import random
import select
import shutil
import struct
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from mirror_ray.lab.devcluster.proxy import Proxy
from mirror_ray.model.errors import MirrorError

#: Of the interface, and what is reached over it: of a range for tests of networks (RFC 2544).
NEAR_ADDRESS: Final = "198.18.98.1"
FAR_ADDRESS: Final = "198.18.98.2"
_NETWORK: Final = "198.18.98.0/24"
_DEVICE: Final = "mirror-ray0"
_TUN: Final = Path("/dev/net/tun")
#: From linux/if_tun.h: TUNSETIFF, and a device of IP packets without a header of its own.
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_MTU_BYTES: Final = 1500
#: Packets that are read, or written, in a row.
_AT_ONCE: Final = 256
_READY_S: Final = 30.0
_SEED: Final = 7


@contextmanager
def lossy_link(ports: Sequence[int], delay_s: float, loss: float, congestion: str) -> Iterator[None]:
    """Make these ports of 127.0.0.1 reachable at ``FAR_ADDRESS``, with a delay and a loss in each direction.

    ``loss`` is the share of the packets that don't arrive; ``congestion`` TCP's congestion control, on both sides.

    Raises:
        MirrorError: This machine, or this user, can't make such an interface.
    """
    if not (_TUN.exists() and os.access(_TUN, os.W_OK) and os.geteuid() == 0 and shutil.which("ip")):
        raise MirrorError(f"a link that loses packets needs Linux, root, {_TUN} and the command ip (Debian: iproute2)")
    spawning = multiprocessing.get_context("spawn")
    processes = []
    try:
        for target, args in ((_carry_packets, (delay_s, loss, congestion)), (_relay, (tuple(ports),))):
            ready = spawning.Event()
            process = spawning.Process(target=target, args=(ready, *args), daemon=True)
            process.start()
            processes.append(process)
            if not ready.wait(_READY_S):
                raise MirrorError("the link that loses packets did not come up: its error is above")
        yield
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _carry_packets(ready: Any, delay_s: float, loss: float, congestion: str) -> None:
    device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", _DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    for command in (
        f"ip addr add {NEAR_ADDRESS}/24 dev {_DEVICE}",
        f"ip link set {_DEVICE} up mtu {_MTU_BYTES} txqueuelen 20000",
        f"ip route replace {_NETWORK} dev {_DEVICE} proto kernel scope link src {NEAR_ADDRESS} congctl {congestion}",
    ):
        subprocess.run(command.split(), check=True)  # noqa: S603 - these
    ready.set()
    dice, readable = random.Random(_SEED).random, select.poll()  # noqa: S311 - the same losses every time
    readable.register(device, select.POLLIN)
    in_flight: deque[tuple[float, bytes]] = deque()
    while True:
        wait_s = in_flight[0][0] - time.monotonic() if in_flight else 1.0
        # A millisecond is the least that can be waited for.
        readable.poll(max(0.0, wait_s * 1000) if wait_s >= 0.001 else 0)
        for packet in _packets(device):
            if dice() >= loss:
                in_flight.append((time.monotonic() + delay_s, swapped(packet)))
        for _ in range(_AT_ONCE):
            if not in_flight or in_flight[0][0] > time.monotonic():
                break
            os.write(device, in_flight.popleft()[1])


def _packets(device: int) -> Iterator[bytes]:
    for _ in range(_AT_ONCE):
        try:
            packet = os.read(device, 1 << 16)
        except BlockingIOError:
            return
        if packet[0] >> 4 == 4:
            yield packet


def swapped(packet: bytes) -> bytes:
    """An IPv4 packet with its two addresses exchanged; the checksums stay right, as their sums do."""
    return packet[:12] + packet[16:20] + packet[12:16] + packet[20:]


def _relay(ready: Any, ports: Sequence[int]) -> None:
    asyncio.run(_relay_until_killed(ready, ports))


async def _relay_until_killed(ready: Any, ports: Sequence[int]) -> None:
    async with AsyncExitStack() as stack:
        for port in ports:
            await stack.enter_async_context(Proxy(port, (NEAR_ADDRESS, port)))
        ready.set()
        await asyncio.Event().wait()
