"""A flow's limits at a moment, and how its replicators share them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

from mirror_ray.config.limits import LimitSettings, split_rule
from mirror_ray.model.names import FlowName
from mirror_ray.model.patterns import Pattern, compile_patterns
from mirror_ray.model.quota import QuotaShare
from mirror_ray.model.time_windows import TimeWindow, is_open, next_change

_Key = TypeVar("_Key", bound=Hashable)
_Rules = tuple[tuple[Pattern, int], ...]

#: Share of a limit that is kept for lower priorities.
_LEFT_FOR_LATER: Final = 0.1
#: Share of a limit that a replicator may use before it has been measured.
UNCOUNTED: Final = 0.01


class FlowLimits:
    """``LimitSettings``, parsed."""

    def __init__(self, settings: LimitSettings) -> None:
        self.settings = settings
        self.zone = ZoneInfo(settings.time_zone)
        self._windows = tuple(map(TimeWindow.parse, settings.windows))
        self._rates = tuple((TimeWindow.parse(time), rate) for time, rate in map(split_rule, settings.rates))
        self._topics, self._priorities = _rules(settings.topics), _rules(settings.priorities)

    def closed(self, now: datetime) -> str | None:
        """Why nothing is copied at that moment; None: no window forbids it."""
        if not self._windows or is_open(self._windows, now, self.zone):
            return None
        opens = next_change(self._windows, now, self.zone)
        when = "" if opens is None else f"; goes on {opens:%a %H:%M} {self.settings.time_zone}"
        return f"outside limits.windows{when}"

    def rate(self, now: datetime) -> int | None:
        """Bytes a second of the flow at that moment; None: no limit."""
        local = now.astimezone(self.zone)
        fitting = (rate for window, rate in self._rates if local in window)
        return next(fitting, self.settings.bytes_per_second)

    def topic_rate(self, topic: str) -> int | None:
        """Bytes a second of one topic; None: it has no limit of its own."""
        return _first(self._topics, topic)

    def priority(self, topic: str) -> int:
        """A topic's priority; 0 where none is configured."""
        return _first(self._priorities, topic) or 0


def _rules(items: Sequence[str]) -> _Rules:
    pairs = (split_rule(item) for item in items)
    return tuple((pattern, number) for text, number in pairs if (pattern := compile_patterns((text,))) is not None)


def _first(rules: _Rules, topic: str) -> int | None:
    return next((number for pattern, number in rules if pattern.fits(topic)), None)


@dataclass(frozen=True, slots=True)
class TopicReader:
    """One topic of one flow in one replicator, and how fast it would be read if it were not limited."""

    replicator: str
    flow: FlowName
    topic: str
    bytes_per_s: float


def filled(demands: Mapping[_Key, float], total: float) -> dict[_Key, float]:
    """Max-min fair shares of ``total``: nobody gets more than it demands; those that get less all get the same."""
    given, left = {}, total
    rest = len(demands)
    for key, demand in sorted(demands.items(), key=lambda item: item[1]):
        given[key] = min(demand, left / rest)
        left -= given[key]
        rest -= 1
    return given


def by_priority(demands: Mapping[_Key, float], priorities: Mapping[_Key, int], total: float) -> dict[_Key, float]:
    """The same, higher priorities first; a tenth is left for the lower ones where they demand it."""
    given: dict[_Key, float] = {}
    left = total
    for priority in sorted(set(priorities.values()), reverse=True):
        alike = {key: demand for key, demand in demands.items() if priorities[key] == priority}
        later = sum(demand for key, demand in demands.items() if priorities[key] < priority)
        given |= filled(alike, max(0.0, left - min(later, left * _LEFT_FOR_LATER)))
        left = total - sum(given.values())
    return given


def shares(
    limits: FlowLimits, readers: Sequence[TopicReader], now: datetime
) -> Mapping[tuple[str, FlowName], QuotaShare]:
    """Each replicator's part of the limits, by replicator and flow (the flow itself, its routes, its backfills).

    Guarantees: the shares of the flow's limit, and those of each topic's, sum up to it and never to more. What nobody
    demands is divided evenly, so that a reader whose demand rises suddenly can begin.
    """
    demands = {reader: reader.bytes_per_s for reader in readers}
    topics = _topic_shares(limits, demands)
    total = limits.rate(now)
    of_flows = {} if total is None else _flow_shares(limits, demands | topics, float(total))
    parts: dict[tuple[str, FlowName], list[TopicReader]] = defaultdict(list)
    for reader in readers:
        parts[reader.replicator, reader.flow].append(reader)
    found: dict[tuple[str, FlowName], QuotaShare] = {}
    for key, own in parts.items():
        ranks, usual = _ranks(limits, own)
        found[key] = QuotaShare(
            flow=key[1],
            bytes_per_s=of_flows.get(key),
            topics=tuple((reader.topic, topics[reader]) for reader in own if reader in topics),
            ranks=ranks if total is not None else (),
            usual_rank=usual if total is not None else 0,
        )
    return found


def _topic_shares(limits: FlowLimits, demands: Mapping[TopicReader, float]) -> dict[TopicReader, float]:
    found: dict[TopicReader, float] = {}
    by_topic: dict[str, dict[TopicReader, float]] = defaultdict(dict)
    for reader, demand in demands.items():
        by_topic[reader.topic][reader] = demand
    for topic, there in by_topic.items():
        rate = limits.topic_rate(topic)
        if rate is not None:
            found |= _dealt_out(filled(there, rate), rate)
    return found


def _flow_shares(
    limits: FlowLimits, demands: Mapping[TopicReader, float], total: float
) -> Mapping[tuple[str, FlowName], float]:
    priorities = {reader: limits.priority(reader.topic) for reader in demands}
    parts: dict[tuple[str, FlowName], float] = defaultdict(float)
    for reader, part in by_priority(demands, priorities, total).items():
        parts[reader.replicator, reader.flow] += part
    return _dealt_out(parts, total)


def _dealt_out(parts: Mapping[_Key, float], total: float) -> dict[_Key, float]:
    left = max(0.0, total - sum(parts.values())) / max(1, len(parts))
    return {key: max(part + left, 1.0) for key, part in parts.items()}


def _ranks(limits: FlowLimits, readers: Sequence[TopicReader]) -> tuple[tuple[tuple[str, int], ...], int]:
    priorities = {reader.topic: limits.priority(reader.topic) for reader in readers}
    order = sorted({*priorities.values(), 0}, reverse=True)
    ranks = tuple((topic, order.index(priority)) for topic, priority in sorted(priorities.items()) if priority != 0)
    return (ranks, order.index(0)) if ranks else ((), 0)


def uncounted(limits: FlowLimits, flow: FlowName, topics: Sequence[str], now: datetime) -> QuotaShare:
    """What a replicator may use that was just assigned its first partitions of the flow."""
    total = limits.rate(now)
    rates = ((topic, limits.topic_rate(topic)) for topic in topics)
    return QuotaShare(
        flow=flow,
        bytes_per_s=None if total is None else max(total * UNCOUNTED, 1.0),
        topics=tuple((topic, max(rate * UNCOUNTED, 1.0)) for topic, rate in rates if rate is not None),
    )
