"""Which clusters a running flow has begun with: it is never turned to others."""

from __future__ import annotations

from typing import NamedTuple

from mirror_ray.model.names import FlowName
from mirror_ray.state.records import FlowRecord
from mirror_ray.state.schema import state_topic


class ClusterIds(NamedTuple):
    """The ids of a flow's clusters, as their storage was formatted with."""

    source: str
    target: str


def begun_with(record: FlowRecord | None) -> ClusterIds | None:
    """The clusters that a flow's state tells of; None before it has begun."""
    return None if record is None else ClusterIds(record.source_cluster_id, record.target_cluster_id)


def turned_refusal(flow: FlowName, begun: ClusterIds, found: ClusterIds) -> str | None:
    """Why a flow that has begun between ``begun`` must not go on between ``found``; None where it may.

    An id that is empty is not known, and no reason.
    """
    other = [
        f"{side} cluster {alias} now has the cluster id {new}, and the flow has begun with {old}"
        for side, alias, old, new in (
            ("source", flow.source, begun.source, found.source),
            ("target", flow.target, begun.target, found.target),
        )
        if old and new and old != new
    ]
    if not other:
        return None
    return f"{flow}: {'; '.join(other)}. {_ways(flow, begun, found)}"


def _ways(flow: FlowName, begun: ClusterIds, found: ClusterIds) -> str:
    if found.target in ("", begun.target):
        # Its state there is the other source's, and a second system would take it from the first.
        return (
            f"Give the new cluster an alias of its own: {state_topic(flow.source)} on {flow.target} keeps how far the "
            f"copy of {begun.source} has come"
        )
    return (
        "A flow that runs is not turned to another cluster: `mirror-ray up CONFIG --name OTHER` starts a system beside "
        "this one; or stop this one first: `mirror-ray down`, then `mirror-ray up CONFIG`"
    )
