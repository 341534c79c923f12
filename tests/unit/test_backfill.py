"""Backfills: what may be copied where, what is said, and a coordinator that begins, resumes and ends them."""

from __future__ import annotations

import json

import pytest

from mirror_ray.cli.backfill import plain, read_point, read_request
from mirror_ray.config.settings import BackfillSettings, FlowSettings, backfill_settings
from mirror_ray.model.backfill import (
    BackfillRange,
    BackfillRecord,
    BackfillRequest,
    check_behind,
    check_into,
    check_range,
    chosen_partitions,
    live_start,
    same_again,
)
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.start import StartPosition, parse_start
from mirror_ray.observe.backfills import backfill_status
from mirror_ray.state import schema

RECORD = BackfillRecord(
    topic="orders",
    into="again",
    ranges=(BackfillRange(0, 5, 20), BackfillRange(2, 0, 10)),
    said="from 0@5",
    time_ms=7,
    positions=((0, 9),),
)


def test_a_record_survives_json() -> None:
    """Through the state topic, beside keys of other kinds; a newer version's fields are ignored."""
    written = {schema.BACKFILL.key("1a2b"): {**RECORD.document(), "newer": 1}, "start/t": {"at": "0@5"}}
    memory = schema.decode(json.loads(json.dumps(written)))
    assert memory.backfills == {"1a2b": RECORD}
    assert memory.starts == {"t": parse_start("0@5")}


def test_names() -> None:
    """A backfill is named beside its flow, and has a state of its own."""
    name = FlowName.parse("A->B#1a2b")
    assert (str(name), name.live, name.live.backfill) == ("A->B#1a2b", FlowName("A", "B"), "")
    assert schema.state_topic("A", "1a2b") == "mm2-ray-state.A.backfill-1a2b.internal"
    assert schema.state_topic("A") == "mm2-ray-state.A.internal"


def test_what_a_backfill_works_by() -> None:
    """The flow's settings, without statistics of its own, each partition at its place, troubles left to people."""
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True)
    backfill = BackfillSettings(topic="my.orders", into="again", ranges=((0, 5, 20), (2, 0, 10)))
    beside = backfill_settings(flow, "1a2b", backfill)
    assert beside.name == FlowName("A", "B", "1a2b")
    assert beside.topics.start_overrides == (r"my\.orders=0@5 2@0",)
    assert not beside.statistics.emit_enabled
    assert backfill.ends == {TopicPartition("my.orders", 0): 20, TopicPartition("my.orders", 2): 10}
    assert beside.fetch == flow.fetch


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (BackfillRequest(topic="t"), [0, 1, 2]),
        (BackfillRequest(topic="t", partitions=(2,)), [2]),
        (BackfillRequest(topic="t", start=parse_start("1@5")), [1]),
        (BackfillRequest(topic="t", start=parse_start("1@5"), end=parse_start("0@5")), [0, 1]),
        (BackfillRequest(topic="t", start=parse_start("1@5 2@5"), partitions=(2,)), [2]),
    ],
)
def test_partitions(request_: BackfillRequest, expected: list[int]) -> None:
    """Those that are named, by number or by offset; else all."""
    assert chosen_partitions(request_, 3) == expected


def test_partitions_that_are_not_there() -> None:
    """Named by number or by offset."""
    for request in (BackfillRequest(topic="t", partitions=(3,)), BackfillRequest(topic="t", end=parse_start("3@1"))):
        with pytest.raises(ConfigError, match="0 to 2, and not 3"):
            chosen_partitions(request, 3)


@pytest.mark.parametrize(("start", "end"), [(4, 10), (5, 21), (25, 30), (12, 11)])
def test_ranges_that_are_not_there(start: int, end: int) -> None:
    """Out of the log on either side, or backwards; both bounds are named."""
    with pytest.raises(ConfigError, match=r"goes from 5 to 20|before its start"):
        check_range("t", BackfillRange(0, start, end), (5, 20))
    check_range("t", BackfillRange(0, 5, 20), (5, 20))


def test_behind_the_live_copy() -> None:
    """Refused where anything was copied already; else only when it is said that the order does not matter."""
    asked, told = BackfillRequest(topic="t"), BackfillRequest(topic="t", behind=True)
    old, late = [BackfillRange(0, 0, 10), BackfillRange(1, 3, 3)], [BackfillRange(0, 0, 11)]
    with pytest.raises(ConfigError, match=r"10 older records would be appended to A\.t"):
        check_behind(asked, old, {0: 10, 1: 3}, "A.t")
    check_behind(told, old, {0: 10, 1: 3}, "A.t")
    with pytest.raises(ConfigError, match="from 10 on are the live copy's"):
        check_behind(told, late, {0: 10}, "A.t")
    with pytest.raises(ConfigError, match="began at its first record"):
        check_behind(told, [BackfillRange(0, 3, 3)], {0: 3}, "A.t")


def test_where_the_live_copy_began() -> None:
    """Known only where the remote partition held nothing before it, and nothing was repaired since."""
    assert live_start("t", 0, OffsetPair(7, 0), 0) == 7
    for origin, gaps in ((None, 0), (OffsetPair(7, 3), 0), (OffsetPair(7, 0), 1)):
        with pytest.raises(ConfigError, match="--into"):
            live_start("t", 0, origin, gaps)


@pytest.mark.parametrize("into", ["A.t", "", "a b", "..", "mm2-x.internal", "__x", "x.internal"])
def test_targets_that_are_none(into: str) -> None:
    """A live remote topic, names that Kafka refuses, and those of internal topics."""
    with pytest.raises(ConfigError, match=r"a flow writes|no topic's name|internal"):
        check_into(into, {"A.t"})
    check_into("again", {"A.t"})


def test_the_same_again() -> None:
    """The same words go on with it; others would write the same topic."""
    request = BackfillRequest(topic="orders", into="again", said="from 0@5")
    assert same_again(RECORD, request, "1a2b") is RECORD
    cancelled = BackfillRecord.read({**RECORD.document(), "phase": "cancelled"})
    assert same_again(cancelled, request, "1a2b").phase == "running"
    with pytest.raises(ConfigError, match=r"1a2b of orders .* is under way"):
        same_again(RECORD, BackfillRequest(topic="orders", into="again", said="from 0@6"), "1a2b")


def test_status() -> None:
    """Progress never leaves the range: a copy passes over the hole behind it."""
    status = backfill_status("A->B#1a2b", RECORD, state="copying", positions={0: 25, 2: -1}, rates=(2.0, 0.0))
    assert [part.position for part in status.partitions] == [20, 0]
    assert (status.offsets, status.copied, status.eta_seconds, status.flow) == (25, 15, 5.0, "A->B")
    assert backfill_status("A->B#1a2b", RECORD, state="cancelled").copied == 4
    assert json.loads(json.dumps(plain(status)))["partitions"][1] == {
        "partition": 2,
        "start": 0,
        "end": 10,
        "position": 0,
    }
    assert "15 of 25 (60%)" in str(status)


def test_points_on_the_command_line() -> None:
    """Words, offsets with commas, and times as everywhere on the command line."""
    assert read_point("0@5,1@7", 0) == StartPosition("offsets", offsets=((0, 5), (1, 7)))
    assert read_point("1h", 7_200_000) == StartPosition("timestamp", 3_600_000)
    assert read_point(" earliest ", 0) == StartPosition("earliest")
    for text in ("0@5,0@6", "soon", "0@"):
        with pytest.raises(ConfigError, match=r"twice|no point in time"):
            read_point(text, 0)
    request = read_request("t", "24h", "latest", partitions="3,0")
    assert (request.said, request.partitions) == ("from 24h to latest partitions 3,0", (0, 3))
    with pytest.raises(ConfigError, match="--partitions"):
        read_request("t", "earliest", None, partitions="1-3")
