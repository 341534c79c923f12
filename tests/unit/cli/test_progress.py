"""When everything has been copied, when nothing moves any more, and how long it may take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.cli.progress import CatchUp, Eta
from tests.support.factories import system_status
from tests.unit.cli.fakes import FLOW, PARTITION, STATUS, TOPIC


def test_two_looks_make_caught_up() -> None:
    """One look may fall between two partitions being found."""
    catch_up = CatchUp()
    assert catch_up.update(0.0, STATUS, [PARTITION], [TOPIC]).state == "moving"
    assert catch_up.update(0.5, STATUS, [PARTITION], [TOPIC]).state == "caught_up"


@pytest.mark.parametrize(
    "partition",
    [
        replace(PARTITION, lag_records=1),
        replace(PARTITION, lag_records=None),
        replace(PARTITION, source_end=-1),
        replace(PARTITION, state="waiting"),
        replace(PARTITION, state="establishing"),
    ],
)
def test_a_partition_with_work_left_keeps_it_moving(partition: Any) -> None:
    """However long it takes; and the looks begin anew."""
    catch_up = CatchUp()
    catch_up.update(0.0, STATUS, [PARTITION], [TOPIC])
    assert catch_up.update(100.0, STATUS, [PARTITION, partition], [TOPIC]).state == "moving"
    assert catch_up.update(200.0, STATUS, [PARTITION], [TOPIC]).state == "moving"


@pytest.mark.parametrize("flow", [replace(FLOW, discovered=False), replace(FLOW, state="unreachable")])
def test_a_flow_that_has_not_looked_has_not_caught_up(flow: Any) -> None:
    """No partitions known is not the same as none left."""
    catch_up = CatchUp()
    assert {catch_up.update(float(n), system_status(flow), [], []).state for n in range(40)} == {"moving"}


def test_a_flow_that_is_not_enabled_is_not_waited_for() -> None:
    """It only emits heartbeats."""
    catch_up = CatchUp()
    status = system_status(FLOW, replace(FLOW, flow="B->A", state="idle", discovered=False))
    catch_up.update(0.0, status, [PARTITION], [TOPIC])
    assert catch_up.update(1.0, status, [PARTITION], [TOPIC]).state == "caught_up"


@pytest.mark.parametrize("state", ["refused", "stopped", "paused"])
def test_what_stands_still_blocks_after_the_grace(state: Any) -> None:
    """A stopped partition is tried again; only after a while is it reported, with its reason."""
    catch_up = CatchUp(grace_s=15.0)
    stuck = replace(PARTITION, partition=3, state=state, reason="it is full", lag_records=5)
    assert catch_up.update(0.0, STATUS, [PARTITION, stuck], [TOPIC]).state == "moving"
    assert catch_up.update(14.0, STATUS, [PARTITION, stuck], [TOPIC]).state == "moving"
    verdict = catch_up.update(15.0, STATUS, [PARTITION, stuck], [TOPIC])
    assert verdict.state == "blocked"
    assert verdict.blockers == (f"A->B orders-3: {state}: it is full",)


def test_a_refused_topic_is_named_once() -> None:
    """Not once for each of its partitions."""
    catch_up = CatchUp(grace_s=0.0)
    topic = replace(TOPIC, state="refused", reason="filled by another")
    stuck = [replace(PARTITION, partition=n, state="refused", lag_records=None) for n in range(3)]
    assert catch_up.update(0.0, STATUS, stuck, [topic]).blockers == ("A->B orders: refused: filled by another",)


def test_the_others_go_on_while_one_stands_still() -> None:
    """The grace begins when the last of them is done."""
    catch_up = CatchUp(grace_s=10.0)
    stuck = replace(PARTITION, state="stopped", lag_records=5)
    moving = replace(PARTITION, partition=1, lag_records=5)
    assert catch_up.update(0.0, STATUS, [stuck, moving], [TOPIC]).state == "moving"
    assert catch_up.update(20.0, STATUS, [stuck], [TOPIC]).state == "moving"
    assert catch_up.update(30.0, STATUS, [stuck], [TOPIC]).state == "blocked"


def test_eta_follows_the_fall_of_the_lag() -> None:
    """From 1000 to 600 in 4 s: 6 s for the rest; 0 when it is there."""
    eta = Eta()
    assert eta.seconds(0.0, replace(FLOW, lag_records=1000)) is None
    assert eta.seconds(4.0, replace(FLOW, lag_records=600)) == pytest.approx(6.0)
    assert eta.seconds(5.0, replace(FLOW, lag_records=0)) == 0.0


def test_eta_of_a_lag_that_grows_is_unknown() -> None:
    """Rather no number than a negative one."""
    eta = Eta()
    eta.seconds(0.0, replace(FLOW, lag_records=10))
    assert eta.seconds(1.0, replace(FLOW, lag_records=20)) is None
    assert eta.seconds(2.0, replace(FLOW, lag_records=None)) is None
