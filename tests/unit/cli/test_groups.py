"""What `groups` and `translate` print, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.offsets.translation import Translation
from tests.unit.cli.fakes import GROUP, FakeCoordinator

Run = Callable[..., Any]


def test_groups_say_whether_they_are_synced_and_why_not(coordinator: FakeCoordinator, run: Run) -> None:
    """One line each."""
    result = run("groups")
    assert result.exit_code == 0
    assert "billing" in result.stdout
    assert "1/2" in result.stdout
    assert "the copy at 100" in result.stdout


def test_one_group_is_shown_by_partition(coordinator: FakeCoordinator, run: Run) -> None:
    """Source and target offsets side by side."""
    result = run("groups", "A->B", "--group", "billing")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines() if "A.orders" in line]
    assert [line[3:7] for line in lines] == [["70", "A.orders", "68", "yes"], ["120", "A.orders", "-", "-"]]


def test_a_group_that_is_not_carried_is_named(coordinator: FakeCoordinator, run: Run) -> None:
    """With where to look."""
    for arguments in (("groups", "--group", "nobody"), ("translate", "A->B", "--group", "nobody")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "'nobody'" in result.stderr
        assert "groups.exclude" in result.stderr


def test_translate_a_group(coordinator: FakeCoordinator, run: Run) -> None:
    """As JSON for other tools; exit 1 while a partition has no place."""
    result = run("translate", "A->B", "--group", "billing", "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)[0] == {
        "topic": "orders",
        "partition": 0,
        "source_offset": 70,
        "target_topic": "A.orders",
        "target_offset": 68,
        "exact": True,
        "reason": None,
    }
    coordinator.groups = (replace(GROUP, partitions=GROUP.partitions[:1]),)
    assert run("translate", "A->B", "--group", "billing").exit_code == 0


def test_translate_an_offset_either_way(coordinator: FakeCoordinator, run: Run) -> None:
    """The offset that was given stands on its side."""
    (there,) = json.loads(run("translate", "A->B", "orders:1", "--offset", "42", "-o", "json").stdout)
    assert (there["source_offset"], there["target_topic"], there["target_offset"]) == (42, "A.orders", 40)
    (back,) = json.loads(run("translate", "A->B", "orders:1", "--offset", "42", "--back", "-o", "json").stdout)
    assert (back["source_offset"], back["target_offset"]) == (40, 42)
    coordinator.translate = Translation(offset=None, reason="nothing yet")
    assert run("translate", "A->B", "orders:1", "--offset", "42").exit_code == 1


@pytest.mark.parametrize(
    "arguments", [(), ("--offset", "3"), ("orders:1",), ("orders", "--offset", "3"), ("orders:1", "--group", "g")]
)
def test_translate_wants_a_group_or_an_offset(
    coordinator: FakeCoordinator, run: Run, arguments: tuple[str, ...]
) -> None:
    """Nothing else."""
    result = run("translate", "A->B", *arguments)
    assert result.exit_code == 2
    assert "TOPIC:PARTITION and --offset" in result.stderr
