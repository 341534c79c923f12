"""A running mirror-ray as the commands see it: the coordinator's methods as plain calls."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from mirror_ray.observe.status import Event, PartitionStatus, ReplicatorStatus, SystemStatus, TopicStatus

_ANSWER_TIMEOUT_S = 30.0
_DRAIN_DEADLINE_S = 30.0


class Ask(Protocol):
    """Calls a method of the coordinator and waits for the answer. Raises MirrorError only."""

    def __call__(self, method: str, *args: Any, timeout_s: float) -> Any:
        """The method's result."""
        ...


class System:
    """A running system. A context manager: leaving it lets go of Ray, and ends a Ray that was started for it.

    Every call raises NotRunningError once the coordinator is gone, and what the coordinator itself raises.
    """

    def __init__(
        self, name: str, ask: Ask, *, end: Callable[[], None], close: Callable[[], None], joined: bool = False
    ) -> None:
        """``end`` ends a drained coordinator, ``close`` lets go; ``joined``: it ran before this command."""
        self.name = name
        self.joined = joined
        self._ask = ask
        self._end = end
        self._close = close

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _call(self, method: str, *args: Any, timeout_s: float = _ANSWER_TIMEOUT_S) -> Any:
        return self._ask(method, *args, timeout_s=timeout_s)

    def status(self) -> SystemStatus:
        """The whole system at a glance."""
        result: SystemStatus = self._call("status")
        return result

    def partitions(self, flow: str | None = None) -> tuple[PartitionStatus, ...]:
        """Every partition, of one flow or of all."""
        return tuple(self._call("partitions", flow))

    def topics(self, flow: str | None = None) -> tuple[TopicStatus, ...]:
        """Every topic, of one flow or of all."""
        return tuple(self._call("topics", flow))

    def replicators(self) -> tuple[ReplicatorStatus, ...]:
        """Every replicator."""
        return tuple(self._call("replicators"))

    def events(self, limit: int) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        return tuple(self._call("events", limit))

    def scale(self, replicators: int) -> None:
        """Set the number of replicators."""
        self._call("scale", replicators)

    def pause(self, flow: str, topic: str | None, partition: int | None) -> None:
        """Stop copying a flow, a topic or a partition."""
        self._call("pause", flow, topic, partition)

    def resume(self, flow: str, topic: str | None, partition: int | None) -> None:
        """Lift the pause of the same scope."""
        self._call("resume", flow, topic, partition)

    def down(self, deadline_s: float = _DRAIN_DEADLINE_S) -> None:
        """Drain everything and stop every actor; what is acknowledged is kept, the next start goes on behind it."""
        self._call("down", deadline_s, timeout_s=deadline_s + 30.0)
        self._end()
