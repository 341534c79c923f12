"""Packets of the link that loses some: what comes back is what the far side would have sent."""

from __future__ import annotations

import socket
import struct

from mirror_ray.lab.devcluster.lossy_link import FAR_ADDRESS, NEAR_ADDRESS, swapped


def header(source: str, destination: str, checksum: int = 0) -> bytes:
    """Of IPv4, with its checksum if it is 0."""
    fields = struct.pack(">BBHHHBBH", 0x45, 0, 20, 1, 0, 64, 6, checksum)
    return fields + socket.inet_aton(source) + socket.inet_aton(destination)


def checksum_of(packet: bytes) -> int:
    """The Internet checksum of a header (RFC 1071): 0 where it is right."""
    total: int = sum(struct.unpack(">10H", packet[:20]))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def test_the_far_side_answers_in_its_own_name() -> None:
    """To the address that asked; the checksum is right as it is, and what follows the header is untouched."""
    sent = header(NEAR_ADDRESS, FAR_ADDRESS, checksum_of(header(NEAR_ADDRESS, FAR_ADDRESS))) + b"content"
    returned = swapped(sent)
    assert socket.inet_ntoa(returned[12:16]) == FAR_ADDRESS
    assert socket.inet_ntoa(returned[16:20]) == NEAR_ADDRESS
    assert checksum_of(returned) == 0
    assert (returned[:12], returned[20:]) == (sent[:12], b"content")
