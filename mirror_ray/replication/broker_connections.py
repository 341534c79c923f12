"""How many connections to a broker the data path has, and which of them a partition is on.

A broker handles one connection's requests one after another, and decompresses every batch to check it. With one sender
a single one of its threads would do that, and everything else would wait for it. More would make small requests
smaller: each holds one batch of its own partitions.

On a long link it is TCP that limits a connection: after each lost packet it halves what is under way, and needs many
round trips until the link is full again; and no more is under way than its windows hold. So there are more of them.
"""

from __future__ import annotations

import zlib
from typing import Final

from mirror_ray.model.names import TopicPartition

FETCH_CONNECTIONS: Final = 1
PRODUCE_CONNECTIONS: Final = 2
#: As many as MM2 has of its tasks, where it is set up for a long link.
LONG_LINK_CONNECTIONS: Final = 8
#: A round trip from which on a link is a long one: longer than within a region.
LONG_ROUND_TRIP_S: Final = 0.02


def connections(round_trip_s: float, near: int) -> int:
    """How many connections a broker has for one purpose; ``near``: where its link is not a long one."""
    return near if round_trip_s < LONG_ROUND_TRIP_S else max(near, LONG_LINK_CONNECTIONS)


def lane_of(partition: TopicPartition, connections: int) -> int:
    """Return which of a broker's connections has a partition: always the same for a number of them."""
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % connections
