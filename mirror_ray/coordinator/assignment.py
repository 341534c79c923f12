"""Assigns, moves and takes back partitions, so that the observed state becomes the desired one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mirror_ray.coordinator.assignment_rules import PartitionWeight, assign
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.observed import ObservedState
from mirror_ray.coordinator.ports import Emit, ReplicatorGoneError, ReplicatorLostError, ReplicatorSilentError
from mirror_ray.coordinator.replicator_pool import ReplicatorPool
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.model.assignment import Assignment, PartitionReport, ReplicatorReport
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.lease_terms import LeaseTerms
from mirror_ray.model.names import FlowName, FlowPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Owner:
    """The replicator that has a partition, and the epoch of its assignment."""

    replicator: str
    epoch: int


class PartitionAssigner:
    """Keeps the owners by what the replicators report, and works on the difference to what ``assign`` wants.

    Guarantees: a partition is assigned only after its former owner has released it, or is dead for sure, or has had a
    higher epoch to see for longer than its lease; one flow's stuck state topic holds up the partitions of that flow
    alone; nothing is assigned or taken back for a flow that another coordinator has taken over.
    """

    def __init__(
        self,
        flows: Mapping[FlowName, FlowController],
        observed: ObservedState,
        *,
        timing: CoordinatorTiming,
        emit: Emit,
        wake: Callable[[], None],
    ) -> None:
        """``flows`` is read anew in each step; ``wake`` asks for a step soon.

        The pool is given to ``step``, for it needs this as its listener.
        """
        self.owners: dict[FlowPartition, Owner] = {}
        self._flows, self._observed = flows, observed
        self._timing, self._emit, self._wake = timing, emit, wake
        #: Partitions that are being assigned or taken back.
        self._busy: set[FlowPartition] = set()
        #: Reports of adopted replicators, by partition, until the flows have read their state.
        self._adopted: dict[FlowPartition, tuple[str, PartitionReport]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled: object = None
        #: What each flow wanted last, and as of which versions.
        self._known_wanted: dict[FlowName, tuple[object, Mapping[FlowPartition, PartitionWeight]]] = {}

    def on_report(self, replicator: str, report: ReplicatorReport, *, full: bool) -> None:
        """Take in a report; a full one also says what the replicator does not hold."""
        for partition_report in report.partitions:
            owner = self.owners.get(partition_report.partition)
            if owner == Owner(replicator, partition_report.epoch):
                self._take_progress(partition_report)
            elif full and owner is None and partition_report.partition not in self._busy:
                self._adopted[partition_report.partition] = (replicator, partition_report)
        if full:
            held = {partition_report.partition for partition_report in report.partitions}
            for partition in self._held(replicator):
                if partition not in held and partition not in self._busy:
                    self._disown(partition, released=True)
            self._wake()
        for partition, epoch in report.given_up:
            if self.owners.get(partition) == Owner(replicator, epoch) and partition not in self._busy:
                self._disown(partition, released=True)
                self._wake()
        for time_ms, level, text in report.events:
            _log.info("%s at %d: %s", replicator, time_ms, text)
            self._emit(level, replicator, text)

    def on_exit(self, replicator: str, *, seen: bool) -> None:
        """Release everything it had, at once or when its lease has run out; the next step assigns it to others."""
        for partition in self._held(replicator):
            self._disown(partition, released=seen)
        self._adopted = {partition: item for partition, item in self._adopted.items() if item[0] != replicator}
        self._wake()

    def _replace_silent(self, pool: ReplicatorPool) -> None:
        """Take partitions from replicators that don't answer, where there are others to have them."""
        if not pool.candidates():
            return
        for replicator in pool.overdue():
            held = [partition for partition in self._held(replicator) if partition not in self._busy]
            for partition in held:
                self._disown(partition, released=False)
            if held:
                self._emit("error", replicator, f"has not answered for too long; others take over {_listed(held)}")

    def _disown(self, partition: FlowPartition, *, released: bool) -> None:
        """``released``: the owner does not hold it any more, for sure."""
        del self.owners[partition]
        self._settled = None
        flow = self._flows.get(partition.flow)
        if released and flow is not None:
            flow.state.release(partition.source)

    def _take_progress(self, report: PartitionReport, *, adopted: bool = False) -> None:
        before = self._observed.take(report, adopted=adopted)
        flow = self._flows.get(report.partition.flow)
        if flow is not None:
            flow.on_report(report)
        # That it stopped is an event of the replicator.
        if before is not None and before.state == "stopped" and report.state == "copying":
            self._emit("info", str(report.partition), "recovered: copying again")

    def is_unassigned(self, partition: FlowPartition) -> bool:
        """Whether no replicator has the partition, may still have it, or is about to get it."""
        if partition in self.owners or partition in self._busy or partition in self._adopted:
            return False
        flow = self._flows.get(partition.flow)
        return flow is None or not flow.state.lease_ms(partition.source)

    async def step(self, pool: ReplicatorPool, loads: Mapping[FlowPartition, float]) -> None:
        """Start whatever brings the owners nearer to what is wanted. Does not wait for it.

        ``loads``: bytes/s of each partition, when loads are to be balanced.
        """
        self._adopt(pool)
        if pool.adopting():
            return
        self._replace_silent(pool)
        candidates, expected, silent = pool.candidates(), pool.expected(), pool.silent()
        flows = tuple((name, flow.version) for name, flow in self._flows.items())
        inputs = (tuple(candidates), tuple(expected), tuple(silent), flows)
        # Nothing has changed since everything was in place: thousands of idle partitions cost nothing.
        if inputs != self._settled or loads:
            wanted = self._wanted(anew=bool(loads))
            names = {partition: owner.replicator for partition, owner in self.owners.items()}
            # What a silent replicator has stays with it for the moment.
            placeable = {
                partition: replace(weight, load=load) if (load := loads.get(partition, 0.0)) else weight
                for partition, weight in wanted.items()
                if names.get(partition) not in silent
            }
            goal = {partition: to for partition, to in assign(placeable, expected, names).items() if to in candidates}
            started = self._start_all(pool, goal, wanted)
            self._settled = None if started or self._busy else inputs
        for replicator in pool.draining():
            if not self._held(replicator) and all(holder != replicator for holder, _ in self._adopted.values()):
                pool.retire(replicator)

    def _wanted(self, *, anew: bool) -> Mapping[FlowPartition, PartitionWeight]:
        """What all flows want; each is asked again when it has changed, or one beside it, by whose state it may go.

        ``anew``: all of them are asked.
        """
        versions: dict[FlowName, list[int]] = {}
        for name, flow in self._flows.items():
            versions.setdefault(name.live, []).append(flow.version)
        known, self._known_wanted = self._known_wanted, {}
        everything: dict[FlowPartition, PartitionWeight] = {}
        for name, flow in self._flows.items():
            asked = (flow, tuple(versions[name.live]))
            before, wanted = known.get(name, (None, {}))
            self._known_wanted[name] = asked, flow.wanted() if anew or before != asked else wanted
            everything |= self._known_wanted[name][1]
        return everything

    def _held(self, replicator: str) -> list[FlowPartition]:
        return [partition for partition, owner in self.owners.items() if owner.replicator == replicator]

    def _adopt(self, pool: ReplicatorPool) -> None:
        """Decide about what adopted replicators hold, as soon as the flows have read their state."""
        unknown: dict[str, list[FlowPartition]] = {}
        for partition, (replicator, report) in list(self._adopted.items()):
            flow = self._flows.get(partition.flow)
            if flow is not None and not flow.discovered:
                continue
            del self._adopted[partition]
            known = flow is not None and flow.state.epoch(partition.source) == report.epoch
            if known and partition not in self.owners:
                self.owners[partition] = Owner(replicator, report.epoch)
                self._take_progress(report, adopted=True)
            else:
                unknown.setdefault(replicator, []).append(partition)
        for replicator, partitions in unknown.items():
            self._start(partitions, partial(self._take_back, pool, replicator, partitions))

    def _start_all(
        self, pool: ReplicatorPool, goal: Mapping[FlowPartition, str], wanted: Mapping[FlowPartition, PartitionWeight]
    ) -> bool:
        grants: dict[FlowName, dict[FlowPartition, str]] = {}
        moves: dict[str, list[FlowPartition]] = {}
        waiting = self._wait_out_strays()
        for partition, replicator in goal.items():
            owner = self.owners.get(partition)
            if (owner is not None and owner.replicator == replicator) or not self._may_act_for(partition):
                continue
            if owner is None:
                grants.setdefault(partition.flow, {})[partition] = replicator
            else:
                moves.setdefault(owner.replicator, []).append(partition)
        for partition, owner in self.owners.items():
            if partition not in wanted and self._may_act_for(partition):
                moves.setdefault(owner.replicator, []).append(partition)
        for flow, chosen in grants.items():
            self._start(chosen, partial(self._grant, pool, flow, chosen))
        for replicator, partitions in moves.items():
            some = partitions[: self._timing.moves_at_once]
            self._start(some, partial(self._move, pool, replicator, some, goal))
        return bool(waiting or grants or moves)

    def _wait_out_strays(self) -> bool:
        """Take back partitions that somebody may hold, and nobody is known to; whether there are any."""
        found = False
        for name, flow in self._flows.items():
            leased = (FlowPartition(name, *partition) for partition in flow.leased)
            unknown = [
                partition for partition in leased if partition not in self.owners and partition not in self._busy
            ]
            if unknown:
                found = True
                self._start(unknown, partial(self._wait_out, flow, unknown))
        return found

    def _may_act_for(self, partition: FlowPartition) -> bool:
        flow = self._flows.get(partition.flow)
        return partition not in self._busy and (flow is None or not flow.state.fenced)

    def _start(self, partitions: Iterable[FlowPartition], work: Callable[[], Awaitable[None]]) -> None:
        partitions = frozenset(partitions)
        self._busy |= partitions

        async def run() -> None:
            try:
                await work()
            except (ReplicatorSilentError, ReplicatorGoneError, ReplicatorLostError) as error:
                _log.info("%s; the next step decides anew", error)
            except MirrorError as error:
                self._emit("warning", ", ".join(sorted({str(partition.flow) for partition in partitions})), str(error))
                await asyncio.sleep(self._timing.retry_first_s)
            except Exception:  # noqa: BLE001
                _log.exception("assigning partitions failed")
                await asyncio.sleep(self._timing.retry_first_s)
            finally:
                self._busy -= partitions
                self._wake()

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _grant(self, pool: ReplicatorPool, name: FlowName, chosen: Mapping[FlowPartition, str]) -> None:
        flow = self._flows.get(name)
        if flow is None:
            return
        by_replicator: dict[str, list[Assignment]] = {}
        for assignment in await flow.grant(chosen):
            by_replicator.setdefault(chosen[assignment.partition], []).append(assignment)
        alive = set(pool.candidates())
        for replicator, assignments in by_replicator.items():
            if replicator not in alive:
                for assignment in assignments:
                    flow.state.release(assignment.partition.source)
                continue
            for assignment in assignments:
                self.owners[assignment.partition] = Owner(replicator, assignment.epoch)
            pool.hand_over(replicator, assignments)
            listed = _listed(assignment.partition for assignment in assignments)
            self._emit("info", replicator, f"{name}: assigned {listed}")

    async def _move(
        self,
        pool: ReplicatorPool,
        replicator: str,
        partitions: Sequence[FlowPartition],
        goal: Mapping[FlowPartition, str],
    ) -> None:
        """Release partitions on the old owner and grant them at once to the new one, where there is one."""
        await self._take_back(pool, replicator, partitions)
        flows: dict[FlowName, dict[FlowPartition, str]] = {}
        for partition in partitions:
            if partition in goal:
                flows.setdefault(partition.flow, {})[partition] = goal[partition]
        if flows:
            moved = [partition for chosen in flows.values() for partition in chosen]
            self._emit("info", replicator, f"moved away to balance or drain: {_listed(moved)}")
        for name, chosen in flows.items():
            await self._grant(pool, name, chosen)

    async def _take_back(self, pool: ReplicatorPool, replicator: str, partitions: Sequence[FlowPartition]) -> None:
        for report in await pool.release(replicator, partitions):
            owner = self.owners.get(report.partition)
            if owner == Owner(replicator, report.epoch):
                self._take_progress(report)
        for partition in partitions:
            owner = self.owners.get(partition)
            if owner is not None and owner.replicator == replicator:
                self._disown(partition, released=True)

    async def _wait_out(self, flow: FlowController, partitions: Sequence[FlowPartition]) -> None:
        """Take partitions from an unknown holder: it reads the new epochs, or its leases run out."""
        sources = [partition.source for partition in partitions]
        lease_ms = await flow.state.fence(sources)
        wait_s = LeaseTerms(lease_ms).takeover_s
        text = f"may be held by a replicator that nobody has seen dead: handed out in {wait_s:.1f} s"
        self._emit("warning", str(flow.name), f"{_listed(partitions)} {text}, when its lease has run out")
        await asyncio.sleep(wait_s)
        for source in sources:
            flow.state.release(source)

    async def give_up(self, pool: ReplicatorPool, flow: FlowName) -> bool:
        """Release all of a flow's partitions and take the last pairs; whether every replicator has done so."""
        while any(partition.flow == flow for partition in self._busy):  # noqa: ASYNC110 - the tasks end by themselves
            await asyncio.sleep(0.01)
        held: dict[str, list[FlowPartition]] = {}
        for partition, owner in self.owners.items():
            if partition.flow == flow:
                held.setdefault(owner.replicator, []).append(partition)
        results = await asyncio.gather(
            *(self._take_back(pool, replicator, partitions) for replicator, partitions in held.items()),
            return_exceptions=True,
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            _log.warning("a replicator could not be drained: %s", failure)
        return not failures


def _listed(partitions: Iterable[FlowPartition], most: int = 5) -> str:
    names = sorted(str(partition.source) for partition in partitions)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
