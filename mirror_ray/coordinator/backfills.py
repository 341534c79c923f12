"""Backfills beside the live flows: asked for, begun, watched, ended.

What copies is what copies any flow: a controller with a state topic of its own, whose partitions end. It is listed in
the flow's state, from where every coordinator of the flow takes it up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from mirror_ray.config.settings import BackfillSettings, FlowSettings, backfill_settings
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.ports import ClusterTopics, Emit
from mirror_ray.model import backfill
from mirror_ray.model.backfill import BackfillRange, BackfillRecord, BackfillRequest
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.start import LATEST, StartPosition
from mirror_ray.observe.backfills import BackfillState, BackfillStatus, backfill_status
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.state.schema import BACKFILL
from mirror_ray.topics.discovery_rules import TopicSide

_log = logging.getLogger(__name__)


class Backfills:
    """Of all flows of a system.

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
        """``flows``: live ones and backfills, looked at anew each time; ``begin`` and ``end`` start and stop one."""
        self._flows = flows
        self._route_start, self._end = begin, end
        self._partitions, self._rates = partitions, rates
        self._emit, self._wall_ms = emit, wall_ms
        self._asking = asyncio.Lock()
        self._ending: dict[FlowName, asyncio.Task[None]] = {}
        #: Those whose state this coordinator has deleted.
        self._forgotten: set[FlowName] = set()

    # What has to be done.

    def step(self) -> None:
        """Begin what should run and does not, and end what has reached its end. Does not wait."""
        for live in [flow for name, flow in self._flows.items() if not name.backfill]:
            if not live.discovered or live.retiring or live.state.fenced:
                continue
            for identity, record in list(live.state.records.backfills.items()):
                name = _name(live, identity)
                controller = self._flows.get(name)
                if name in self._ending:
                    continue
                if record.phase == "done" and name not in self._forgotten:
                    self._forget(live, identity)
                if record.phase != "running":
                    continue
                if controller is None:
                    self._route_start(_settings(live, identity, record))
                elif _is_over(controller, record):
                    self._finish(live, identity, replace(record, phase="done"))

    def _forget(self, live: FlowController, identity: str) -> None:
        """Delete the state of one that is over, once: an earlier coordinator may have ended just before it did."""
        name = _name(live, identity)

        self._forgotten.add(name)
        self._end_by(name, live.port.forget(identity))

    def _finish(self, live: FlowController, identity: str, record: BackfillRecord) -> asyncio.Task[None]:
        """Persist what has become of a backfill, then take back what replicators have of it."""
        name = _name(live, identity)
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
        """Work at a backfill's end, beside everything else; what fails is told, and tried again by the next round."""

        async def run() -> None:
            try:
                await work
            except MirrorError as error:
                self._emit("warning", str(name), f"ending the backfill: {error}")
            finally:
                self._ending.pop(name, None)

        task = self._ending[name] = asyncio.create_task(run())
        return task

    # What operators ask.

    async def ask(self, live: FlowController, request: BackfillRequest, *, dry_run: bool) -> BackfillStatus:
        """Begin a backfill, or go on with the one that was asked for in the same words; ``dry_run``: only say what.

        Raises:
            ConfigError: It would double or disorder records, or its range is not there.
            MirrorError: The flow is starting, or a cluster does not answer.
        """
        async with self._asking:
            if not live.discovered:
                raise MirrorError(f"flow {live.name} is still starting: {live.problem or 'its topics are looked up'}")
            source, target = await live.port.observe()
            side = source.topics.get(request.topic)
            if side is None:
                raise ConfigError(f"there is no topic {request.topic} on {live.name.source}")
            _check_routes(live, request)
            into = request.into or _live_remote(live, request)
            found = _found(live, into, target)
            if found is not None:
                identity, before = found
                record = backfill.same_again(before, request, identity)
            else:
                record = await self._new(live, request, side, into, target)
                identity, before = backfill.backfill_id(record.topic, into, record.time_ms), None
            if dry_run:
                return backfill_status(str(_name(live, identity)), record, state="planned")
            if record != before:
                await live.state.put(BACKFILL, identity, record)
                self._emit("info", str(_name(live, identity)), f"backfill of {record.topic} into {into}: {record.said}")
            self.step()
            return self._status(live, identity, record)

    async def _new(
        self, live: FlowController, request: BackfillRequest, side: TopicSide, into: str, target: ClusterTopics
    ) -> BackfillRecord:
        if request.into is not None:
            self._check_free(live, into)
            await _check_empty(live, into, target)
        ranges = await _ranges(live, request, side)
        if request.into is None:
            backfill.check_behind(request, ranges, _begun(live, request, side), into)
        if not any(not each.empty for each in ranges):
            raise ConfigError(f"{request.topic} holds nothing {request.text}: there is nothing to copy")
        return BackfillRecord(
            topic=request.topic,
            into=into,
            ranges=tuple(ranges),
            said=request.text,
            time_ms=self._wall_ms(),
            behind=request.into is None,
        )

    def _check_free(self, live: FlowController, into: str) -> None:
        """Nobody else writes there, as far as this system knows."""
        there = [flow for name, flow in self._flows.items() if name.target == live.name.target and not name.backfill]
        remotes = {view.remote_topic for flow in there for view in flow.topics.values()}
        backfill.check_into(into, remotes)
        for flow in there:
            for identity, record in flow.state.records.backfills.items():
                if flow is not live and record.into == into and record.phase == "running":
                    raise ConfigError(f"{_name(flow, identity)} is a backfill into {into}: choose another topic")

    def all(self, flow: FlowName | None = None) -> tuple[BackfillStatus, ...]:
        """Every backfill, of one flow or of all, the oldest first."""
        found = [
            self._status(live, identity, record)
            for name, live in self._flows.items()
            if not name.backfill and flow in (None, name)
            for identity, record in live.state.records.backfills.items()
        ]
        return tuple(sorted(found, key=lambda each: each.started_ms))

    async def cancel(self, live: FlowController, topic: str, into: str | None) -> BackfillStatus:
        """Stop a backfill for good; what it has copied stays, and the same one, asked for again, goes on there.

        Raises:
            ConfigError: There is none that runs.
        """
        for identity, record in live.state.records.backfills.items():
            named = record.into == into if into is not None else record.behind
            if record.topic == topic and named and record.phase == "running":
                ending = self._ending.get(_name(live, identity))
                await (ending or self._finish(live, identity, replace(record, phase="cancelled")))
                return self._status(live, identity, live.state.records.backfills[identity])
        where = f"into {into}" if into is not None else "behind the live copy (name another topic with --into)"
        raise ConfigError(f"no backfill of {topic} {where} is under way in {live.name}")

    def _status(self, live: FlowController, identity: str, record: BackfillRecord) -> BackfillStatus:
        name = _name(live, identity)
        controller = self._flows.get(name)
        state: BackfillState = "done" if record.phase == "done" else "cancelled"
        reason: str | None = None
        if record.phase == "running":
            state, reason = self._state(controller, record)
        return backfill_status(
            str(name),
            record,
            state=state,
            reason=reason,
            positions=dict(_positions(controller, record)) if controller is not None else None,
            rates=self._rates(name) if controller is not None else (0.0, 0.0),
        )

    def _state(self, controller: FlowController | None, record: BackfillRecord) -> tuple[BackfillState, str | None]:
        if controller is None or not controller.discovered:
            return "starting", controller.problem if controller is not None else None
        chosen = {each.partition for each in record.ranges if not each.empty}
        for line in self._partitions(controller):
            unfinished = line.partition in chosen and not controller.state.finished(_source(record, line.partition))
            if unfinished and line.state in ("refused", "stopped", "paused"):
                return line.state, line.reason
        return "copying", next(iter(controller.problems()), None)


def _name(live: FlowController, identity: str) -> FlowName:
    return live.name._replace(backfill=identity)


def _source(record: BackfillRecord, partition: int) -> TopicPartition:
    return TopicPartition(record.topic, partition)


def _settings(live: FlowController, identity: str, record: BackfillRecord) -> FlowSettings:
    ranges = tuple((each.partition, each.start, each.end) for each in record.ranges)
    return backfill_settings(
        live.settings, identity, BackfillSettings(topic=record.topic, into=record.into, ranges=ranges)
    )


def _is_over(controller: FlowController, record: BackfillRecord) -> bool:
    """Whether all was copied, and nobody has anything of it any more."""
    state = controller.state
    finished = all(state.finished(_source(record, each.partition)) for each in record.ranges)
    return controller.discovered and finished and not state.leased()


def _positions(controller: FlowController, record: BackfillRecord) -> tuple[tuple[int, int], ...]:
    anchors = {each.partition: controller.state.latest_pair(_source(record, each.partition)) for each in record.ranges}
    return tuple((number, pair.source_offset) for number, pair in anchors.items() if pair is not None)


def _target_id(controller: FlowController) -> str:
    records = [each for of_topic in controller.state.by_topic().values() for each in of_topic.values()]
    return records[0].target_topic_id if records else ""


def _check_routes(live: FlowController, request: BackfillRequest) -> None:
    """Raise ConfigError where a backfill would have a part of the records alone."""
    if live.settings.route is not None:
        raise ConfigError(f"{live.name} is a route: a backfill is for a flow, and copies what it does not route")
    if live.transforms.routes(request.topic):
        raise ConfigError(
            f"transforms of {live.name} route records of {request.topic} to other topics, and a backfill would leave"
            " those out: copy the range by a flow without them, from a configuration of its own"
        )


def _live_remote(live: FlowController, request: BackfillRequest) -> str:
    view = live.topics.get(request.topic)
    if view is None or view.refused is not None:
        raise ConfigError(
            f"{live.name} does not copy {request.topic}{f': {view.refused}' if view and view.refused else ''}: name the"
            " topic to copy into with --into"
        )
    return view.remote_topic


def _found(live: FlowController, into: str, target: ClusterTopics) -> tuple[str, BackfillRecord] | None:
    """The newest backfill into a topic, unless the topic is another one by now."""
    there = target.topics.get(into)
    for identity, record in sorted(live.state.records.backfills.items(), key=lambda item: -item[1].time_ms):
        if record.into != into:
            continue
        gone = there is None or (record.target_topic_id not in ("", there.topic_id))
        return None if gone and record.phase != "running" else (identity, record)
    return None


async def _check_empty(live: FlowController, into: str, target: ClusterTopics) -> None:
    side = target.topics.get(into)
    if side is None:
        return
    bounds = await live.port.target_bounds([TopicPartition(into, number) for number in range(side.partitions)])
    for partition, bound in sorted(bounds.items()):
        if bound.end > bound.start:
            raise ConfigError(
                f"{into} is not empty ({partition} holds offsets {bound.start} to {bound.end - 1}) and no backfill of"
                f" {live.name} accounts for it: name a new topic with --into, or delete it first"
            )


def _begun(live: FlowController, request: BackfillRequest, side: TopicSide) -> dict[int, int]:
    """By partition, where the live copy began."""
    if live.settings.produce.delivery_guarantee != "exactly_once":
        raise ConfigError(f"{live.name} copies at least once: records can be added to its topics only with --into")
    begun: dict[int, int] = {}
    for number in range(side.partitions):
        partition = TopicPartition(request.topic, number)
        record = live.state.record(partition)
        gaps = sum(each == partition for each, _ in live.state.records.skipped_ranges)
        begun[number] = backfill.live_start(request.topic, number, record.origin if record else None, gaps)
    return begun


async def _ranges(live: FlowController, request: BackfillRequest, side: TopicSide) -> list[BackfillRange]:
    """What is asked for, in offsets of now."""
    numbers = backfill.chosen_partitions(request, side.partitions)
    partitions = [TopicPartition(request.topic, number) for number in numbers]
    firsts, ends = await asyncio.gather(
        live.port.source_offsets(partitions, latest=False), live.port.source_offsets(partitions, latest=True)
    )
    begun = _begun(live, request, side) if request.into is None and request.end is None else {}
    starts = await _offsets(live, request.start, firsts, firsts, ends)
    stops = await _offsets(live, request.end or LATEST, ends, firsts, ends)
    found = []
    for partition in partitions:
        if partition not in starts or partition not in stops:
            raise MirrorError(f"source partition {partition} can't be asked at the moment; try again")
        number = partition.partition
        start, stop = starts[partition], begun.get(number, stops[partition])
        asked = BackfillRange(number, start, stop)
        if number in dict(request.start.offsets) or number in dict(request.end.offsets if request.end else ()):
            backfill.check_range(request.topic, asked, (firsts[partition], ends[partition]))
        found.append(BackfillRange(number, start, max(start, stop)))
    return found


async def _offsets(
    live: FlowController,
    point: StartPosition,
    unnamed: Mapping[TopicPartition, int],
    firsts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """A point as offsets; ``unnamed`` has those of partitions that it does not name."""
    if point.kind == "timestamp":
        return await live.port.offsets_since(dict.fromkeys(firsts, point.time_ms))
    if point.kind == "offsets":
        named = dict(point.offsets)
        return {each: named.get(each.partition, offset) for each, offset in unnamed.items()}
    return ends if point.kind == "latest" else firsts
