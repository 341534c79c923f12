"""Backfills beside the live flows: begun, watched, ended.

A backfill is copied as a flow with a state topic of its own, whose partitions have an end. The live flow's state lists
it, so that every coordinator of that flow goes on with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from mirror_ray.config.settings import BackfillSettings, FlowSettings, backfill_settings
from mirror_ray.coordinator.backfill_requests import backfill_name, backfill_of
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.ports import Emit
from mirror_ray.model.backfill import BackfillRecord, BackfillRequest
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.backfills import BackfillState, BackfillStatus, backfill_status
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.state.schema import BACKFILL

_log = logging.getLogger(__name__)


class Backfills:
    """The backfills of all flows of a system.

    Guarantees: what is copied, and how far, is persisted before anything is copied, so a restart moves no bound; one
    topic is the target of one backfill; one that is over keeps its record, so that the same is not copied twice.
    """

    def __init__(
        self,
        flows: Mapping[FlowName, FlowController],
        *,
        begin: Callable[[FlowSettings], None],
        end: Callable[[FlowName], Awaitable[bool]],
        partitions: Callable[[FlowController], tuple[PartitionStatus, ...]],
        rates: Callable[[FlowName], tuple[float, float]],
        emit: Emit,
        wall_ms: Callable[[], int],
    ) -> None:
        """``flows``: every flow that runs, backfills too, read anew in each step.

        ``begin`` and ``end`` start and stop the flow of a backfill, ``end`` returns whether all of it was drained;
        ``partitions``: status of a flow's partitions; ``rates``: a flow's (records/s, bytes/s).
        """
        self._flows = flows
        self._begin, self._end = begin, end
        self._partitions, self._rates = partitions, rates
        self._emit, self._wall_ms = emit, wall_ms
        self._asking = asyncio.Lock()
        self._ending: dict[FlowName, asyncio.Task[None]] = {}
        #: Backfills whose state topic this coordinator has deleted.
        self._forgotten: set[FlowName] = set()

    def step(self) -> None:
        """Begin backfills that should run and don't, end those that have reached their ends. Does not wait."""
        for live in [flow for name, flow in self._flows.items() if not name.backfill]:
            if not live.discovered or live.retiring or live.state.fenced:
                continue
            for identity, record in list(live.state.records.backfills.items()):
                name = backfill_name(live, identity)
                controller = self._flows.get(name)
                if name in self._ending:
                    continue
                if record.phase == "done" and name not in self._forgotten:
                    self._forget(live, identity)
                if record.phase != "running":
                    continue
                if controller is None:
                    self._begin(_settings(live, identity, record))
                elif _is_over(controller, record):
                    self._finish(live, identity, replace(record, phase="done"))

    def _forget(self, live: FlowController, identity: str) -> None:
        """Delete the state topic of a backfill that is done, once: an earlier coordinator may have failed to."""
        name = backfill_name(live, identity)
        self._forgotten.add(name)
        self._end_by(name, live.port.forget(identity))

    def _finish(self, live: FlowController, identity: str, record: BackfillRecord) -> asyncio.Task[None]:
        """Persist what has become of a backfill, then take back what replicators have of it."""
        name = backfill_name(live, identity)
        controller = self._flows.get(name)

        async def finish() -> None:
            ended = record if controller is None else replace(record, target_topic_id=_target_id(controller))
            await live.state.put(BACKFILL, identity, ended)
            await self._end(name)
            if controller is not None:
                # What was on its way has arrived.
                await live.state.put(BACKFILL, identity, replace(ended, positions=_positions(controller, record)))
            self._emit("info", str(name), f"backfill of {record.topic} into {record.into}: {record.phase}")

        return self._end_by(name, finish())

    def _end_by(self, name: FlowName, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work at a backfill's end in a task; a failure is an event, and the next step tries again."""

        async def run() -> None:
            try:
                await work
            except MirrorError as error:
                self._emit("warning", str(name), f"ending the backfill: {error}")
            finally:
                self._ending.pop(name, None)

        task = self._ending[name] = asyncio.create_task(run())
        return task

    async def ask(self, live: FlowController, request: BackfillRequest, *, dry_run: bool) -> BackfillStatus:
        """Begin a backfill, or go on with the one that the same words asked for; ``dry_run`` changes nothing.

        Raises as ``backfill_of``.
        """
        async with self._asking:
            identity, record = await backfill_of(request, live, self._flows, self._wall_ms())
            if dry_run:
                return backfill_status(str(backfill_name(live, identity)), record, state="planned")
            if record != live.state.records.backfills.get(identity):
                await live.state.put(BACKFILL, identity, record)
                text = f"backfill of {record.topic} into {record.into}: {record.said}"
                self._emit("info", str(backfill_name(live, identity)), text)
            self.step()
            return self._status(live, identity, record)

    def all(self, flow: FlowName | None = None) -> tuple[BackfillStatus, ...]:
        """Every backfill, of one flow or of all, the oldest first."""
        found = [
            self._status(live, identity, record)
            for name, live in self._flows.items()
            if not name.backfill and flow in (None, name)
            for identity, record in live.state.records.backfills.items()
        ]
        return tuple(sorted(found, key=lambda status: status.started_ms))

    async def cancel(self, live: FlowController, topic: str, into: str | None) -> BackfillStatus:
        """Stop a backfill. What it has copied stays; the same one goes on there when it is asked for again.

        Raises:
            ConfigError: There is none that runs.
        """
        for identity, record in live.state.records.backfills.items():
            named = record.into == into if into is not None else record.behind
            if record.topic == topic and named and record.phase == "running":
                ending = self._ending.get(backfill_name(live, identity))
                await (ending or self._finish(live, identity, replace(record, phase="cancelled")))
                return self._status(live, identity, live.state.records.backfills[identity])
        where = f"into {into}" if into is not None else "behind the live copy (name another topic with --into)"
        raise ConfigError(f"no backfill of {topic} {where} is under way in {live.name}")

    def _status(self, live: FlowController, identity: str, record: BackfillRecord) -> BackfillStatus:
        name = backfill_name(live, identity)
        controller = self._flows.get(name)
        state, reason = self._state(controller, record)
        positions = dict(_positions(controller, record)) if controller is not None else None
        rates = self._rates(name) if controller is not None else (0.0, 0.0)
        return backfill_status(str(name), record, state=state, reason=reason, positions=positions, rates=rates)

    def _state(self, controller: FlowController | None, record: BackfillRecord) -> tuple[BackfillState, str | None]:
        if record.phase != "running":
            return record.phase, None
        if controller is None or not controller.discovered:
            return "starting", controller.problem if controller is not None else None
        chosen = {copied.partition for copied in record.ranges if not copied.empty}
        for line in self._partitions(controller):
            unfinished = line.partition in chosen and not controller.state.finished(_source(record, line.partition))
            if unfinished and line.state in ("refused", "stopped", "paused"):
                return line.state, line.reason
        return "copying", next(iter(controller.problems()), None)


def _source(record: BackfillRecord, partition: int) -> TopicPartition:
    return TopicPartition(record.topic, partition)


def _settings(live: FlowController, identity: str, record: BackfillRecord) -> FlowSettings:
    ranges = tuple((copied.partition, copied.start, copied.end) for copied in record.ranges)
    return backfill_settings(
        live.settings, identity, BackfillSettings(topic=record.topic, into=record.into, ranges=ranges)
    )


def _is_over(controller: FlowController, record: BackfillRecord) -> bool:
    """Whether everything was copied, and no replicator holds a partition of it any more."""
    state = controller.state
    finished = all(state.finished(_source(record, copied.partition)) for copied in record.ranges)
    return controller.discovered and finished and not state.leased()


def _positions(controller: FlowController, record: BackfillRecord) -> tuple[tuple[int, int], ...]:
    numbers = [copied.partition for copied in record.ranges]
    pairs = ((number, controller.state.latest_pair(_source(record, number))) for number in numbers)
    return tuple((number, pair.source_offset) for number, pair in pairs if pair is not None)


def _target_id(controller: FlowController) -> str:
    return next((record.target_topic_id for record in controller.state.records.partitions.values()), "")
