"""A handle on a running system, for the Python shell and the command line.

::

    >>> import mirror_ray
    >>> mirror = mirror_ray.attach()
    >>> mirror
    >>> mirror.scale(3)
"""

from __future__ import annotations

import logging
import time
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayError, RayTaskError

from mirror_ray.coordination.naming import DEFAULT_NAME, NAMESPACE, coordinator_name
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.observe.status import (
    Event,
    FlowStatus,
    PartitionStatus,
    ReplicatorStatus,
    SystemStatus,
    TopicStatus,
)

__all__ = ["Mirror", "attach"]

#: The coordinator restarts within seconds; a call meanwhile is repeated for so long.
_PATIENCE_S = 20.0


def attach(name: str = DEFAULT_NAME, address: str | None = None) -> Mirror:
    """Find the running system ``name``.

    Args:
        name: As given to ``up --name``.
        address: Of the Ray cluster; None: ``RAY_ADDRESS``, or the one on this machine. Ignored where Ray is
            initialised in this process already. Ray's token authentication is Ray's own business and stays as it is.

    Raises:
        NotRunningError: There is no Ray there, or no such system in it.
    """
    if not ray.is_initialized():
        try:
            ray.init(address=address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level=logging.WARNING)
        except (ConnectionError, RayError, RuntimeError) as error:
            where = address or "this machine"
            raise NotRunningError(
                f"no Ray can be reached at {where} ({error}): start a system with `mirror-ray up CONFIG --detach`, or "
                f"name its Ray with --address or RAY_ADDRESS"
            ) from error
    try:
        return Mirror(name, ray.get_actor(coordinator_name(name), namespace=NAMESPACE))
    except ValueError as error:
        raise NotRunningError(
            f"no system named {name!r} runs in this Ray: start it with `mirror-ray up CONFIG --detach`, or give --name"
        ) from error


class Mirror:
    """A running system. Properties and methods ask the coordinator each time; what they return is frozen."""

    def __init__(self, name: str, coordinator: ActorHandle[Any]) -> None:
        """Use ``attach``."""
        self.name = name
        #: The coordinator's actor handle.
        self.coordinator = coordinator

    @property
    def flows(self) -> tuple[FlowStatus, ...]:
        """Every flow."""
        return self.status().flows

    @property
    def replicators(self) -> tuple[ReplicatorStatus, ...]:
        """Every replicator."""
        found: tuple[ReplicatorStatus, ...] = self._ask("replicators")
        return found

    def status(self) -> SystemStatus:
        """The whole system at a glance."""
        found: SystemStatus = self._ask("status")
        return found

    def lag(self, flow: str | None = None) -> tuple[PartitionStatus, ...]:
        """Partitions, those that lag most first; those whose lag is not known yet before all others."""
        return tuple(
            sorted(
                self.partitions(flow),
                key=lambda each: (each.lag_records is not None, -(each.lag_records or 0), each.topic, each.partition),
            )
        )

    def partitions(self, flow: str | None = None) -> tuple[PartitionStatus, ...]:
        """Every partition, of one flow (``A->B``) or of all."""
        found: tuple[PartitionStatus, ...] = self._ask("partitions", flow)
        return found

    def topics(self, flow: str | None = None) -> tuple[TopicStatus, ...]:
        """Every topic, of one flow (``A->B``) or of all."""
        found: tuple[TopicStatus, ...] = self._ask("topics", flow)
        return found

    def events(self, limit: int = 100) -> tuple[Event, ...]:
        """The newest events, oldest first."""
        found: tuple[Event, ...] = self._ask("events", limit)
        return found

    def scale(self, replicators: int) -> None:
        """Set the number of replicators; few partitions move, the others never stop."""
        self._ask("scale", replicators)

    def pause(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Stop copying a flow, a topic or one partition, until ``resume``."""
        self._ask("pause", flow, topic, partition)

    def resume(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Lift a pause of the same scope."""
        self._ask("resume", flow, topic, partition)

    def down(self, deadline_s: float = 30.0) -> None:
        """Drain and stop the system. Nothing is lost, nor copied twice by the next start."""
        self._ask("down", deadline_s)
        ray.kill(self.coordinator, no_restart=True)

    def _ask(self, method: str, *args: object) -> Any:
        """Call the coordinator; one that restarts at the moment is waited for.

        Raises:
            NotRunningError: The system has ended.
            MirrorError: What the coordinator refused.
        """
        deadline_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return ray.get(getattr(self.coordinator, method).remote(*args))
            except RayTaskError as error:
                if isinstance(error.cause, MirrorError):
                    raise error.cause from None
                raise
            except RayActorError as error:
                if time.monotonic() > deadline_s or not self._lives():
                    raise NotRunningError(f"the system {self.name!r} has ended: mirror-ray up CONFIG") from error
                time.sleep(0.5)

    def _lives(self) -> bool:
        try:
            self.coordinator = ray.get_actor(coordinator_name(self.name), namespace=NAMESPACE)
        except ValueError:
            return False
        return True

    def __repr__(self) -> str:
        """A few lines: the system, its flows, its replicators."""
        try:
            return _text(self.status())
        except MirrorError as error:
            return f"<Mirror {self.name}: {error}>"


def _text(status: SystemStatus) -> str:
    lines = [
        f"mirror-ray system {status.name!r}, coordinator pid {status.coordinator_pid} on {status.coordinator_node}"
    ]
    for flow in status.flows:
        lag = "lag not known yet" if flow.lag_records is None else f"lag {flow.lag_records:,}"
        lines.append(
            f"  {flow.flow:<12} {flow.state:<11} {flow.topics} topics, {flow.copying}/{flow.partitions} partitions "
            f"copying, {flow.records_per_s:,.0f} records/s, {flow.bytes_per_s / 1e6:,.1f} MB/s, {lag}"
        )
        lines += [f"    ! {problem}" for problem in flow.problems]
    for replicator in status.replicators:
        lines.append(
            f"  {replicator.id:<24} {replicator.state:<12} {replicator.partitions} partitions, "
            f"{replicator.records_per_s:,.0f} records/s, cpu {replicator.cpu:.0%}, {replicator.memory / 1e6:,.0f} MB"
        )
    return "\n".join(lines)
