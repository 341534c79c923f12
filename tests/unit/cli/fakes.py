"""A running system without Ray."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from mirror_ray import runtime
from mirror_ray.config.difference import changed, rescaled
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.mirror import Mirror
from mirror_ray.model.backfill import BackfillRange, BackfillRecord
from mirror_ray.observe.backfills import backfill_status
from mirror_ray.observe.events import Event, GapStatus
from mirror_ray.observe.groups import GroupPartitionStatus, GroupStatus
from mirror_ray.observe.problems import Problem
from mirror_ray.observe.schemas import SchemaStatus
from mirror_ray.observe.status import PartitionStatus, ReplicatorStatus, SystemStatus, TopicStatus
from mirror_ray.offsets.translation import Translation
from tests.support.factories import flow_status, gap_status, partition_status, system_status, topic_status

#: Runs a command line, as the fixture ``run`` does.
Run = Callable[..., Any]

CONFIG = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
PARTITION, TOPIC, FLOW, STATUS, GAP = partition_status(), topic_status(), flow_status(), system_status(), gap_status()
BACKFILL = BackfillRecord(
    topic="orders", into="old", ranges=(BackfillRange(0, 10, 30),), said="from earliest", time_ms=0
)
EVENT = Event(time_ms=0, level="info", subject="A->B", text="found topic orders")
_BEHIND = "it stands at 120 on the source, the copy at 100"
_SYNCED = GroupPartitionStatus(
    topic="orders",
    partition=0,
    remote_topic="A.orders",
    source_offset=70,
    target_offset=68,
    exact=True,
    state="synced",
    reason=None,
)
GROUP = GroupStatus(
    flow="A->B",
    group="billing",
    kind="classic",
    source_state="Stable",
    state="behind",
    reason=_BEHIND,
    partitions=(
        _SYNCED,
        replace(_SYNCED, partition=1, source_offset=120, target_offset=None, state="behind", reason=_BEHIND),
    ),
)
SCHEMA = SchemaStatus(
    flow="A->B",
    subject="orders-value",
    version=1,
    kind="AVRO",
    source_id=7,
    target_subject="A.orders-value",
    target_id=3,
    state="mirrored",
    deleted=False,
)
SCHEMA_IN_CONFLICT = replace(SCHEMA, version=2, source_id=8, target_id=None, state="conflict", problem="another schema")


def stopped(text: str) -> Problem:
    """A topic of A->B is not copied."""
    return Problem(
        kind="partition_stopped", severity="critical", flow="A->B", subject="orders", text=text, remedy="do something"
    )


class FakeCoordinator:
    """Answers as the coordinator does, and remembers the commands. Values are given anew by assignment."""

    def __init__(self) -> None:
        self.status: SystemStatus | Iterator[SystemStatus] = STATUS
        self.partitions: tuple[PartitionStatus, ...] = (PARTITION,)
        self.topics: tuple[TopicStatus, ...] = (TOPIC,)
        self.replicators: tuple[ReplicatorStatus, ...] = STATUS.replicators
        self.events: tuple[Event, ...] = (EVENT,)
        self.gaps: tuple[GapStatus, ...] = (GAP,)
        self.groups: tuple[GroupStatus, ...] = (GROUP,)
        self.schemas: tuple[SchemaStatus, ...] = (SCHEMA, SCHEMA_IN_CONFLICT)
        self.backfills = (backfill_status("A->B#1", BACKFILL, state="copying", positions={0: 15}),)
        self.translate: Translation = Translation(offset=40)
        #: Of ``configuration`` and ``set``; without them it answers nothing.
        self.configuration: Any = None
        self.set: Any = None
        self.commands: list[tuple[Any, ...]] = []
        self.errors: dict[str, Exception] = {}
        #: Ctrl-C is pressed while this is being answered.
        self.interrupted_in: str | None = None
        self.ended = False
        self.closed = False
        #: What it ran by before the command, and whether ``down`` drains it in time.
        self.before: MirrorSettings | None = None
        #: Whose process it ends with, and whether a command has got as far as to start or change it.
        self.ends_with: str | None = None
        self.started = False
        #: What the command has agreed to change.
        self.agreed: runtime.AgreedChanges | None = None
        self.drained = True

    async def ask(self, method: str, *args: object, timeout_s: float) -> Any:
        """The coordinator's answer."""
        assert timeout_s > 0
        if method == "act":
            # Who asks is the audit log's business.
            _, method, args = args  # type: ignore[assignment]  # the act, and its arguments
        if method == self.interrupted_in:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.sleep(60)
        if method in self.errors:
            raise self.errors[method]
        if method == "apply":
            settings, replicators, dry_run, *_ = args
            assert dry_run
            assert isinstance(settings, MirrorSettings)
            assert isinstance(replicators, int | None)
            found = rescaled(changed(self.before, settings), 2, replicators or 2)
            return replace(found, onto="what runs")
        if hasattr(self, method):
            value = getattr(self, method)
            return next(value) if isinstance(value, Iterator) else value
        self.commands.append((method, *args))
        return {"down": self.drained, "resolve": ("orders-3",), "settle_groups": True}.get(method)

    def end(self) -> None:
        """Every actor ends."""
        self.ended = True

    def close(self) -> None:
        """Ray is let go of."""
        self.closed = True

    def system(self) -> Mirror:
        """The system in front of it."""
        return Mirror("mirror", self)

    @contextmanager
    def start(
        self,
        *_args: Any,
        agree: Callable[[Mirror], runtime.AgreedChanges],
        check: Callable[[], None] | None = None,
        **_: Any,
    ) -> Iterator[runtime.StartedSystem]:
        """In the place of ``runtime.start``."""
        if check is not None:
            check()
        with self.system() as system:
            self.agreed = agree(system) if self.before is not None else None
            self.started = True
            changes = self.agreed.changes if self.agreed is not None else None
            yield runtime.StartedSystem(system=system, changes=changes, ends_with=self.ends_with)
