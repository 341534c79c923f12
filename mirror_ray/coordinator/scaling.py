"""The number of replicators: what load, bounds, operators and nodes require of the pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pydantic import ValidationError

from mirror_ray.config.fields import message
from mirror_ray.config.numbers import REPLICATORS
from mirror_ray.config.settings import ElasticSettings, MirrorSettings
from mirror_ray.coordinator.ports import Emit, Nodes, NodesPort
from mirror_ray.coordinator.replicator_pool import ReplicatorPool
from mirror_ray.coordinator.scaling_rules import ElasticScaler, FlowLag, SystemLoad
from mirror_ray.coordinator.timing import CoordinatorTiming
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.observe.status import ElasticStatus, PartitionStatus

_log = logging.getLogger(__name__)

#: At least so many checks before the number grows.
_CHECKS = 3


class ScalingController:
    """Checks every few seconds how many replicators are right, and brings the pool to that number.

    A number that an operator gave stays until ``follow``. Replicators of nodes that are going away are replaced
    elsewhere beforehand, whether or not the number follows the load. For replicators without room, room is requested;
    the system goes on with the others meanwhile.
    """

    def __init__(
        self,
        system: str,
        pool: ReplicatorPool,
        nodes: NodesPort,
        *,
        partitions: Callable[[], Sequence[PartitionStatus]],
        timing: CoordinatorTiming,
        clock: Callable[[], float],
        emit: Emit,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        """``partitions``: status of all partitions; ``changed`` saves the number, and assigns partitions anew."""
        self.pinned = False
        #: How many there should be, whether or not there is room for them.
        self.wanted = 0
        self._system, self._pool, self._nodes = system, pool, nodes
        self._partitions, self._changed, self._emit = partitions, changed, emit
        self._timing, self._clock = timing, clock
        self._settings: MirrorSettings | None = None
        self._elastic = ElasticScaler(ElasticSettings())
        self._why = ""
        #: When more than there are were last needed, and why.
        self._needed_s = 0.0
        self._needed_for = ""
        #: For how many more room is requested.
        self._requested = 0
        self._cpu_seconds: dict[tuple[str, int], tuple[float, float]] = {}
        self._bytes: dict[tuple[str, str, int], int] = {}
        self._bytes_s = 0.0

    def configure(self, settings: MirrorSettings, replicators: int) -> None:
        """Work by these settings, with so many replicators, within their bounds, for the moment."""
        self._settings = settings
        self.pinned = self.pinned and settings.elastic.on
        if self._elastic.terms != settings.elastic:
            self._elastic = ElasticScaler(settings.elastic)
        self._set(self.would_be(settings, replicators))

    def would_be(self, settings: MirrorSettings, replicators: int) -> int:
        """How many there are by these settings once so many are asked for."""
        return replicators if self.pinned and settings.elastic.on else settings.elastic.bounded(replicators)

    def pin(self, replicators: int) -> None:
        """An operator's number: stays until ``follow``."""
        self.pinned = self._elastic.terms.on
        note = "; it stays so until `scale --auto`" if self.pinned else ""
        self._emit("info", self._system, f"scale from {self._pool.desired} to {replicators} replicators{note}")
        self._set(replicators)

    def follow(self, settings: MirrorSettings) -> None:
        """Follow load and lag again, within the bounds of these settings."""
        self.pinned = False
        terms = settings.elastic
        bounds = f"{terms.min_replicators} to {terms.max_replicators}"
        self._emit("info", self._system, f"scale by load and lag: {bounds} replicators")
        self.configure(settings, self.wanted)

    def _set(self, replicators: int) -> None:
        self.wanted, self._why = replicators, ""
        self._pool.scale(replicators)

    def status(self) -> ElasticStatus | None:
        """How the number is found; None where it follows nothing."""
        terms = self._elastic.terms
        if not terms.on or terms.max_replicators is None:
            return None
        why = "an operator's number: `scale --auto` follows the load again" if self.pinned else self._why
        return ElasticStatus(
            min_replicators=terms.min_replicators,
            max_replicators=terms.max_replicators,
            wanted=self.wanted,
            pinned=self.pinned,
            why=why,
        )

    async def watch(self) -> None:
        """Check again and again."""
        while True:
            await asyncio.sleep(min(self._timing.scaling_s, self._elastic.terms.scale_out_after_s / _CHECKS))
            try:
                await self.check()
            except MirrorError as error:
                _log.warning("%s", error)
            except Exception:  # noqa: BLE001 - the next check may well work
                _log.exception("a check of the number of replicators failed; the next one tries again")

    async def check(self) -> None:
        """Check once, and scale."""
        settings = self._settings
        if settings is None:
            return
        nodes = await self._nodes.probe(settings.replicator_cpus, settings.placement.labels)
        before = self._pool.desired, self.wanted
        drained = self._pool.leave(nodes.leaving)
        for replicator in drained:
            text = "its node is going away: another one takes its place, and then its partitions"
            self._emit("info", replicator, text)
        if self._elastic.terms.on and not self.pinned:
            self._decide(self._clock())
            self._place(nodes, settings)
        missing = max(0, self.wanted - self._pool.desired)
        if missing != self._requested:
            await self._nodes.request_room(missing, settings.replicator_cpus, settings.placement.labels)
            self._requested = missing
        if drained or before != (self._pool.desired, self.wanted):
            await self._changed()

    async def stop(self) -> None:
        """Withdraw the request for room."""
        if self._requested:
            self._requested = 0
            await self._nodes.request_room(0, 0.0, {})

    def _decide(self, now_s: float) -> None:
        """Take in the load; ``wanted`` becomes what it asks for."""
        placed = self._pool.desired
        decision = self._elastic.decide(now_s, self._load(now_s))
        self._why = decision.why
        if decision.replicators > placed:
            self._needed_s, self._needed_for = now_s, decision.why
            self.wanted = max(self.wanted, decision.replicators)
        elif decision.replicators < placed:
            self._emit_scale(placed, decision.replicators, decision.why)
            self._set(decision.replicators)
        elif decision.news:
            self._emit("warning", self._system, f"stays at {placed} replicators: {decision.why}")
        elif self.wanted > placed and now_s - self._needed_s > self._elastic.terms.scale_in_after_s:
            self.wanted = self._elastic.terms.bounded(placed)

    def _place(self, nodes: Nodes, settings: MirrorSettings) -> None:
        """Bring up replicators that have room; give up for now those that did not come up for lack of it."""
        placed, stuck = self._pool.desired, self._pool.unplaced()
        if stuck and not nodes.room and placed > stuck:
            self._needed_s, self._needed_for = self._clock(), f"{stuck} did not come up"
            self._pool.scale(placed - stuck)
            self._emit_no_room(settings)
            return
        more = min(self.wanted - placed, nodes.room)
        if more > 0:
            self._emit_scale(placed, placed + more, self._needed_for)
            self._pool.scale(placed + more)
        elif self.wanted > placed and not self._requested:
            self._emit_no_room(settings)

    def _emit_scale(self, before: int, after: int, reason: str) -> None:
        self._emit("info", self._system, f"scale from {before} to {after} replicators: {reason}")

    def _emit_no_room(self, settings: MirrorSettings) -> None:
        have = self._pool.desired
        text = f"goes on with {have} of {self.wanted} replicators that are needed ({self._needed_for}): no node"
        text += "".join(f" of {name}={value}" for name, value in settings.placement.labels.items())
        text += f" has {settings.replicator_cpus:g} CPU free for one more; Ray's autoscaler is asked, or add a node"
        self._emit("warning", self._system, text)

    def _load(self, now_s: float) -> SystemLoad:
        partitions = [row for row in self._partitions() if row.state in ("copying", "establishing", "waiting")]
        live = [partition for partition in partitions if not FlowName.parse(partition.flow).backfill]
        buffers = self._settings.replicator_buffer_bytes if self._settings is not None else 1
        working = [report for _, report in self._pool.working()]
        return SystemLoad(
            wanted=self._pool.desired,
            cpus=self._cpus(),
            rates=self._rates(now_s, partitions),
            flows=tuple(_lag(flow, live) for flow in sorted({row.flow for row in live})),
            buffered=sum(report.buffered_bytes for report in working) / (buffers * max(1, len(working))),
        )

    def _cpus(self) -> tuple[float, ...]:
        """The share of a core that each replicator used since the last check; new ones are left out."""
        now = {(report.replicator, report.pid): (at_s, report.cpu_seconds) for at_s, report in self._pool.working()}
        before, self._cpu_seconds = self._cpu_seconds, now
        both = [(*before[process], *now[process]) for process in now if process in before]
        return tuple((used - was) / (at_s - was_s) for was_s, was, at_s, used in both if at_s > was_s)

    def _rates(self, now_s: float, partitions: Sequence[PartitionStatus]) -> tuple[float, ...]:
        now = {(partition.flow, partition.topic, partition.partition): partition.bytes for partition in partitions}
        before, self._bytes = self._bytes, now
        elapsed_s, self._bytes_s = now_s - self._bytes_s, now_s
        grown = (bytes_ - before.get(partition, bytes_) for partition, bytes_ in now.items())
        return tuple(growth / elapsed_s for growth in grown) if elapsed_s > 0 else ()


def refuse_number(replicators: int) -> None:
    """Raise ConfigError where there can't be so many."""
    if replicators < 1:
        raise ConfigError("scale needs at least one replicator; use pause or down to stop copying")
    try:
        REPLICATORS.check(replicators)
    except ValueError as error:
        raise ConfigError(f"replicators: {error}") from None


def with_bounds(settings: MirrorSettings, minimum: int | None, maximum: int | None) -> MirrorSettings:
    """Settings by which the number follows load and lag, within other bounds where some are given.

    Raises ConfigError where there is no upper bound, or they cross.
    """
    bounds = {"min_replicators": minimum, "max_replicators": maximum}
    given = {name: value for name, value in bounds.items() if value is not None}
    try:
        elastic = ElasticSettings.model_validate({**settings.elastic.model_dump(), **given})
    except ValidationError as error:
        problems = (
            f"{'.'.join(map(str, detail['loc'])) or 'bounds'}: {message(detail['msg'])}" for detail in error.errors()
        )
        raise ConfigError(*(f"scale: {problem}" for problem in problems)) from None
    if not elastic.on:
        raise ConfigError("there are no bounds to stay within: scale --min N --max M, or elastic.max_replicators")
    return settings.model_copy(update={"elastic": elastic})


def _lag(flow: str, partitions: Sequence[PartitionStatus]) -> FlowLag:
    """How far the flow is behind."""
    mine = [partition for partition in partitions if partition.flow == flow and partition.lag_records is not None]
    seconds = [partition.lag_seconds for partition in mine if partition.lag_seconds is not None]
    records = sum(partition.lag_records or 0 for partition in mine) if mine else None
    copied = sum(partition.records for partition in partitions if partition.flow == flow)
    return FlowLag(flow=flow, records=records, seconds=max(seconds, default=None), copied=copied)
