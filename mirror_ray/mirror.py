"""A running system for programs: ``CoordinatorClient`` for event loops, ``Mirror`` for plain calls and Python's shell.

Each query and each command is declared here, once, as a method of ``CoordinatorClient`` without a body.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from mirror_ray.model.errors import MirrorError, NoAnswerError
from mirror_ray.verb import CoordinatorLink, Listing, VerbClient, command, query, verbs_of
from mirror_ray.whoami import whoami

if TYPE_CHECKING:
    # Pydantic takes half a second, and most questions need no settings.
    from mirror_ray.config.difference import SettingsDifference
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.model.backfill import BackfillRequest
    from mirror_ray.model.fault import FaultPolicy
    from mirror_ray.model.starter import Starter
    from mirror_ray.observe.backfills import BackfillStatus
    from mirror_ray.observe.events import Event, GapStatus
    from mirror_ray.observe.groups import GroupStatus
    from mirror_ray.observe.schemas import SchemaStatus
    from mirror_ray.observe.status import FlowStatus, PartitionStatus, ReplicatorStatus, SystemStatus, TopicStatus
    from mirror_ray.observe.system_snapshot import SystemSnapshot
    from mirror_ray.offsets.translation import Translation

_P = ParamSpec("_P")
_T = TypeVar("_T")


class CoordinatorClient(VerbClient):
    """Every query and command of a running system. What is returned is frozen.

    ``flow`` is a flow's name, ``A->B``; where it may be None, that is all flows. Every method raises NotRunningError
    once the system has ended, NoAnswerError where the coordinator does not answer in time, and what it refuses: a
    ConfigError where there is no such flow.
    """

    @query
    async def status(self) -> SystemStatus:
        """The whole system at a glance."""

    @query
    async def snapshot(self) -> SystemSnapshot:
        """All that can be seen, routes of flows too; at most a second old."""

    @query
    async def configuration(self) -> MirrorSettings:
        """The settings that it runs by. Its secrets print as asterisks; clusters' credentials are in it all the same.

        Raises:
            NotRunningError: It has no flows yet.
        """

    @query
    async def starter(self) -> Starter | None:
        """Who has started it, and whether it ends with that process; None: nobody knows."""

    @query
    async def partitions(self, flow: str | None = None) -> tuple[PartitionStatus, ...]:
        """Every partition."""

    @query
    async def topics(self, flow: str | None = None) -> tuple[TopicStatus, ...]:
        """Every topic."""

    @query
    async def replicators(self) -> tuple[ReplicatorStatus, ...]:
        """Every replicator."""

    @query
    async def events(self, limit: int = 100) -> tuple[Event, ...]:
        """The newest events, oldest first."""

    @query
    async def gaps(self, flow: str | None = None) -> tuple[GapStatus, ...]:
        """Every skipped range, by topic, partition and time."""

    @query
    async def groups(self, flow: str | None = None) -> tuple[GroupStatus, ...]:
        """Every consumer group that is synced."""

    @query
    async def schemas(self, flow: str | None = None) -> tuple[SchemaStatus, ...]:
        """Every version of every subject that is mirrored, or is to be."""

    @query
    async def backfills(self, flow: str | None = None) -> tuple[BackfillStatus, ...]:
        """Every backfill, over or not, the oldest first."""

    @query
    async def translate(self, flow: str, topic: str, partition: int, offset: int, back: bool = False) -> Translation:
        """The target offset that belongs to an offset of a source partition.

        ``back``: the source offset that belongs to an offset of its remote partition. ``topic`` is the source's.
        """

    @query
    async def settle_groups(self, deadline_s: float = 20.0) -> bool:
        """Sync consumer groups at once, as far as the copy has come; whether that was done by the deadline."""

    @command("flows", kind="up")
    async def apply(
        self,
        settings: MirrorSettings,
        replicators: int | None = None,
        dry_run: bool = False,
        onto: str | None = None,
        starter: Starter | None = None,
    ) -> SettingsDifference:
        """Start the flows of ``settings``, or update a running system to them.

        Args:
            settings: To run by from now on.
            replicators: How many are wanted; None: as many as the settings say, or as run.
            dry_run: Say what would be changed, and change nothing.
            onto: ``SettingsDifference.onto`` of what the caller has agreed to change; None: whatever runs.
            starter: Who starts the system.

        Raises:
            ConfigError: The settings can't be used, or would turn a flow that has begun to another cluster.
            ClusterUnreachableError: Whether they would is not known: a cluster with other settings does not answer.
            NotReadyError: What runs is not what the caller has agreed to change.
        """

    @command(web=True)
    async def set(
        self, flow: str | None, changes: Mapping[str, str | None], dry_run: bool = False
    ) -> SettingsDifference:
        """Change keys of a flow, or of the system where ``flow`` is None, until the next ``up``.

        Args:
            flow: Its name.
            changes: Values by key, as in the native form: ``{"topics.include": "orders.*"}``; None: the default.
            dry_run: Say what would be changed, and change nothing.

        Raises:
            ConfigError: With a sentence for each key that can't be changed so, and nothing has been changed.
        """

    @command("replicators", web=True)
    async def scale(self, replicators: int) -> None:
        """Set the number of replicators, until ``scale_by_load``; few partitions move, the others never stop."""

    @command("scaling")
    async def scale_by_load(self, minimum: int | None = None, maximum: int | None = None) -> None:
        """Let the number of replicators follow load and lag, within these bounds, else those that there are.

        They hold until the next ``up``, which brings those of its file.

        Raises:
            ConfigError: There is no upper bound, or the lower one is above it.
        """

    @command("paused", web=True)
    async def pause(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Stop copying a flow, a topic or one partition, until ``resume``; outlives restarts."""

    @command("paused", web=True)
    async def resume(self, flow: str, topic: str | None = None, partition: int | None = None) -> None:
        """Lift the pause of the same scope."""

    @command()
    async def backfill(self, flow: str, request: BackfillRequest, dry_run: bool = False) -> BackfillStatus:
        """Begin to copy a range of a topic beside the flow, or go on with the same one.

        ``dry_run``: say what would be copied, and change nothing.

        Raises:
            ConfigError: It would double or disorder records, or its range is not there.
        """

    @command()
    async def cancel_backfill(self, flow: str, topic: str, into: str | None = None) -> BackfillStatus:
        """Stop a backfill of ``topic``; what it has copied stays, and the same one, asked for again, goes on there."""

    @command()
    async def resolve(self, flow: str, topic: str, partition: int | None, by: FaultPolicy) -> tuple[str, ...]:
        """Resolve the fault of a topic or of one partition, once; ``docs/operations.md`` says what each policy does.

        Returns:
            The partitions that go on by it.

        Raises:
            ConfigError: There is no fault, or it can't be resolved so.
        """

    @command("flows")
    async def down(self, deadline_s: float = 30.0) -> bool:
        """Drain and stop every other actor; whether all was drained within the deadline.

        A second call with a shorter deadline cuts the first one short.
        """


#: Every verb, by name.
VERBS = verbs_of(CoordinatorClient)


def _blocking(
    method: Callable[Concatenate[CoordinatorClient, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Mirror, _P], _T]:
    """The method as a plain call."""

    @functools.wraps(method)
    def call(self: Mirror, /, *args: _P.args, **options: _P.kwargs) -> _T:
        return self.wait_for(method(self.client, *args, **options))

    return call


class Mirror:
    """A running system. Properties and methods ask the coordinator each time; see ``CoordinatorClient``.

    A context manager: leaving it disconnects from Ray.
    """

    def __init__(self, name: str, link: CoordinatorLink) -> None:
        """Use ``mirror_ray.attach``."""
        self.name = name
        self.client = CoordinatorClient(name, link, whoami())
        self._link = link
        self._loop: asyncio.AbstractEventLoop | None = None

    status = _blocking(CoordinatorClient.status)
    settings = _blocking(CoordinatorClient.configuration)
    starter = _blocking(CoordinatorClient.starter)
    partitions = _blocking(CoordinatorClient.partitions)
    topics = _blocking(CoordinatorClient.topics)
    events = _blocking(CoordinatorClient.events)
    gaps = _blocking(CoordinatorClient.gaps)
    groups = _blocking(CoordinatorClient.groups)
    schemas = _blocking(CoordinatorClient.schemas)
    backfills = _blocking(CoordinatorClient.backfills)
    translate = _blocking(CoordinatorClient.translate)
    settle_groups = _blocking(CoordinatorClient.settle_groups)
    set = _blocking(CoordinatorClient.set)
    scale = _blocking(CoordinatorClient.scale)
    scale_by_load = _blocking(CoordinatorClient.scale_by_load)
    pause = _blocking(CoordinatorClient.pause)
    resume = _blocking(CoordinatorClient.resume)
    backfill = _blocking(CoordinatorClient.backfill)
    cancel_backfill = _blocking(CoordinatorClient.cancel_backfill)

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
        return Listing(self.wait_for(self.client.replicators()))

    def lag(self, flow: str | None = None) -> Listing[PartitionStatus]:
        """Partitions, those that lag most first; those whose lag is not known yet before all others."""
        return Listing(
            sorted(
                self.partitions(flow),
                key=lambda row: (row.lag_records is not None, -(row.lag_records or 0), row.topic, row.partition),
            )
        )

    def preview(self, settings: MirrorSettings, replicators: int | None = None) -> SettingsDifference:
        """What `up` with these settings, and so many replicators, would change; see ``CoordinatorClient.apply``."""
        return self.wait_for(self.client.apply(settings, replicators, dry_run=True))

    def resolve(self, flow: str, topic: str, partition: int | None = None, *, by: FaultPolicy) -> tuple[str, ...]:
        """See ``CoordinatorClient.resolve``."""
        return self.wait_for(self.client.resolve(flow, topic, partition, by))

    def down(self, deadline_s: float = 30.0) -> bool:
        """Drain and stop the system, whatever state it is in; a coordinator that hangs is ended with the rest.

        Returns:
            Whether all was drained within the deadline. If not, nothing is lost nor copied twice either: the next
            start reads from the target's logs what has arrived.
        """
        try:
            drained = self.wait_for(self.client.down(deadline_s))
        except NoAnswerError:
            drained = False
        self._link.end()
        return drained

    def wait_for(self, answer: Coroutine[Any, Any, _T]) -> _T:
        """Wait for a query or a command of ``client``; also where this thread runs an event loop of its own."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(self._loop,), name=f"client of {self.name}", daemon=True).start()
        found = asyncio.run_coroutine_threadsafe(answer, self._loop).result()
        # A tuple of ours prints better.
        return cast("_T", Listing(cast("tuple[Any, ...]", found))) if type(found) is tuple else found

    def close(self) -> None:
        """Disconnect; the system goes on."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """A few lines: the system, its flows, its replicators."""
        try:
            return str(self.status())
        except MirrorError as error:
            return f"<Mirror {self.name}: {error}>"


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    # Ctrl-C leaves a question without its answer.
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
