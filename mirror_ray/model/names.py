"""Names of flows and partitions, as MM2 users write them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NewType, Self

#: A topic id as Kafka prints it: 22 characters of URL-safe base64. ``NO_TOPIC_ID`` where the broker has none.
TopicId = NewType("TopicId", str)

NO_TOPIC_ID = TopicId("")

#: What tells a backfill's id from the name of a topic that a flow routes to.
BACKFILL_ID: Final = re.compile(r"[0-9a-f]{8}")


class FlowName(NamedTuple):
    """One ordered pair of cluster aliases, written ``A->B``; a backfill beside it ``A->B#id``, a route ``A->B#to``."""

    source: str
    target: str
    #: Id of a backfill; empty: the flow itself, or a route.
    backfill: str = ""
    #: The remote topic that a transform of the flow routes records to; empty: the flow itself, or a backfill.
    route: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``A->B``.

        Raises:
            ValueError: The text is not two aliases joined by ``->``.
        """
        flow, _, beside = text.partition("#")
        source, arrow, target = flow.partition("->")
        if not arrow or not source.strip() or not target.strip() or "->" in target:
            raise ValueError(f"{text!r} is not a flow: write SOURCE->TARGET, for example A->B")
        beside = beside.strip()
        is_backfill = BACKFILL_ID.fullmatch(beside) is not None
        return cls(source.strip(), target.strip(), beside if is_backfill else "", "" if is_backfill else beside)

    @property
    def live(self) -> FlowName:
        """The flow itself, for a backfill or a route."""
        return FlowName(self.source, self.target)

    @property
    def configured(self) -> FlowName:
        """What a configuration has it by: the flow itself, for a backfill; a route stays one."""
        return self._replace(backfill="")

    @property
    def back(self) -> FlowName:
        """The flow that leads the other way."""
        return FlowName(self.target, self.source)

    @property
    def is_live(self) -> bool:
        """Whether it is the flow itself."""
        return not (self.backfill or self.route)

    def __str__(self) -> str:
        beside = self.backfill or self.route
        return f"{self.source}->{self.target}" + (f"#{beside}" if beside else "")


class TopicPartition(NamedTuple):
    """One partition of one topic, written ``orders-3`` as in Kafka's logs. A tuple: it is the key of large dicts."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class FlowPartition(NamedTuple):
    """A source partition in a flow: the unit that is assigned, copied, paused and reported. A tuple, as above."""

    flow: FlowName
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.flow} {self.topic}-{self.partition}"

    @property
    def source(self) -> TopicPartition:
        """The partition on the flow's source cluster."""
        return TopicPartition(self.topic, self.partition)
