"""A fleet of replicators under load, as a model: what the scaling rules do with it, second by second.

Records arrive at a rate that the caller gives, evenly over the partitions, and wait until they are copied. A replicator
copies up to ``capacity`` records a second, and uses of a core what it does of that; one that is started copies after
``start_s``. The rules (`coordinator/scaling_rules.py`) are asked as often as the coordinator asks them, and see what it
sees: processor time since the last check, rates, lag in records and seconds.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.config.settings import ElasticSettings
from mirror_ray.coordinator.scaling_rules import ElasticScaler, FlowLag, SystemLoad

#: As often as a coordinator looks at most, and as many checks as it has within ``scale_out_after_s``.
_CHECK_S: Final = 5.0
_CHECKS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetModel:
    """What a replicator can do."""

    capacity: float
    start_s: float
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSecond:
    """The fleet in one second."""

    arrived: float
    wanted: int
    running: int
    #: How long the oldest record that waits has waited.
    lag_s: float


@dataclass(slots=True)
class _Waiting:
    """Records that wait: when they came, and how many."""

    parts: deque[tuple[float, float]] = field(default_factory=deque)
    records: float = 0.0

    def add(self, now_s: float, records: float) -> None:
        self.parts.append((now_s, records))
        self.records += records

    def take(self, most: float) -> float:
        """Copy the oldest; how many were copied."""
        taken = 0.0
        while self.parts and taken < most:
            came_s, records = self.parts.popleft()
            part = min(records, most - taken)
            taken += part
            if part < records:
                self.parts.appendleft((came_s, records - part))
        self.records = max(0.0, self.records - taken) if self.parts else 0.0
        return taken

    def age_s(self, now_s: float) -> float:
        return now_s - self.parts[0][0] if self.parts else 0.0


def simulate(
    terms: ElasticSettings, model: FleetModel, rate: Callable[[float], float], seconds: int
) -> list[FleetSecond]:
    """Each second of the fleet. ``rate``: records that arrive in a second, by the time."""
    scaler, waiting = ElasticScaler(terms), _Waiting()
    #: When each replicator copies; those that are to come in end with the last.
    up_s = [0.0] * terms.min_replicators
    every_s, checked_s = min(_CHECK_S, terms.scale_out_after_s / _CHECKS), 0.0
    copied = done = 0.0
    found: list[FleetSecond] = []
    for now_s in map(float, range(seconds)):
        arrived = rate(now_s)
        waiting.add(now_s, arrived)
        running = sum(since_s <= now_s for since_s in up_s)
        taken = waiting.take(min(running, model.partitions) * model.capacity)
        copied, done = copied + taken, done + taken
        found.append(FleetSecond(arrived=arrived, wanted=len(up_s), running=running, lag_s=waiting.age_s(now_s + 1.0)))
        if now_s + 1.0 - checked_s >= every_s:
            elapsed_s, checked_s = now_s + 1.0 - checked_s, now_s + 1.0
            lag = FlowLag(
                flow="A->B", records=round(waiting.records), seconds=waiting.age_s(checked_s), copied=round(copied)
            )
            load = SystemLoad(
                wanted=len(up_s),
                cpus=(done / elapsed_s / model.capacity / running,) * running if running else (),
                rates=(done / elapsed_s / model.partitions,) * model.partitions,
                flows=(lag,),
            )
            wanted, done = scaler.decide(checked_s, load).replicators, 0.0
            up_s = [*up_s, *(checked_s + model.start_s for _ in range(wanted - len(up_s)))][:wanted]
    return found


def turns(numbers: Sequence[int]) -> int:
    """How often a number that grew began to shrink, or the other way round."""
    steps = [later - one for one, later in itertools.pairwise(numbers) if later != one]
    return sum((one > 0) != (later > 0) for one, later in itertools.pairwise(steps))


def fixed_fleet(terms: ElasticSettings, model: FleetModel, peak: float) -> int:
    """How many replicators carry the peak at the share of a core that ``terms`` want."""
    return max(terms.min_replicators, math.ceil(peak / (terms.target_cpu * model.capacity) - 1e-9))


def replicator_hours(seconds: Sequence[FleetSecond]) -> float:
    """What was paid for: replicators that were wanted, whether or not they were up yet."""
    return sum(second.wanted for second in seconds) / 3600
