"""On which ways a record reaches a cluster, where flows keep names and pass on what they got."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from mirror_ray.model.names import FlowName

#: Their number grows faster than any power of that of the flows.
_MOST_WAYS: Final = 20_000


def ways(flows: Mapping[FlowName, int | None]) -> Iterator[tuple[FlowName, ...]]:
    """Yield each way of a record from where it is written; it passes no cluster twice.

    ``flows``: how often a record may have been copied, once the flow has copied it; None: as often as it comes to.
    """

    def on(way: tuple[FlowName, ...]) -> Iterator[tuple[FlowName, ...]]:
        yield way
        passed = {way[0].source, *(flow.target for flow in way)}
        for flow, most in flows.items():
            if flow.source == way[-1].target and flow.target not in passed and (most is None or len(way) < most):
                yield from on((*way, flow))

    for flow, most in flows.items():
        if most is None or most >= 1:
            yield from on((flow,))


def doubled(flows: Mapping[FlowName, int | None]) -> dict[tuple[str, str], list[tuple[FlowName, ...]]]:
    """Clusters, as (where a record is written, where it arrives), that it would reach on more than one way."""
    found: dict[tuple[str, str], list[tuple[FlowName, ...]]] = {}
    # Beyond that many, some surely have the same ends: there are not so many pairs of clusters.
    for way in islice(ways(flows), _MOST_WAYS):
        found.setdefault((way[0].source, way[-1].target), []).append(way)
    return {ends: several for ends, several in found.items() if len(several) > 1}
