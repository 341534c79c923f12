"""The life of one replicator number: its process is started, asked, found silent or dead, replaced, drained."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.observed import FlowTotals, RateMeter
from mirror_ray.coordinator.ports import (
    Emit,
    ReplicatorGoneError,
    ReplicatorLostError,
    ReplicatorPort,
    ReplicatorSilentError,
    SpawnPort,
)
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.model.assignment import Assignment, ReplicatorReport
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.latency import LatencyHistogram
from mirror_ray.model.quota import QuotaShare, ThrottledTime
from mirror_ray.observe.alerting import ReplicatorExit
from mirror_ray.observe.status import ReplicatorState, ReplicatorStatus

if TYPE_CHECKING:
    from mirror_ray.coordinator.assignment import PartitionAssigner

_log = logging.getLogger(__name__)

_EXITS_KEPT = 100


@dataclass(slots=True, kw_only=True, eq=False)
class ReplicatorContext:
    """What all replicators of a pool share."""

    spawner: SpawnPort
    timing: CoordinatorTiming
    #: Monotonic seconds.
    clock: Callable[[], float]
    #: Milliseconds since the epoch.
    wall_ms: Callable[[], int]
    emit: Emit
    #: Its ``on_report`` and ``on_exit`` are called; neither blocks or raises.
    listener: PartitionAssigner
    #: The limits of a replicator.
    allowances: Callable[[str], Sequence[QuotaShare]]
    settings: MirrorSettings | None = None
    fingerprint: str = ""
    latencies: FlowTotals[LatencyHistogram] = field(
        default_factory=lambda: FlowTotals(lambda report: report.latencies, LatencyHistogram())
    )
    throttled: FlowTotals[ThrottledTime] = field(
        default_factory=lambda: FlowTotals(lambda report: report.held, ThrottledTime())
    )
    #: The newest exits, and how many there were of all.
    exits: deque[ReplicatorExit] = field(default_factory=lambda: deque(maxlen=_EXITS_KEPT))
    exit_count: int = 0


@dataclass(slots=True, eq=False)
class ReplicatorProcess:
    """One replicator number, and whatever process has it at the moment. One task each: none waits for another."""

    number: int
    id: str
    context: ReplicatorContext
    port: ReplicatorPort | None
    #: Left by an earlier coordinator, and no report yet: nothing may be assigned before it has said what it holds.
    adopted: bool
    opened_s: float
    #: It should run; otherwise it drains.
    wanted: bool = False
    state: ReplicatorState = "starting"
    problem: str | None = None
    #: Its answers are errors.
    failing: bool = False
    #: Where its process is, or was.
    node_id: str = ""
    #: It drains because its node is going away.
    leaving: bool = False
    fingerprint: str = ""
    report: ReplicatorReport | None = None
    #: Whether a full report has come in since the process came up: only then is it known what it holds.
    known: bool = False
    came_up: bool = False
    cpu: float = 0.0
    answered_s: float = 0.0
    #: For how long it has been asked in vain. Our own standstills do not count.
    silent_s: float = 0.0
    outbox: list[Assignment] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    _meter: RateMeter = field(default_factory=RateMeter)
    _full_report_s: float = 0.0
    #: How many of its process's events have been taken.
    _events_taken: int = 0
    _counted_s: float = 0.0

    def drain(self) -> None:
        """Give everything back and end."""
        self.wanted = False
        if self.state in ("starting", "running"):
            self.state = "draining"

    def status(self) -> ReplicatorStatus:
        """As operators see it."""
        report = self.report
        records_per_s, bytes_per_s = self._meter.rates(self.context.clock())
        return ReplicatorStatus(
            id=self.id,
            state=self.state,
            node=report.node if report else "",
            pid=report.pid if report else 0,
            partitions=report.assigned if report else 0,
            records_per_s=records_per_s,
            bytes_per_s=bytes_per_s,
            cpu=self.cpu,
            memory=report.memory_bytes if report else 0,
            cpu_seconds=report.cpu_seconds if report else 0.0,
            records=report.records if report else 0,
            bytes=report.bytes if report else 0,
            buffered_bytes=report.buffered_bytes if report else 0,
            has_kernel=report.has_kernel if report else True,
        )

    async def run(self) -> None:
        """Keep a process for as long as one is wanted."""
        respawn_s = self.context.timing.respawn_s
        while True:
            try:
                if await self._bring_up():
                    await self._exchange_until_dead()
            except (ReplicatorGoneError, ReplicatorLostError) as error:
                lived = self.state != "starting"
                self._on_exit(str(error), seen=isinstance(error, ReplicatorGoneError))
                if not lived:
                    await asyncio.sleep(respawn_s)
            except Exception as error:  # noqa: BLE001 - it must not fall silent because of one surprise
                self._fail(error)
                await asyncio.sleep(respawn_s)
            if not self.wanted:
                return

    async def _bring_up(self) -> bool:
        """Spawn a process where there is none, and wait until it answers. False: ask Ray again."""
        context = self.context
        if context.settings is None:
            await self._wait()
            return False
        if self.port is None:
            self.port = await context.spawner.spawn(self.number, context.settings, context.fingerprint)
        try:
            async with asyncio.timeout(context.timing.start_timeout_s):
                health = await self.port.health()
        except (TimeoutError, ReplicatorSilentError):
            problem = "did not come up: Ray may have no room for it (see `ray status`); asked again"
            if self.problem != problem:
                context.emit("warning", self.id, problem)
            self.problem = problem
            await self.port.kill()
            raise ReplicatorGoneError(self.problem) from None
        self.fingerprint, self.known, self.node_id = health.fingerprint, False, health.node_id
        self._events_taken = 0
        self.answered_s = context.clock()
        self._end_silence()
        self._meter = RateMeter()
        if self.state != "draining":
            self.state = "running"
        return True

    async def _exchange_until_dead(self) -> None:
        """Exchange until it is dead; kill it when it has been silent for too long."""
        timing = self.context.timing
        while True:
            limit_s = timing.exchange_timeout_s
            try:
                if self.fingerprint != self.context.fingerprint:
                    limit_s = 2 * timing.drain_s
                    async with asyncio.timeout(limit_s):
                        await self._configure()
                    limit_s = timing.exchange_timeout_s
                # Not wait_for: when the answer and a cancellation come at once, that forgets the cancellation.
                async with asyncio.timeout(limit_s):
                    await self._exchange()
                if self.state == "unresponsive":
                    self.context.emit("info", self.id, "answers again")
                    self.state = "running" if self.wanted else "draining"
            except (TimeoutError, ReplicatorSilentError):
                await self._on_silence(limit_s)
            await self._wait()

    def _running_port(self) -> ReplicatorPort:
        if self.port is None:
            raise ReplicatorGoneError(f"{self.id} is not running")
        return self.port

    async def _configure(self) -> None:
        """Hand over new settings. It may have to drain for them: that silence does not count."""
        settings, fingerprint = self.context.settings, self.context.fingerprint
        if settings is None:
            raise AssertionError(self.id)
        await self._running_port().configure(settings, fingerprint)
        self.fingerprint = fingerprint
        self._end_silence()

    async def _exchange(self) -> None:
        context = self.context
        # A copy: what is handed over while the answer is awaited has not been sent.
        sent, full = tuple(self.outbox), not self.known or self._is_recount_due()
        report = await self._running_port().exchange(
            sent, full=full, allowances=context.allowances(self.id), events_taken=self._events_taken
        )
        self._events_taken = report.events_end
        # Assignments stay in the outbox until they have arrived; a second arrival changes nothing.
        delivered = {(assignment.partition, assignment.epoch) for assignment in sent}
        self.outbox = [
            assignment for assignment in self.outbox if (assignment.partition, assignment.epoch) not in delivered
        ]
        self._take(report)
        if self.known and self.outbox:
            # What was handed over meanwhile is not in the report, and is not missing either.
            full = False
        if full:
            self._full_report_s = context.clock()
        context.listener.on_report(self.id, report, full=full)
        self.known, self.came_up, self.adopted = True, True, False
        if self.failing:
            context.emit("info", self.id, "answers without errors again")
        self.problem, self.failing = None, False

    def _is_recount_due(self) -> bool:
        return not self.outbox and self.context.clock() - self._full_report_s > self.context.timing.recount_s

    def _take(self, report: ReplicatorReport) -> None:
        context, now_s, before = self.context, self.context.clock(), self.report
        if before is not None and before.pid == report.pid and now_s > self.answered_s:
            self.cpu = (report.cpu_seconds - before.cpu_seconds) / (now_s - self.answered_s)
        context.latencies.take(before, report, adopted=self.adopted)
        context.throttled.take(before, report, adopted=self.adopted)
        self.report, self.answered_s = report, now_s
        self._end_silence()
        self._meter.sample(now_s, report.records, report.bytes)

    def _end_silence(self) -> None:
        self.silent_s, self._counted_s = 0.0, self.context.clock()

    async def _on_silence(self, limit_s: float) -> None:
        """No answer came within the limit, or Ray can't reach the process.

        Raises:
            ReplicatorGoneError, ReplicatorLostError: That has been so for too long.
        """
        context = self.context
        self.known = False
        now_s = context.clock()
        # A coordinator that was stopped itself, by a signal or with its machine, has not listened for longer than this.
        self.silent_s += min(now_s - self._counted_s, limit_s + context.timing.poll_s)
        self._counted_s = now_s
        if self.state == "running":
            self.state = "unresponsive"
            context.emit("warning", self.id, "does not answer; it may still be copying")
        if self.silent_s > context.timing.unresponsive_s and self.port is not None:
            context.emit("error", self.id, f"has not answered for {self.silent_s:.0f} s: killed")
            await self._kill(self.port)

    async def _kill(self, port: ReplicatorPort) -> None:
        """Kill the process, and wait for a moment until it is seen dead.

        Raises:
            ReplicatorGoneError: It is. ReplicatorLostError: Nobody knows.
        """
        try:
            async with asyncio.timeout(self.context.timing.confirm_s):
                seen = await port.seen_dead()
        except TimeoutError:
            seen = False
        if seen:
            raise ReplicatorGoneError("killed, for it did not answer")
        raise ReplicatorLostError("did not answer, and its node does not say whether it is dead")

    def _fail(self, error: Exception) -> None:
        """It answered with an error that nobody foresaw: shown until an exchange succeeds, one event."""
        what = str(error) if isinstance(error, MirrorError) else f"{type(error).__name__}: {error}"
        problem = f"can't be asked: {what}; asked again, its partitions may stand still (see its log in Ray's session)"
        if problem != self.problem:
            _log.error("%s", self.id, exc_info=error)
            self.context.emit("error", self.id, problem)
        self.problem, self.failing = problem, True

    def _on_exit(self, reason: str, *, seen: bool) -> None:
        before = self.state
        self.port, self.report, self.outbox, self.cpu = None, None, [], 0.0
        self.known = self.adopted = self.failing = False
        self.silent_s = 0.0
        self.state = "starting" if self.wanted else "dead"
        if before == "starting":
            self.problem = reason
        else:
            self._record_exit(reason, seen=seen)
        self.context.listener.on_exit(self.id, seen=seen)

    def _record_exit(self, reason: str, *, seen: bool) -> None:
        context = self.context
        context.exit_count += 1
        context.exits.append(ReplicatorExit(context.wall_ms(), self.id, reason))
        if seen:
            text = f"died ({reason}); what it had goes to the others, a replacement is started"
        else:
            what = "what it may still have goes to the others when its lease has run out, a replacement is started"
            text = f"lost ({reason}); {what}"
        context.emit("error", self.id, text)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self.context.timing.poll_s):
                await self.wake.wait()
        except TimeoutError:
            return
        finally:
            self.wake.clear()
