"""Requests for backfills: which topic and range is meant, and whether it may be copied so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.ports import ClusterTopics
from mirror_ray.model import backfill
from mirror_ray.model.backfill import BackfillRange, BackfillRecord, BackfillRequest
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.start import LATEST, StartPosition
from mirror_ray.topics.discovery_rules import TopicSide


async def backfill_of(
    request: BackfillRequest, live: FlowController, flows: Mapping[FlowName, FlowController], now_ms: int
) -> tuple[str, BackfillRecord]:
    """The id and record of the backfill that is asked for: the same one again, or a new one; nothing is persisted.

    ``live``: the flow beside which it copies; ``flows``: every flow that runs, backfills too.

    Raises:
        ConfigError: It would double or disorder records, or its range is not there.
        MirrorError: The flow is starting, or a cluster does not answer.
    """
    if not live.discovered:
        raise MirrorError(f"flow {live.name} is still starting: {live.problem or 'its topics are looked up'}")
    source, target = await live.port.observe()
    side = source.topics.get(request.topic)
    if side is None:
        raise ConfigError(f"there is no topic {request.topic} on {live.name.source}")
    _check_routes(live, request)
    into = request.into or _live_remote(live, request)
    known = _known(live, into, target)
    if known is not None:
        identity, record = known
        return identity, backfill.same_again(record, request, identity)
    if request.into is not None:
        _check_unwritten(live, into, flows)
        await _check_empty(live, into, target)
    ranges = await _ranges(live, request, side)
    if request.into is None:
        backfill.check_behind(request, ranges, _live_starts(live, request, side), into)
    if all(copied.empty for copied in ranges):
        raise ConfigError(f"{request.topic} holds nothing {request.text}: there is nothing to copy")
    record = BackfillRecord(
        topic=request.topic,
        into=into,
        ranges=tuple(ranges),
        said=request.text,
        time_ms=now_ms,
        behind=request.into is None,
    )
    return backfill.backfill_id(record.topic, into, record.time_ms), record


def backfill_name(live: FlowController, identity: str) -> FlowName:
    """Name of the flow that copies a backfill beside ``live``."""
    return live.name._replace(backfill=identity)


def _check_routes(live: FlowController, request: BackfillRequest) -> None:
    """Raise ConfigError where a backfill would copy only a part of the records."""
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


def _known(live: FlowController, into: str, target: ClusterTopics) -> tuple[str, BackfillRecord] | None:
    """The newest backfill into a topic, unless the topic is another one by now."""
    there = target.topics.get(into)
    for identity, record in sorted(live.state.records.backfills.items(), key=lambda item: -item[1].time_ms):
        if record.into != into:
            continue
        is_other = there is None or record.target_topic_id not in ("", there.topic_id)
        return None if is_other and record.phase != "running" else (identity, record)
    return None


def _check_unwritten(live: FlowController, into: str, flows: Mapping[FlowName, FlowController]) -> None:
    """Raise ConfigError where another flow or backfill of this system writes to ``into``."""
    others = [flow for name, flow in flows.items() if name.target == live.name.target and not name.backfill]
    remotes = {view.remote_topic for flow in others for view in flow.topics.values()}
    backfill.check_into(into, remotes)
    for flow in others:
        for identity, record in flow.state.records.backfills.items():
            if flow is not live and record.into == into and record.phase == "running":
                name = backfill_name(flow, identity)
                raise ConfigError(f"{name} is a backfill into {into}: choose another topic")


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


def _live_starts(live: FlowController, request: BackfillRequest, side: TopicSide) -> dict[int, int]:
    """By partition, where the live copy began."""
    if live.settings.produce.delivery_guarantee != "exactly_once":
        raise ConfigError(f"{live.name} copies at least once: records can be added to its topics only with --into")
    if live.state.records.reversal is not None:
        raise ConfigError(
            f"{live.name} was reversed by a failback: its topics hold what was written on both sides, so that what lies"
            " before the live copy's beginning is there already. Name another topic with --into"
        )
    starts: dict[int, int] = {}
    for number in range(side.partitions):
        partition = TopicPartition(request.topic, number)
        record = live.state.record(partition)
        skipped = sum(known == partition for known, _ in live.state.records.skipped_ranges)
        starts[number] = backfill.live_start(request.topic, number, record.origin if record else None, skipped)
    return starts


async def _ranges(live: FlowController, request: BackfillRequest, side: TopicSide) -> list[BackfillRange]:
    """The range that is asked for, in today's offsets."""
    numbers = backfill.chosen_partitions(request, side.partitions)
    partitions = [TopicPartition(request.topic, number) for number in numbers]
    firsts, ends = await asyncio.gather(
        live.port.source_offsets(partitions, latest=False), live.port.source_offsets(partitions, latest=True)
    )
    live_starts = _live_starts(live, request, side) if request.into is None and request.end is None else {}
    starts = await _offsets(live, request.start, firsts, firsts, ends)
    stops = await _offsets(live, request.end or LATEST, ends, firsts, ends)
    ranges = []
    for partition in partitions:
        if partition not in starts or partition not in stops:
            raise MirrorError(f"source partition {partition} can't be asked at the moment; try again")
        number = partition.partition
        start, stop = starts[partition], live_starts.get(number, stops[partition])
        wanted = BackfillRange(number, start, stop)
        if number in dict(request.start.offsets) or number in dict(request.end.offsets if request.end else ()):
            backfill.check_range(request.topic, wanted, (firsts[partition], ends[partition]))
        ranges.append(BackfillRange(number, start, max(start, stop)))
    return ranges


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
        return {partition: named.get(partition.partition, offset) for partition, offset in unnamed.items()}
    return ends if point.kind == "latest" else firsts
