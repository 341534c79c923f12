"""Whether MM2 still runs, by what it leaves on the target at two moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror_ray.groups.commit_rules import WITHOUT_MEMBERS
from mirror_ray.model.names import FlowName, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Mm2Activity:
    """What MM2 leaves on a flow's target while it runs."""

    #: Log ends of its topic of source offsets, and of the flow's remote topics.
    offsets_ends: Mapping[TopicPartition, int]
    remote_ends: Mapping[TopicPartition, int]
    #: Time of the flow's newest heartbeat, by the emitter's clock; None: there is none.
    heartbeat_ms: int | None
    #: State of the Connect group of its workers; None: there is no such group, or its name is not known.
    workers: str | None


def why_running(flow: FlowName, group: str | None, before: Mm2Activity, after: Mm2Activity) -> str | None:
    """The strongest sign that MM2 still runs for a flow, and what to do; None: there is no sign.

    ``group``: the Connect group of its workers; None: not known. ``before``, ``after``: what it left, seconds apart.
    """
    stop = f"stop MirrorMaker 2 for {flow}, wait until that is over, then run this again"
    if after.workers is not None and after.workers not in WITHOUT_MEMBERS:
        return (
            f"MirrorMaker 2 runs: its group {group} on {flow.target} has members (state {after.workers}): {stop}. A "
            f"process that was killed counts as a member for 10 s (session.timeout.ms). Where it goes on for other "
            f"flows, set {flow}.enabled=false and {flow}.emit.heartbeats.enabled=false in its configuration"
        )
    for ends, now, name in (
        (before.remote_ends, after.remote_ends, "remote topic"),
        (before.offsets_ends, after.offsets_ends, "MirrorMaker 2's offsets topic"),
    ):
        grown = next((partition for partition in sorted(now) if now[partition] != ends.get(partition, 0)), None)
        if grown is not None:
            return (
                f"somebody writes on {flow.target}: {name} {grown} went from {ends.get(grown, 0)} to {now[grown]} "
                f"meanwhile: {stop}"
            )
    if after.heartbeat_ms is not None and after.heartbeat_ms != before.heartbeat_ms:
        return (
            f"heartbeats of {flow} still come in on {flow.target}, the last one of {after.heartbeat_ms} (ms): "
            f"MirrorMaker 2's heartbeat connector runs, or a mirror-ray that has the flow in its configuration: {stop}"
        )
    return None
