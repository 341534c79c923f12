"""Limits as they hold at a moment, and how replicators share them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mirror_ray.config.limits import LimitSettings
from mirror_ray.coordinator.limit_rules import FlowLimits, TopicReader, by_priority, filled, shares, uncounted
from mirror_ray.model.names import FlowName

_FLOW, _ROUTE = FlowName("A", "B"), FlowName("A", "B", route="masked")
#: A Monday noon.
_NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
_DEMANDS = st.dictionaries(st.integers(), st.floats(0, 1e9) | st.just(float("inf")), min_size=1, max_size=20)


@given(demands=_DEMANDS, total=st.floats(1, 1e9))
def test_shares_sum_up_to_the_limit_or_to_what_is_asked(demands: dict[int, float], total: float) -> None:
    """Nobody gets more than he asks for; who gets less gets as much as any other."""
    given_ = filled(demands, total)
    assert sum(given_.values()) == pytest.approx(min(total, sum(demands.values())))
    most = max(given_.values())
    for key, demand in demands.items():
        assert given_[key] <= demand
        assert given_[key] == pytest.approx(demand) or given_[key] == pytest.approx(most)


@given(demands=_DEMANDS, total=st.floats(1, 1e9), data=st.data())
def test_higher_priorities_come_first_and_nobody_starves(
    demands: dict[int, float], total: float, data: st.DataObject
) -> None:
    """Never more than the limit; lower ones get a tenth, or what they ask for."""
    priorities = {key: data.draw(st.integers(0, 1)) for key in demands}
    found = by_priority(demands, priorities, total)
    assert sum(found.values()) <= total * (1 + 1e-9)
    low = {key for key in demands if not priorities[key]}
    asked = sum(demands[key] for key in low)
    assert sum(found[key] for key in low) >= min(asked, total / 10) - total * 1e-9
    high = demands.keys() - low
    first = min(sum(demands[key] for key in high), total - min(asked, total / 10))
    assert sum(found[key] for key in high) == pytest.approx(first)


def _shares(limits: LimitSettings, *readers: TopicReader) -> dict[tuple[str, FlowName], float | None]:
    return {key: share.bytes_per_s for key, share in shares(FlowLimits(limits), readers, _NOON).items()}


def test_who_has_more_to_read_gets_more_and_the_rest_is_dealt_out() -> None:
    """Routes share with their flow."""
    limits = LimitSettings(bytes_per_second=1000)
    busy, idle = TopicReader("r1", _FLOW, "t", float("inf")), TopicReader("r2", _FLOW, "t", 100.0)
    assert _shares(limits, busy, idle) == {("r1", _FLOW): 900.0, ("r2", _FLOW): 100.0}
    calm = TopicReader("r1", _ROUTE, "t", 300.0)
    assert _shares(limits, calm, idle) == {("r1", _ROUTE): 600.0, ("r2", _FLOW): 400.0}


def test_a_topics_limit_is_shared_as_well() -> None:
    """And bounds what its readers ask of the flow's."""
    limits = FlowLimits(LimitSettings(bytes_per_second=1000, topics=("t=100",), priorities=("u=1",)))
    readers = [
        TopicReader("r1", _FLOW, "t", 1e9),
        TopicReader("r2", _FLOW, "t", 1e9),
        TopicReader("r2", _FLOW, "u", 1e9),
    ]
    found = shares(limits, readers, _NOON)
    first, second = found["r1", _FLOW], found["r2", _FLOW]
    assert (dict(first.topics), dict(second.topics)) == ({"t": 50.0}, {"t": 50.0})
    assert (first.bytes_per_s, second.bytes_per_s) == (50.0, 950.0)
    assert (dict(second.ranks), second.usual_rank, second.lowest_rank) == ({"u": 0}, 1, 1)
    assert (first.ranks, first.lowest_rank) == ((), 0)


def test_who_was_not_counted_yet_may_begin() -> None:
    """With a hundredth: nobody is without a limit for a moment."""
    limits = FlowLimits(LimitSettings(bytes_per_second=1000, topics=("t=100",)))
    found = uncounted(limits, _FLOW, ["t", "u"], _NOON)
    assert (found.bytes_per_s, found.topics) == (10.0, (("t", 1.0),))


def test_rates_and_windows_go_by_the_clock() -> None:
    """Of the zone that is named; outside of all windows it is said when it goes on."""
    limits = FlowLimits(
        LimitSettings(
            bytes_per_second=1000,
            rates=("mon-fri 08:00-18:00=10",),
            windows=("mon-fri 22:00-06:00",),
            time_zone="Europe/Berlin",
        )
    )
    assert limits.rate(_NOON) == 10
    assert limits.rate(_NOON.replace(hour=18)) == 1000
    assert limits.closed(_NOON) == "outside limits.windows; goes on Mon 22:00 Europe/Berlin"
    assert limits.closed(_NOON.replace(hour=21)) is None
    assert FlowLimits(LimitSettings()).closed(_NOON) is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"bytes_per_second": 0}, "0 is too small: at least 1"),
        ({"topics": ("orders",)}, "is not written PATTERN=NUMBER"),
        ({"topics": ("orders=0",)}, "exclude the topic"),
        ({"topics": ("*=5",)}, "not a regular expression"),
        ({"priorities": ("orders=high",)}, "with a whole number"),
        ({"windows": ("nights",)}, "write it like mon-fri 22:00-06:00"),
        ({"rates": ("22:00-06:00",)}, "is not written TIME OF THE WEEK=BYTES_PER_SECOND"),
        ({"rates": ("22:00-06:00=0",)}, "windows say when nothing is copied"),
        ({"time_zone": "Berlin"}, "write it like Europe/Berlin"),
        ({"time_zone": "../etc/passwd"}, "no time zone"),
    ],
)
def test_what_can_not_be_meant_is_refused(wrong: dict[str, object], says: str) -> None:
    """With the text, and what to write."""
    with pytest.raises(ValidationError, match=says):
        LimitSettings.model_validate(wrong)
