"""Where topics begin: how it is written, which rule holds, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.settings import FetchSettings, FlowSettings, TopicSettings
from mirror_ray.model.names import FlowName
from mirror_ray.model.start import EARLIEST, LATEST, StartPosition, out_of_bounds, parse_start, start_rules
from mirror_ray.state.records import FlowRecord
from mirror_ray.topics.discovery_rules import rules_of, selection_of, starts_changed, starts_of

OFFSETS = st.dictionaries(st.integers(0, 10**6), st.integers(0, 10**15), min_size=1, max_size=5)
STARTS = st.one_of(
    st.sampled_from([EARLIEST, LATEST]),
    st.builds(lambda ms: StartPosition("timestamp", ms), st.integers(0, 4_000_000_000_000)),
    st.builds(lambda pairs: StartPosition("offsets", offsets=tuple(sorted(pairs.items()))), OFFSETS),
)


def flow(start: str | None = None, *overrides: str, reset: str = "earliest") -> FlowSettings:
    """A flow with these settings."""
    return FlowSettings(
        name=FlowName("A", "B"),
        enabled=True,
        topics=TopicSettings(start=start, start_overrides=overrides),
        fetch=FetchSettings(auto_offset_reset=reset),
    )


@given(STARTS)
def test_what_is_written_is_read_back(start: StartPosition) -> None:
    """A mark in the state topic says the same after a restart, to the millisecond."""
    assert parse_start(str(start)) == start


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-11-22T10:00:00Z", 1_795_341_600_000),
        ("2026-11-22t11:00:00.123456789+01:00", 1_795_341_600_123),
        ("2026-11-22 10:00Z", 1_795_341_600_000),
        ("1795341600000", 1_795_341_600_000),
        ("1960-01-01T00:00:00Z", 0),
    ],
)
def test_points_in_time(text: str, time_ms: int) -> None:
    """RFC 3339 in any zone, and epoch milliseconds."""
    assert parse_start(text) == StartPosition("timestamp", time_ms)


@pytest.mark.parametrize(
    "text",
    ["", "newest", "2026-11-22T10:00:00", "2026-13-22T10:00:00Z", "123", "0@", "0@1 x", "0@-5", "0@1 0@2", "0@1,1@2"],
)
def test_what_is_no_start(text: str) -> None:
    """Typing mistakes, a time without its zone, which two machines would read differently, a partition named twice."""
    with pytest.raises(ValueError, match=r"no place to begin|no point in time|twice"):
        parse_start(text)


def test_the_first_override_that_fits_holds() -> None:
    """Names are matched whole; without a match the default holds."""
    rules = start_rules("latest", ["audit-.*=earliest", "audit-old = 2026-11-22T10:00:00Z", "orders=0@5 1@7"])
    assert rules.of("audit-old") == EARLIEST
    assert rules.of("orders") == StartPosition("offsets", offsets=((0, 5), (1, 7)))
    assert rules.of("orders-2") == LATEST


@pytest.mark.parametrize("override", ["orders", "=latest", "orders=", "(=latest"])
def test_overrides_that_cannot_be_read(override: str) -> None:
    """Each names what is wrong."""
    with pytest.raises(ValueError, match=r"PATTERN=START|no place to begin|not a regular expression"):
        start_rules("earliest", [override])


def test_offsets_are_no_default() -> None:
    """Offsets are one topic's own."""
    with pytest.raises(ValueError, match="as an override"):
        start_rules("0@5", [])


def test_offsets_out_of_bounds_name_both_bounds() -> None:
    """Before the log's start, beyond its end, and a partition that is not there; the end itself is a place."""
    start = parse_start("0@5 1@3 2@10 7@0")
    reason = out_of_bounds("t", start, [0, 1, 2], {0: (0, 4), 1: (4, 9), 2: (0, 10)})
    assert reason is not None
    assert "0@5 lies outside of partition 0, which goes from 0 to 4" in reason
    assert "1@3 lies outside of partition 1, which goes from 4 to 9" in reason
    assert "2@10" not in reason
    assert "7@0 names a partition that it does not have" in reason
    assert out_of_bounds("t", LATEST, [0], {0: (0, 0)}) is None
    assert out_of_bounds("t", start, [0, 1, 2, 7], {}) is None


def test_auto_offset_reset_holds_where_nothing_is_said() -> None:
    """And what an earlier version persisted of the selection still fits."""
    assert rules_of(flow(reset="latest")).of("t") == LATEST
    assert rules_of(flow("earliest", reset="latest")).of("t") == EARLIEST
    assert selection_of(flow()) == "4ed61531a808bb07"
    assert len({selection_of(settings) for settings in (flow(), flow("latest"), flow(None, "t=latest"))}) == 3


def test_a_change_is_said_where_it_has_no_effect() -> None:
    """Topics with progress go on where they are."""
    known = FlowRecord(producer_id=1, producer_epoch=0, source_cluster_id="a", target_cluster_id="b", selection="s")
    changed = starts_of(flow("latest"))
    assert "3 topics have progress" in (starts_changed(FlowName("A", "B"), known, changed, 3) or "")
    assert starts_changed(FlowName("A", "B"), known, changed, 0) is None
    assert starts_changed(FlowName("A", "B"), None, changed, 3) is None
    assert starts_changed(FlowName("A", "B"), known, starts_of(flow()), 3) is None
