"""The replicators: brought up, asked, found dead, replaced, drained. One task per slot: none waits for another."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.observed import FlowTotals, RateMeter
from mirror_ray.coordinator.ports import (
    CoordinatorTiming,
    Emit,
    ReplicatorGoneError,
    ReplicatorLostError,
    ReplicatorPort,
    ReplicatorSilentError,
    SpawnPort,
)
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.latency import LatencyHistogram
from mirror_ray.model.names import FlowPartition
from mirror_ray.model.quota import QuotaShare, ThrottledTime
from mirror_ray.observe.alerting import ReplicatorExit
from mirror_ray.observe.status import ReplicatorState, ReplicatorStatus
from mirror_ray.state.actor_names import replicator_name

_log = logging.getLogger(__name__)

_DEATHS_KEPT = 100


class PoolListener(Protocol):
    """Hears what the replicators say. Neither method may block or raise."""

    def reported(self, replicator: str, report: ReplicatorReport, *, full: bool) -> None:
        """A report came in; ``full`` ones name every partition that the replicator holds."""
        ...

    def died(self, replicator: str, *, seen: bool) -> None:
        """The replicator will not be heard of again; ``seen``: it is dead for sure."""
        ...


@dataclass(slots=True, eq=False)
class ReplicatorSlot:
    """One replicator number and whatever process fills it at the moment."""

    number: int
    id: str
    state: ReplicatorState = "starting"
    problem: str | None = None
    #: Its answers are errors.
    failing: bool = False
    port: ReplicatorPort | None = None
    #: Where its process is, or was.
    node_id: str = ""
    #: It drains because its node is going away.
    leaving: bool = False
    fingerprint: str = ""
    report: ReplicatorReport | None = None
    #: Whether a full report has come in since it was brought up: only then is it known what it holds.
    known: bool = False
    counted_whole_s: float = 0.0
    #: How many of its process's events have been heard.
    events_heard: int = 0
    #: Left by an earlier coordinator, and not heard of yet: nothing may be placed before it says what it holds.
    adopted: bool = False
    opened_s: float = 0.0
    came_up: bool = False
    meter: RateMeter = field(default_factory=RateMeter)
    cpu: float = 0.0
    answered_s: float = 0.0
    #: For how long it has been asked in vain, counted up to ``counted_s``. Our own standstills are not held against it.
    silent_s: float = 0.0
    counted_s: float = 0.0
    outbox: list[Assignment] = field(default_factory=list)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class ReplicatorPool:
    """Keeps as many replicators alive as are desired."""

    def __init__(
        self,
        system: str,
        spawner: SpawnPort,
        *,
        timing: CoordinatorTiming,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        emit: Emit,
        listener: PoolListener,
        allowances: Callable[[str], Sequence[QuotaShare]],
    ) -> None:
        """``clock``: monotonic seconds; ``wall_ms``: ms since the epoch; ``allowances``: the limits of a replicator."""
        self.slots: dict[int, ReplicatorSlot] = {}
        self.latencies = FlowTotals(lambda report: report.latencies, LatencyHistogram())
        self.held = FlowTotals(lambda report: report.held, ThrottledTime())
        #: The newest ones, and how many there were of all.
        self.deaths: deque[ReplicatorExit] = deque(maxlen=_DEATHS_KEPT)
        self.died = 0
        #: Numbers of the slots that are to be filled; the others drain.
        self._wanted: set[int] = set()
        #: Numbers whose last process is being ended: another one of that name would be taken for it.
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._system = system
        self._spawner = spawner
        self._timing = timing
        self._clock = clock
        self._wall_ms = wall_ms
        self._emit = emit
        self._listener = listener
        self._allowances = allowances
        self._settings: MirrorSettings | None = None
        self._fingerprint = ""

    async def adopt(self) -> None:
        """Find the replicators that an earlier coordinator left alive. They go on copying meanwhile."""
        for number, port in (await self._spawner.living()).items():
            if number not in self.slots:
                self._open(number, port).adopted = True

    def configure(self, settings: MirrorSettings, fingerprint: str) -> None:
        """The settings that every replicator is to work by."""
        self._settings, self._fingerprint = settings, fingerprint
        self._wake_all()

    @property
    def desired(self) -> int:
        """How many replicators there should be."""
        return len(self._wanted)

    def scale(self, desired: int) -> None:
        """Bring up what is missing, drain what is too many: those that are not up first, then the highest numbers."""
        for slot in sorted(self.slots.values(), key=lambda each: each.number):
            if len(self._wanted) < desired and slot.state not in ("draining", "dead"):
                self._wanted.add(slot.number)
        for slot in sorted(self.slots.values(), key=lambda each: each.number):
            if len(self._wanted) < desired and slot.state == "draining" and not slot.leaving:
                slot.state = "running"
                self._wanted.add(slot.number)
        while len(self._wanted) < desired:
            self._open_another()
        while len(self._wanted) > desired:
            least = max(self._wanted, key=lambda number: (self.slots[number].state == "starting", number))
            self._drain(self.slots[least])
        for slot in self.slots.values():
            if slot.number not in self._wanted:
                self._drain(slot)

    def leave(self, nodes: Collection[str]) -> list[str]:
        """Drain the replicators on nodes that are going away, and start another for each; their ids."""
        going = [slot for slot in self.slots.values() if slot.node_id in nodes and slot.number in self._wanted]
        for slot in going:
            slot.leaving = True
            self._drain(slot)
            self._open_another()
        return [slot.id for slot in going]

    def unplaced(self) -> int:
        """How many did not come up in time, and have not since."""
        return sum(slot.state == "starting" and slot.problem is not None for slot in self._wanted_slots())

    def working(self) -> list[tuple[float, ReplicatorReport]]:
        """The newest report of each replicator that is wanted and runs, with when it came."""
        running = [slot for slot in self._wanted_slots() if slot.state == "running"]
        return [(slot.answered_s, slot.report) for slot in running if slot.report is not None]

    def _wanted_slots(self) -> list[ReplicatorSlot]:
        return [slot for slot in self.slots.values() if slot.number in self._wanted]

    def _open_another(self) -> None:
        number = next(each for each in itertools.count(1) if each not in self.slots and each not in self._ending)
        self._wanted.add(number)
        self._open(number, None)

    def _drain(self, slot: ReplicatorSlot) -> None:
        self._wanted.discard(slot.number)
        if slot.state in ("starting", "running"):
            slot.state = "draining"

    def candidates(self) -> list[str]:
        """Ids of the replicators that can be given partitions."""
        return [
            slot.id
            for slot in self.slots.values()
            if slot.state == "running" and slot.known and slot.fingerprint == self._fingerprint
        ]

    def expected(self) -> list[str]:
        """Candidates, and those that are about to come up for the first time: so that not all goes to the fastest."""
        soon_s = self._clock() - self._timing.start_grace_s
        coming = [
            slot.id
            for slot in self.slots.values()
            if slot.state in ("starting", "running") and not slot.came_up and slot.opened_s > soon_s
        ]
        return sorted({*self.candidates(), *coming})

    def silent(self) -> set[str]:
        """Ids of those that live, keep what they have, and can't be given or asked for anything at the moment."""
        candidates = set(self.candidates())
        return {
            slot.id
            for slot in self.slots.values()
            if slot.state in ("running", "unresponsive") and slot.port is not None and slot.id not in candidates
        }

    def overdue(self) -> list[str]:
        """Ids of those that have been silent for so long that others are to have their partitions."""
        limit_s = self._timing.silent_s
        return [slot.id for slot in self.slots.values() if slot.silent_s > limit_s]

    def adopting(self) -> bool:
        """Whether some process from before has not said yet what it holds.

        One that keeps us waiting for too long is no reason for the others' partitions to stand still: what it has is
        handed out when its lease has run out.
        """
        since_s = self._clock() - self._timing.unresponsive_s
        return any(slot.adopted and slot.opened_s > since_s for slot in self.slots.values())

    def find(self, replicator: str) -> ReplicatorSlot | None:
        """The slot of that id."""
        return next((slot for slot in self.slots.values() if slot.id == replicator), None)

    def hand_over(self, replicator: str, assignments: Sequence[Assignment]) -> None:
        """Send assignments with the next exchange, which is at once."""
        slot = self.find(replicator)
        if slot is not None:
            slot.outbox += assignments
            slot.wake.set()

    async def release(self, replicator: str, partitions: Sequence[FlowPartition]) -> Sequence[PartitionReport]:
        """Drain partitions.

        Raises:
            ReplicatorGoneError: It is dead. ReplicatorSilentError: It may still hold them.
        """
        slot = self.find(replicator)
        if slot is None or slot.port is None:
            raise ReplicatorGoneError(f"{replicator} is not running")
        gone = set(partitions)
        slot.outbox = [each for each in slot.outbox if each.partition not in gone]
        return await slot.port.release(partitions, self._timing.drain_s)

    def retire(self, replicator: str) -> None:
        """A draining replicator holds nothing any more: end it."""
        slot = self.find(replicator)
        if slot is None:
            return
        del self.slots[slot.number]
        if slot.task is not None:
            slot.task.cancel()
        self._emit("info", slot.id, "drained and stopped")
        if slot.port is not None:
            self._ending[slot.number] = ending = asyncio.create_task(self._end(slot.port))
            ending.add_done_callback(lambda _: self._ending.pop(slot.number))

    async def shut_down(self, deadline_s: float) -> None:
        """Stop every replicator, draining whatever it still holds."""
        self._wanted = set()
        slots, self.slots = list(self.slots.values()), {}
        for slot in slots:
            if slot.task is not None:
                slot.task.cancel()
        await asyncio.gather(*(self._end(slot.port, deadline_s) for slot in slots if slot.port is not None))

    async def _end(self, port: ReplicatorPort, deadline_s: float = 5.0) -> None:
        try:
            await asyncio.wait_for(port.stop(deadline_s), deadline_s)
        except (MirrorError, TimeoutError) as error:
            _log.warning("replicator did not stop by itself: %s", str(error) or "no answer")
        await port.kill()

    def statuses(self) -> tuple[ReplicatorStatus, ...]:
        """Every slot, by number."""
        return tuple(self._status(self.slots[number]) for number in sorted(self.slots))

    def problems(self) -> tuple[str, ...]:
        """Why replicators are missing or can't be asked."""
        return tuple(f"{replicator}: {why}" for replicator, why in self.missing().items())

    def missing(self) -> Mapping[str, str]:
        """The same by replicator."""
        concerned = [slot for slot in self.slots.values() if slot.number in self._wanted or slot.failing]
        return {slot.id: slot.problem for slot in concerned if slot.problem}

    def _status(self, slot: ReplicatorSlot) -> ReplicatorStatus:
        report = slot.report
        records_per_s, bytes_per_s = slot.meter.rates(self._clock())
        return ReplicatorStatus(
            id=slot.id,
            state=slot.state,
            node=report.node if report else "",
            pid=report.pid if report else 0,
            partitions=report.assigned if report else 0,
            records_per_s=records_per_s,
            bytes_per_s=bytes_per_s,
            cpu=slot.cpu,
            memory=report.memory_bytes if report else 0,
            cpu_seconds=report.cpu_seconds if report else 0.0,
            records=report.records if report else 0,
            bytes=report.bytes if report else 0,
            buffered_bytes=report.buffered_bytes if report else 0,
        )

    def _open(self, number: int, port: ReplicatorPort | None) -> ReplicatorSlot:
        slot = ReplicatorSlot(
            number=number, id=replicator_name(self._system, number), port=port, opened_s=self._clock()
        )
        self.slots[number] = slot
        slot.task = asyncio.create_task(self._keep(slot))
        return slot

    def _wake_all(self) -> None:
        for slot in self.slots.values():
            slot.wake.set()

    async def _keep(self, slot: ReplicatorSlot) -> None:
        """Fill the slot for as long as it is wanted."""
        while True:
            try:
                if await self._bring_up(slot):
                    await self._converse(slot)
            except (ReplicatorGoneError, ReplicatorLostError) as error:
                lived = slot.state != "starting"
                self._bury(slot, str(error), seen=isinstance(error, ReplicatorGoneError))
                if not lived:
                    await asyncio.sleep(self._timing.respawn_s)
            except Exception as error:  # noqa: BLE001 - a slot must not fall silent because of one surprise
                self._fail(slot, error)
                await asyncio.sleep(self._timing.respawn_s)
            if slot.number not in self._wanted:
                self.slots.pop(slot.number, None)
                return

    async def _bring_up(self, slot: ReplicatorSlot) -> bool:
        """Spawn a process where there is none, and wait until it answers. False: ask Ray again."""
        if self._settings is None:
            await self._wait(slot)
            return False
        if slot.port is None:
            slot.port = await self._spawner.spawn(slot.number, self._settings, self._fingerprint)
        try:
            async with asyncio.timeout(self._timing.start_timeout_s):
                health = await slot.port.health()
        except (TimeoutError, ReplicatorSilentError):
            problem = "did not come up: Ray may have no room for it (see `ray status`); asked again"
            if slot.problem != problem:
                self._emit("warning", slot.id, problem)
            slot.problem = problem
            await slot.port.kill()
            raise ReplicatorGoneError(slot.problem) from None
        slot.fingerprint, slot.known, slot.node_id = health.fingerprint, False, health.node_id
        slot.events_heard = 0
        slot.answered_s = self._clock()
        self._heard(slot)
        slot.meter = RateMeter()
        if slot.state != "draining":
            slot.state = "running"
        return True

    async def _converse(self, slot: ReplicatorSlot) -> None:
        """Exchange until it is dead; kill it when it has been silent for too long."""
        while True:
            limit_s = self._timing.exchange_timeout_s
            try:
                if slot.fingerprint != self._fingerprint:
                    limit_s = 2 * self._timing.drain_s
                    async with asyncio.timeout(limit_s):
                        await self._configure(slot)
                    limit_s = self._timing.exchange_timeout_s
                # Not wait_for: when the answer and a cancellation come at once, that forgets the cancellation.
                async with asyncio.timeout(limit_s):
                    await self._exchange(slot)
                if slot.state == "unresponsive":
                    self._emit("info", slot.id, "answers again")
                    slot.state = "running" if slot.number in self._wanted else "draining"
            except (TimeoutError, ReplicatorSilentError):
                await self._unanswered(slot, limit_s)
            await self._wait(slot)

    async def _unanswered(self, slot: ReplicatorSlot, limit_s: float) -> None:
        """Nothing came within the limit, or Ray can't reach it.

        Raises:
            ReplicatorGoneError, ReplicatorLostError: That has been so for too long.
        """
        slot.known = False
        now_s = self._clock()
        # Who was stopped himself, by a signal or with his machine, has not listened for longer than this.
        slot.silent_s += min(now_s - slot.counted_s, limit_s + self._timing.poll_s)
        slot.counted_s = now_s
        if slot.state == "running":
            slot.state = "unresponsive"
            self._emit("warning", slot.id, "does not answer; it may still be copying")
        if slot.silent_s > self._timing.unresponsive_s and slot.port is not None:
            self._emit("error", slot.id, f"has not answered for {slot.silent_s:.0f} s: killed")
            await self._end_silent(slot.port)

    async def _end_silent(self, port: ReplicatorPort) -> None:
        """Kill it, and look for a moment whether it is dead.

        Raises:
            ReplicatorGoneError: It is. ReplicatorLostError: Nobody knows.
        """
        try:
            async with asyncio.timeout(self._timing.confirm_s):
                seen = await port.seen_dead()
        except TimeoutError:
            seen = False
        if seen:
            raise ReplicatorGoneError("killed, for it did not answer")
        raise ReplicatorLostError("did not answer, and its node does not say whether it is dead")

    async def _exchange(self, slot: ReplicatorSlot) -> None:
        if slot.port is None:
            raise ReplicatorGoneError(f"{slot.id} is not running")
        # A copy: what is handed over while the answer is awaited has not been sent.
        sent, full = tuple(slot.outbox), not slot.known or self._to_be_recounted(slot)
        report = await slot.port.exchange(
            sent, full=full, allowances=self._allowances(slot.id), events_heard=slot.events_heard
        )
        slot.events_heard = report.events_end
        # Assignments stay in the outbox until they have been heard; hearing them twice changes nothing.
        delivered = {(each.partition, each.epoch) for each in sent}
        slot.outbox = [each for each in slot.outbox if (each.partition, each.epoch) not in delivered]
        self._note(slot, report)
        if slot.known and slot.outbox:
            # What was handed over meanwhile is not in it, and is not missing either.
            full = False
        if full:
            slot.counted_whole_s = self._clock()
        self._listener.reported(slot.id, report, full=full)
        slot.known, slot.came_up, slot.adopted = True, True, False
        if slot.failing:
            self._emit("info", slot.id, "answers without errors again")
        slot.problem, slot.failing = None, False

    def _to_be_recounted(self, slot: ReplicatorSlot) -> bool:
        return not slot.outbox and self._clock() - slot.counted_whole_s > self._timing.recount_s

    def _fail(self, slot: ReplicatorSlot, error: Exception) -> None:
        """It answered with an error that nobody foresaw: shown until an exchange succeeds, told once."""
        what = str(error) if isinstance(error, MirrorError) else f"{type(error).__name__}: {error}"
        problem = f"can't be asked: {what}; asked again, its partitions may stand still (see its log in Ray's session)"
        if problem != slot.problem:
            _log.error("%s", slot.id, exc_info=error)
            self._emit("error", slot.id, problem)
        slot.problem, slot.failing = problem, True

    async def _configure(self, slot: ReplicatorSlot) -> None:
        """Hand over new settings. It may have to drain for them: that silence is not held against it."""
        settings, fingerprint = self._settings, self._fingerprint
        if slot.port is None or settings is None:
            raise ReplicatorGoneError(f"{slot.id} is not running")
        await slot.port.configure(settings, fingerprint)
        slot.fingerprint = fingerprint
        self._heard(slot)

    def _note(self, slot: ReplicatorSlot, report: ReplicatorReport) -> None:
        now_s = self._clock()
        before = slot.report
        if before is not None and before.pid == report.pid and now_s > slot.answered_s:
            slot.cpu = (report.cpu_seconds - before.cpu_seconds) / (now_s - slot.answered_s)
        self.latencies.take(before, report, adopted=slot.adopted)
        self.held.take(before, report, adopted=slot.adopted)
        slot.report, slot.answered_s = report, now_s
        self._heard(slot)
        slot.meter.sample(now_s, report.records, report.bytes)

    def _heard(self, slot: ReplicatorSlot) -> None:
        slot.silent_s, slot.counted_s = 0.0, self._clock()

    def _bury(self, slot: ReplicatorSlot, reason: str, *, seen: bool) -> None:
        was = slot.state
        slot.port, slot.report, slot.outbox, slot.cpu = None, None, [], 0.0
        slot.known = slot.adopted = slot.failing = False
        slot.silent_s = 0.0
        slot.state = "starting" if slot.number in self._wanted else "dead"
        if was == "starting":
            slot.problem = reason
        else:
            self._tell_death(slot, reason, seen=seen)
        self._listener.died(slot.id, seen=seen)

    def _tell_death(self, slot: ReplicatorSlot, reason: str, *, seen: bool) -> None:
        self.died += 1
        self.deaths.append(ReplicatorExit(self._wall_ms(), slot.id, reason))
        if seen:
            self._emit("error", slot.id, f"died ({reason}); what it had goes to the others, a replacement is started")
        else:
            what = "what it may still have goes to the others when its lease has run out, a replacement is started"
            self._emit("error", slot.id, f"lost ({reason}); {what}")

    async def _wait(self, slot: ReplicatorSlot) -> None:
        try:
            async with asyncio.timeout(self._timing.poll_s):
                await slot.wake.wait()
        except TimeoutError:
            return
        finally:
            slot.wake.clear()
