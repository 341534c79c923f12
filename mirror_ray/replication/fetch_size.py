"""How much to ask a source broker for at a time.

The requests of a fetch session follow each other, so that a round trip brings one answer: 4 MiB per 100 ms are 40 MB/s,
however fast the link. An answer as large as what the link carries meanwhile fills it; on a short round trip, or a thin
link, larger ones bring no speed, and cost memory and the patience of the other partitions.

All partitions that are behind share an answer: a Produce request holds one batch of each partition, so what comes of
few of them goes out in many requests.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Below it the smallest answers fill any link that one process can make use of.
_SHORT_ROUND_TRIP_S = 0.01
#: Where an answer takes so many round trips, the link is busy for most of the time, or for nearly all of it.
_MOSTLY_BUSY, _TOO_LONG = 3.0, 8.0
_LARGEST_SCALE = 16
#: A share is not smaller: a batch that does not fit in is not sent, except as an answer's first. The default of
#: ``max.message.bytes``.
_LARGE_BATCH_BYTES = 1_048_588


@dataclass(slots=True)
class FetchSize:
    """Doubles what is asked for as long as answers come back full, and sooner than a busy link would bring them."""

    max_bytes: int
    max_partition_bytes: int
    #: The shortest time in which this broker answered anything.
    round_trip_s: float
    scale: int = 1

    def extra_bytes(self, free_bytes: int) -> int:
        """What the next answer may hold beyond ``max_bytes``: half of the room, as the one before needs room too."""
        return max(0, min(self.max_bytes * (self.scale - 1), free_bytes // 2))

    def partition_bytes(self, answer_bytes: int, partitions: int = 1) -> int:
        """What one partition may bring of an answer that so many share."""
        most = max(self.max_partition_bytes, min(self.max_partition_bytes * self.scale, answer_bytes))
        return min(most, max(answer_bytes // max(partitions, 1), _LARGE_BATCH_BYTES))

    def answered(self, took_s: float, *, full: bool) -> None:
        """An answer came, ``took_s`` after its request; ``full``: there was more to be had."""
        if not full:
            self.round_trip_s = min(self.round_trip_s, took_s)
            self.scale = max(1, self.scale // 2)
        elif took_s > _TOO_LONG * self.round_trip_s or self.round_trip_s < _SHORT_ROUND_TRIP_S:
            self.scale = max(1, self.scale // 2)
        elif took_s < _MOSTLY_BUSY * self.round_trip_s:
            self.scale = min(2 * self.scale, _LARGEST_SCALE)
