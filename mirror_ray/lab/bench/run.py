"""The race from its first cluster to its last: places, rounds, and each contender's turn."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mirror_ray.lab.bench.contenders import MIRROR_RAY, Contender
from mirror_ray.lab.bench.fixture import TARGET, BenchClusters, BenchFixture
from mirror_ray.lab.bench.measurements import ClusterSite, Measurement
from mirror_ray.lab.bench.report import described
from mirror_ray.lab.bench.results import MeasuredValue
from mirror_ray.lab.bench.session import sit
from mirror_ray.lab.bench.source import PreparedTopics
from mirror_ray.lab.bench.systems import RunningRay
from mirror_ray.lab.bench.workloads import Workload, rehearsal
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import far_cluster, start_all

Say = Callable[[str], None]

_HEAP = {1: "1g", 3: "700m"}


@dataclass(frozen=True, slots=True)
class ContenderTurn:
    """What one start of a contender is for."""

    contender: Contender
    legs: tuple[Measurement, ...]
    #: Whether it counts.
    recorded: bool = True


def turns(workloads: Sequence[Workload], place: ClusterSite, round_: int) -> list[ContenderTurn]:
    """Who is started in a round, in which order, and for what; every other round the other way round."""
    shared: dict[Contender, list[Measurement]] = {}
    alone: list[ContenderTurn] = []
    for workload in workloads:
        for contender, leg in workload.runs() if round_ < workload.repeats else ():
            if leg.place != place:
                continue
            if leg.alone:
                alone.append(ContenderTurn(contender, (leg,)))
            else:
                shared.setdefault(contender, []).append(leg)
    found = [*(ContenderTurn(contender, tuple(legs)) for contender, legs in shared.items()), *alone]
    return found[::-1] if round_ % 2 else found


def race(
    workloads: Sequence[Workload], directory: Path, running_ray: RunningRay, say: Say, *, size: float = 1.0
) -> list[MeasuredValue]:
    """Run them all.

    Args:
        workloads: What.
        directory: For data, configurations and logs; left as it is.
        running_ray: A Ray for contenders that are started in one that runs.
        say: Gets each line that the user is to read meanwhile.
        size: Share of the records with which contenders and brokers get warm.

    Raises:
        MirrorError: What the race itself needs did not start.
    """
    numbers = itertools.count(1)
    found: list[MeasuredValue] = []
    with tempfile.TemporaryDirectory(prefix="mirror-ray-bench-data-") as data:
        shelf = PreparedTopics(Path(data))
        for place in dict.fromkeys(leg.place for workload in workloads for _, leg in workload.runs()):
            with clusters_at(place) as site:
                for round_, turn in _in_order(workloads, place, size):
                    number = next(numbers)
                    stage = BenchFixture(
                        number=number,
                        round=round_,
                        contender=turn.contender,
                        site=site,
                        shelf=shelf,
                        size=size,
                        directory=directory / f"{number}",
                    )
                    stage.directory.mkdir()
                    say(f"{turn.contender.name}: {', '.join(dict.fromkeys(_name(leg) for leg in turn.legs))}")
                    measures = sit(stage, turn.legs, running_ray)
                    found += measures if turn.recorded else []
                    for measure in measures:
                        say(f"    {described(measure)}")
    return found


def _in_order(workloads: Sequence[Workload], place: ClusterSite, size: float) -> Iterator[tuple[int, ContenderTurn]]:
    """The rehearsal, then every round's turns."""
    yield 0, ContenderTurn(MIRROR_RAY, rehearsal(place, size), recorded=False)
    for round_ in range(max(workload.repeats for workload in workloads)):
        for turn in turns(workloads, place, round_):
            yield round_, turn


@contextmanager
def clusters_at(place: ClusterSite) -> Iterator[BenchClusters]:
    """The clusters of a place; they end with the context."""
    with ExitStack() as stack:
        delay_s = place.round_trip_ms / 2000
        found, reached = [], []
        for name, brokers, side in (("A", 1, "source"), (TARGET, place.target_brokers, "target")):
            if place.far == side:
                cluster, bootstrap = stack.enter_context(far_cluster(name, brokers, delay_s, heap=_HEAP[brokers]))
            else:
                cluster = DevCluster(name, brokers, heap=_HEAP[brokers])
                bootstrap = cluster.bootstrap
            stack.callback(cluster.close)
            found.append(cluster)
            reached.append(bootstrap)
        start_all(found)
        yield BenchClusters(place=place, source=found[0], target=found[1], reached=(reached[0], reached[1]))


def _name(leg: Measurement) -> str:
    return f"{leg.workload} ({leg.case})" if leg.case else leg.workload
