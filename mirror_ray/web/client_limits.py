"""What one stranger may take of a gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Times and numbers that hold for everybody; nobody who waits for a machine meets them."""

    #: From a connection's beginning, or its last answer, to the end of the next head.
    head_s: float = 10.0
    handshake_s: float = 10.0
    #: From the end of a head to the end of its body.
    body_s: float = 10.0
    body_bytes: int = 65_536
    #: For what a request still sends that was answered before its end.
    linger_s: float = 1.0
    #: For a whole answer, or one snapshot of a stream, to be taken.
    write_s: float = 15.0
    #: Of all kinds together. When all are taken, whoever has most loses one: the oldest that waits for nothing.
    connections: int = 500
    #: Each is a connection and a copy of every snapshot. When all are taken, whoever has most loses the oldest.
    streams: int = 50
    #: How long something that happens again and again is counted before it is reported, at first and at most.
    first_report_s: float = 10.0
    last_report_s: float = 600.0
    #: Between two readings of the files of tokens and certificate.
    renewal_s: float = 2.0


#: Those of a real gateway.
BOUNDS: Final = ClientLimits()
