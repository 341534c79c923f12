"""A running system as Python and the command line see it: the coordinator's methods as plain calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from mirror_ray.model.errors import MirrorError, NoAnswerError
from mirror_ray.model.fault import FaultPolicy
from mirror_ray.model.starter import Starter
from mirror_ray.observe.backfills import BackfillStatus
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.observe.status import (
    Event,
    FlowStatus,
    GapStatus,
    PartitionStatus,
    ReplicatorStatus,
    SystemStatus,
    TopicStatus,
)
from mirror_ray.offsets.translation import Translation
from mirror_ray.whoami import whoami

if TYPE_CHECKING:
    # Pydantic takes half a second, and most questions need no settings.
    from mirror_ray.config.difference import SettingsDifference
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.model.backfill import BackfillRequest

_T = TypeVar("_T")

_ANSWER_TIMEOUT_S = 30.0
#: What the coordinator needs to end the other actors once draining is over, with room for a busy machine.
_ENDING_S = 10.0


class CoordinatorLink(Protocol):
    """The way to a coordinator."""

    def ask(self, method: str, *args: object, timeout_s: float) -> Any:
        """Call a method of the coordinator; one that restarts at the moment is waited for.

        Raises:
            NoAnswerError: It did not answer within ``timeout_s``.
            NotRunningError: It has ended.
            MirrorError: What it refused.
        """
        ...

    def end(self) -> None:
        """End every actor of the system without asking it, and the Ray that was left running for it."""
        ...

    def close(self) -> None:
        """Let go of Ray."""
        ...


class Listing(tuple[_T, ...]):
    """A tuple that prints one line for each item."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(str(each) for each in self) or "none"


class Mirror:
    """A running system. Properties and methods ask the coordinator each time; what they return is frozen.

    A context manager: leaving it lets go of Ray. Every call raises NotRunningError once the system has ended, and what
    the coordinator itself raises.
    """

    def __init__(self, name: str, link: CoordinatorLink) -> None:
        """Use ``mirror_ray.attach``."""
        self.name = name
        self._link = link

    @property
    def coordinator(self) -> SystemStatus:
        """What the coordinator knows: the whole system at a glance."""
        return self.status()

    @property
    def flows(self) -> Listing[FlowStatus]:
        """Every flow."""
        return Listing(self.status().flows)

    @property
    def replicators(self) -> Listing[ReplicatorStatus]:
        """Every replicator."""
        return Listing(self._ask("replicators"))

    def status(self) -> SystemStatus:
        """The whole system at a glance."""
        found: SystemStatus = self._ask("status")
        return found

    def lag(self, flow: str | None = None) -> Listing[PartitionStatus]:
        """Partitions, those that lag most first; those whose lag is not known yet before all others."""
        return Listing(
            sorted(
                self.partitions(flow),
                key=lambda each: (each.lag_records is not None, -(each.lag_records or 0), each.topic, each.partition),
            )
        )

    def partitions(self, flow: str | None = None) -> Listing[PartitionStatus]:
        """Every partition, of one flow (``A->B``) or of all."""
        return Listing(self._ask("partitions", flow))

    def topics(self, flow: str | None = None) -> Listing[TopicStatus]:
        """Every topic, of one flow (``A->B``) or of all."""
        return Listing(self._ask("topics", flow))

    def events(self, limit: int = 100) -> Listing[Event]:
        """The newest events, oldest first."""
        return Listing(self._ask("events", limit))

    def gaps(self, flow: str | None = None) -> Listing[GapStatus]:
        """What partitions went on without, of one flow (``A->B``) or of all."""
        return Listing(self._ask("gaps", flow))

    def groups(self, flow: str | None = None) -> Listing[GroupStatus]:
        """Every consumer group that is carried over, of one flow (``A->B``) or of all."""
        return Listing(self._ask("groups", flow))

    def settings(self) -> MirrorSettings:
        """What it runs by. Its secrets print as asterisks; its clusters' credentials are in it all the same."""
        found: MirrorSettings = self._ask("configuration")
        return found

    def starter(self) -> Starter | None:
        """Who has started it, and whether it ends with that process; None: nobody knows."""
        found: Starter | None = self._ask("starter")
        return found

    def preview(self, settings: MirrorSettings, replicators: int | None = None) -> SettingsDifference:
        """What `up` with these settings, and so many replicators, would touch; nothing is changed.

        Raises:
            ConfigError: It would turn a flow that has begun to another cluster.
            ClusterUnreachableError: Whether it would can't be told: a cluster that has other settings does not answer.
        """
        found: SettingsDifference = self._act("apply", settings, replicators, True)
        return found

    def set(self, flow: str | None, changes: Mapping[str, str | None], *, dry_run: bool = False) -> SettingsDifference:
        """Change keys of a flow (``A->B``), or of the system where it is None, until the next ``up``.

        Args:
            flow: Its name.
            changes: Values by key, as in the native form: ``{"topics.include": "orders.*"}``; None: the default.
            dry_run: Say what would be touched, and change nothing.

        Raises:
            ConfigError: With a sentence for each key that can't be changed so, and nothing has been changed.
        """
        found: SettingsDifference = self._act("set", flow, dict(changes), dry_run)
        return found

    def settle_groups(self, deadline_s: float = 20.0) -> bool:
        """Carry consumer groups over at once, as far as the copy has come; whether that was done by the deadline."""
        settled: bool = self._ask("settle_groups", deadline_s)
        return settled

    def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool = False) -> Translation:
        """Where position ``offset`` of a source partition is on the target.

        ``back``: where position ``offset`` of its remote partition is on the source. ``topic`` is the source's.
        """
        found: Translation = self._ask("translate", flow, topic, partition, offset, back)
        return found

    def backfill(self, flow: str, request: BackfillRequest, *, dry_run: bool = False) -> BackfillStatus:
        """Begin to copy a range of a topic beside the flow, or go on with the same one.

        ``dry_run``: say what would be copied, and change nothing.

        Raises:
            ConfigError: It would double or disorder records, or its range is not there.
        """
        begun: BackfillStatus = self._act("backfill", flow, request, dry_run)
        return begun

    def backfills(self, flow: str | None = None) -> Listing[BackfillStatus]:
        """Backfills of one flow (``A->B``) or of all, over or not, the oldest first."""
        return Listing(self._ask("backfills", flow))

    def cancel_backfill(self, flow: str, topic: str, into: str | None = None) -> BackfillStatus:
        """Stop a backfill of ``topic``; what it has copied stays, and the same one, asked for again, goes on there."""
        ended: BackfillStatus = self._act("cancel_backfill", flow, topic, into)
        return ended

    def resolve(self, flow: str, topic: str, partition: int | None = None, *, by: FaultPolicy) -> tuple[str, ...]:
        """Answer the trouble of a topic or of one partition, once; ``docs/operations.md`` says what each answer does.

        Returns:
            The partitions that go on by it.

        Raises:
            ConfigError: There is no trouble, or it can't be answered so.
        """
        resolved: tuple[str, ...] = self._act("resolve", flow, topic, partition, by)
        return resolved

    def scale(self, replicators: int) -> None:
        """Set the number of replicators, until ``scale_by_load``; few partitions move, the others never stop."""
        self._act("scale", replicators)

    def scale_by_load(self, minimum: int | None = None, maximum: int | None = None) -> None:
        """Let the number of replicators follow load and lag, within these bounds, else those that there are.

        They hold until the next ``up``, which brings those of its file.

        Raises:
            ConfigError: There is no upper bound, or they cross.
        """
        self._act("scale_by_load", minimum, maximum)

    def pause(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Stop copying a flow, a topic or one partition, until ``resume``."""
        self._act("pause", flow, topic, partition)

    def resume(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Lift a pause of the same scope."""
        self._act("resume", flow, topic, partition)

    def down(self, deadline_s: float = 30.0) -> bool:
        """Drain and stop the system, whatever state it is in; a coordinator that hangs is ended with the rest.

        Returns:
            Whether all was drained within the deadline. If not, nothing is lost nor copied twice either: the next
            start reads from the target's logs what has arrived.
        """
        try:
            drained: bool = self._link.ask("act", whoami(), "down", (deadline_s,), timeout_s=deadline_s + _ENDING_S)
        except NoAnswerError:
            drained = False
        self._link.end()
        return drained

    def close(self) -> None:
        """Let go of Ray; the system goes on."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, *args: object) -> Any:
        return self._link.ask(method, *args, timeout_s=_ANSWER_TIMEOUT_S)

    def _act(self, method: str, *args: object) -> Any:
        """As ``_ask``; the audit log keeps who asked it."""
        return self._ask("act", whoami(), method, args)

    def __repr__(self) -> str:
        """A few lines: the system, its flows, its replicators."""
        try:
            return str(self.status())
        except MirrorError as error:
            return f"<Mirror {self.name}: {error}>"
