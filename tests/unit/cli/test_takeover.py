"""What takeover and handback print, and when they don't begin."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Never

import pytest

from mirror_ray import runtime
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.errors import NotRunningError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.takeover import handback, takeover
from mirror_ray.takeover.decisions import TakeoverDecision
from mirror_ray.takeover.handback import HandbackResult, PartitionHandback
from mirror_ray.takeover.mm2_activity import Mm2Topics, which_mm2
from mirror_ray.takeover.takeover import TakeoverResult
from tests.unit.cli.fakes import FakeCoordinator, Run

DEDICATED = Mm2Topics(offsets_topic="mm2-offsets.A.internal", connector="MirrorSourceConnector", group="A-mm2")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mm2Topics]:
    """From which MM2 flows would be taken over; no system runs. One topic is taken, another one refused."""
    given: list[Mm2Topics] = []
    taken = TakeoverDecision(
        source=TopicPartition("orders", 0),
        remote="A.orders",
        outcome="taken",
        noted=99,
        begin=130,
        target_end=1130,
        found=30,
    )
    refused = TakeoverDecision(source=TopicPartition("other", 0), remote="A.other", outcome="refused", remarks=("why",))

    async def take_over(
        _: MirrorSettings, name: FlowName, mm2: Mm2Topics, *, quiet_s: float, dry: bool, force: bool, **_log: object
    ) -> TakeoverResult:
        assert quiet_s == 3.0
        given.append(mm2)
        rows = (replace(taken, lost=70), refused) if force else (taken, refused)
        return TakeoverResult(flow=name, rows=rows[: 1 if dry else 2], others=("elsewhere",), dry=dry)

    async def hand_back(
        _: MirrorSettings, name: FlowName, mm2: Mm2Topics, *, quiet_s: float, dry: bool, **_log: object
    ) -> HandbackResult:
        assert quiet_s == 3.0
        given.append(mm2)
        note = PartitionHandback(
            source=TopicPartition("orders", 0), remote="A.orders", target_end=1130, before=99, noted=129
        )
        return HandbackResult(flow=name, partitions=(note,), dry=dry)

    def attach(_name: str, _address: str | None) -> Never:
        raise NotRunningError("nothing runs")

    monkeypatch.setattr(takeover, "take_over", take_over)
    monkeypatch.setattr(handback, "hand_back", hand_back)
    monkeypatch.setattr(runtime, "attach", attach)
    return given


def test_a_refused_topic_is_exit_1(asked: list[Mm2Topics], config: Path, run: Run) -> None:
    """All others are taken over; the table has the offsets."""
    result = run("takeover", config)
    assert result.exit_code == 1
    heading, row = (line.split() for line in result.stdout.splitlines()[2:4])
    assert heading[:3] == ["TOPIC", "PARTITION", "OUTCOME"]
    assert row == ["orders", "0", "taken", "99", "130", "1,130", "30", "0", "0"]
    assert "refused, and left as they are: other" in result.stderr
    assert "not selected by A->B, though MM2 copied them: elsewhere" in result.stderr
    assert asked == [DEDICATED]


def test_force_says_what_may_be_lost(asked: list[Mm2Topics], config: Path, run: Run) -> None:
    """In the table, and below it."""
    result = run("takeover", config, "--dry-run", "--force")
    assert result.stdout.splitlines()[3].split()[-1] == "70"
    assert "--force: at most 70 records before MM2's notes may be lost" in result.stderr
    assert asked == [DEDICATED]


def test_a_dry_run_as_json(asked: list[Mm2Topics], config: Path, run: Run) -> None:
    """Of an MM2 in a Connect cluster: there the group is not known."""
    where = ("--offsets-topic", "connect-offsets", "--connector", "mirror")
    result = run("takeover", config, "A->B", "--dry-run", "-o", "json", *where)
    assert result.exit_code == 0
    (flow,) = json.loads(result.stdout)
    assert (flow["flow"], flow["dry_run"], flow["ok"]) == ("A->B", True, True)
    assert flow["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "remote_topic": "A.orders",
        "outcome": "taken",
        "noted": 99,
        "begin": 130,
        "target_end": 1130,
        "found": 30,
        "doubtful": 0,
        "lost": 0,
        "remarks": [],
    }
    assert asked == [which_mm2(FlowName("A", "B"), "connect-offsets", "mirror", None)]
    assert asked[0].group is None


def test_handback(asked: list[Mm2Topics], config: Path, run: Run) -> None:
    """The notes, before and now."""
    result = run("handback", config)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[3].split() == ["orders", "0", "99", "129", "1,130"]
    (flow,) = json.loads(run("handback", config, "-o", "json").stdout)
    assert (flow["partitions"][0]["before"], flow["partitions"][0]["noted"]) == (99, 129)
    assert asked == [DEDICATED] * 2


def test_not_while_it_runs(coordinator: FakeCoordinator, config: Path, run: Run) -> None:
    """A running system of the flow is left alone; so is a flow that is not there."""
    for command in ("takeover", "handback"):
        result = run(command, config)
        assert result.exit_code == 1
        assert "`mirror-ray down` first" in result.stderr
        assert run(command, config, "A->C").exit_code == 2
    assert coordinator is not None
