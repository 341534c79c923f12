"""Where a record was first written, in a header of it: so that flows that keep names stop what would go in circles.

Each flow that has it on puts one header on what it copies, ``mirror-ray-origin``, an UTF-8 text::

    CLUSTER/TOPIC/PARTITION/OFFSET/HOPS[/VIA...]

the id of the cluster that the record was first written on, its topic, partition and offset there, how often it was
copied, and the ids of the clusters between. A header whose topic is another one than that of the record came with a
record that somebody wrote anew, from what they had read: such a record is new, and so is one that has
come back to the cluster that it is from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Final, NamedTuple, Self

from mirror_ray.transforms.record import Record
from mirror_ray.transforms.transform import Result, Transform

HEADER: Final = "mirror-ray-origin"

_FIELDS: Final = 5


class Origin(NamedTuple):
    """What the header says."""

    cluster: str
    topic: str
    partition: int
    offset: int
    hops: int = 0
    #: Clusters between the first and this one, in their order.
    via: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: bytes | None) -> Self:
        """Read the header.

        Raises:
            ValueError: It is none of ours.
        """
        fault = f"the header {HEADER} is reserved for mirror-ray, and is not of its form: {value!r}"
        try:
            cluster, topic, partition, offset, hops, *via = (value or b"").decode().split("/")
            origin = cls(cluster, topic, int(partition), int(offset), int(hops), tuple(via))
        except ValueError:
            raise ValueError(fault) from None
        if not (cluster and topic) or origin.hops != len(via) + 1:
            raise ValueError(fault)
        return origin

    def encode(self) -> bytes:
        """The header's value."""
        return "/".join(map(str, (*self[:_FIELDS], *self.via))).encode()

    def next_hop(self, here: str) -> Origin:
        """The origin one hop further; ``here``: the cluster that the record is read on."""
        via = (*self.via, here) if self.hops else ()
        return self._replace(hops=self.hops + 1, via=via)


class Provenance(Transform):
    """Puts the header on, and leaves out what has been on the target before, or has come far enough."""

    version = "1"
    pure = True
    reads = ("headers",)

    def __init__(
        self,
        cluster_ids: Callable[[], tuple[str, str]],
        max_hops: int | None = None,
        names: Callable[[str], Collection[str]] = lambda topic: (topic,),
    ) -> None:
        """``cluster_ids``: of source and target. ``names``: those that a topic may have where it was first written."""
        self._cluster_ids = cluster_ids
        self._max_hops = max_hops
        self._names = cache(names)

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        """Add the header to each record, or leave the record out.

        Raises:
            ValueError: The clusters' ids are not known.
        """
        source, target = self._cluster_ids()
        if not (source and target):
            raise ValueError("the clusters' ids are not known")
        return [self._marked(record, source, target) for record in records]

    def _marked(self, record: Record, source: str, target: str) -> Result:
        try:
            origin = self._origin(record, source)
        except ValueError as error:
            return error
        far = self._max_hops is not None and origin.hops >= self._max_hops
        if far or target == origin.cluster or target in origin.via:
            return None
        others = tuple(header for header in record.headers if header[0] != HEADER)
        return record._replace(headers=(*others, (HEADER, origin.next_hop(source).encode())))

    def _origin(self, record: Record, source: str) -> Origin:
        """Where a record of the source was first written.

        Raises:
            ValueError: It has a header of ours that can't be read.
        """
        new = Origin(source, record.topic, record.partition, record.offset)
        found = [value for name, value in record.headers if name == HEADER]
        if not found:
            return new
        origin = Origin.parse(found[-1])
        return origin if origin.topic in self._names(record.topic) and origin.cluster != source else new
