"""Commands that change a running system: what reaches the coordinator, and what is refused before it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.fakes import FakeCoordinator, Run


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (("scale", "3"), ("scale", 3)),
        (("scale", "--auto"), ("scale_by_load", None, None)),
        (("scale", "--min", "2", "--max", "5"), ("scale_by_load", 2, 5)),
        (("pause", "A->B"), ("pause", "A->B", None, None)),
        (("resolve", "A->B", "orders:3", "--by", "skip", "--yes"), ("resolve", "A->B", "orders", 3, "skip")),
        (("resolve", "A->B", "orders", "--by", "resync", "-y"), ("resolve", "A->B", "orders", None, "resync")),
        (("pause", "A->B", "orders"), ("pause", "A->B", "orders", None)),
        (("resume", "A->B", "orders:3"), ("resume", "A->B", "orders", 3)),
        (("down", "--deadline", "5"), ("down", 5.0)),
    ],
)
def test_commands_reach_the_coordinator(
    coordinator: FakeCoordinator, run: Run, args: tuple[str, ...], command: tuple[Any, ...]
) -> None:
    """Their talk goes to stderr, and Ray is let go of."""
    result = run(*args)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert coordinator.commands == [command]
    assert coordinator.ended is (args[0] == "down")
    assert coordinator.closed


@pytest.mark.parametrize("scope", ["orders:", "orders:x", ":1"])
def test_a_wrong_scope_is_a_usage_error(coordinator: FakeCoordinator, run: Run, scope: str) -> None:
    """Nothing is paused by guessing."""
    assert run("pause", "A->B", scope).exit_code == 2
    assert coordinator.commands == []


@pytest.mark.parametrize(
    "args", [("nothing",), ("scale", "0"), ("scale",), ("scale", "2", "--auto"), ("lag", "-o", "xml")]
)
def test_usage_errors_end_with_2(run: Run, args: tuple[str, ...]) -> None:
    """As in every command line."""
    assert run(*args).exit_code == 2


def test_resolve_asks_nobody_without_a_terminal(coordinator: FakeCoordinator, run: Run) -> None:
    """A script has to say that it means it."""
    result = run("resolve", "A->B", "orders:3", "--by", "resync")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert coordinator.commands == []


def test_resolve_names_what_goes_on(coordinator: FakeCoordinator, run: Run) -> None:
    """The answer says which partitions, and where the rest is shown."""
    result = run("resolve", "A->B", "orders:3", "--by", "skip", "--yes")
    assert "skip for orders-3" in result.stderr
    assert "mirror-ray events" in result.stderr
