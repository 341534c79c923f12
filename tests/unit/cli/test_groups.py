"""How `groups` and `translate` end; what they print is in ``snapshots``."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirror_ray.offsets.translation import Translation
from tests.unit.cli.fakes import GROUP, FakeCoordinator, Run


def test_a_group_that_is_not_synced_is_named(coordinator: FakeCoordinator, run: Run) -> None:
    """With where to look."""
    for arguments in (("groups", "--group", "nobody"), ("translate", "A->B", "--group", "nobody")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "'nobody'" in result.stderr
        assert "groups.exclude" in result.stderr


def test_translate_a_group(coordinator: FakeCoordinator, run: Run) -> None:
    """Exit 1 while a partition has no translated offset."""
    assert run("translate", "A->B", "--group", "billing").exit_code == 1
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
