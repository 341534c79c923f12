"""The paths by which a record reaches a cluster, where flows keep names and replicate copies on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from mirror_ray.model.names import FlowName

ReplicationPath = tuple[FlowName, ...]

#: Their number grows faster than any power of that of the flows.
_MOST_PATHS: Final = 20_000


def paths(flows: Mapping[FlowName, int | None]) -> Iterator[ReplicationPath]:
    """Yield each path of a record from where it is written; it passes no cluster twice.

    ``flows``: the largest number of hops that a record may have behind it after the flow; None: no bound.
    """

    def extended(path: ReplicationPath) -> Iterator[ReplicationPath]:
        yield path
        passed = {path[0].source, *(flow.target for flow in path)}
        for flow, most in flows.items():
            if flow.source == path[-1].target and flow.target not in passed and (most is None or len(path) < most):
                yield from extended((*path, flow))

    for flow, most in flows.items():
        if most is None or most >= 1:
            yield from extended((flow,))


def duplicate_paths(flows: Mapping[FlowName, int | None]) -> dict[tuple[str, str], list[ReplicationPath]]:
    """The paths between clusters, as (where a record is written, where it arrives), that have more than one."""
    found: dict[tuple[str, str], list[ReplicationPath]] = {}
    # Beyond that many, some surely have the same ends: there are not so many pairs of clusters.
    for path in islice(paths(flows), _MOST_PATHS):
        found.setdefault((path[0].source, path[-1].target), []).append(path)
    return {ends: several for ends, several in found.items() if len(several) > 1}
