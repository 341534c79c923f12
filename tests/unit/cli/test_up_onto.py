"""`up` on a system that runs: what it shows, what it has agreed to, and with whom the system ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_ray.config.load import load_settings
from mirror_ray.model.starter import Starter, ends_with
from tests.unit.cli.fakes import CONFIG, FakeCoordinator, Run

NUMBER = "  replicators: 2 -> 5\n"


def test_the_number_of_replicators_is_shown_and_asked_about(
    coordinator: FakeCoordinator, run: Run, config: Path
) -> None:
    """As every other change; a dry run says it, and without a terminal it takes --yes."""
    coordinator.before = load_settings(config).settings
    dry = run("up", config, "--replicators", "5", "--dry-run")
    assert (dry.exit_code, coordinator.started) == (0, False)
    assert dry.stderr.endswith(NUMBER)
    unasked = run("up", config, "--replicators", "5", "--detach")
    assert (unasked.exit_code, coordinator.started) == (2, False)
    assert NUMBER in unasked.stderr
    assert "--yes" in unasked.stderr
    done = run("up", config, "--replicators", "5", "--detach", "--yes")
    assert (done.exit_code, coordinator.started) == (0, True)
    assert NUMBER in done.stderr
    assert run("up", config, "--replicators", "2", "--detach").exit_code == 0


def test_what_was_shown_is_what_is_changed(
    coordinator: FakeCoordinator, run: Run, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of what runs goes along; --yes takes whatever runs."""
    coordinator.before = load_settings(config).settings
    assert run("up", config, "--detach").exit_code == 0
    assert coordinator.agreed is not None
    assert coordinator.agreed.onto == "what runs"
    config.write_text(CONFIG + "A->B.topics = orders\n")
    assert run("up", config, "--detach", "--yes").exit_code == 0
    assert coordinator.agreed.onto is None


@pytest.mark.parametrize("options", [("--detach",), ("--until-caught-up",)])
def test_whoever_joins_is_told_with_whom_it_ends(
    coordinator: FakeCoordinator, run: Run, config: Path, options: tuple[str, ...]
) -> None:
    """In the background, too."""
    coordinator.before = load_settings(config).settings
    coordinator.ends_with = "mirror-ray up (process 17 of ann@host)"
    result = run("up", config, *options)
    assert result.exit_code == 0
    assert "mirror was started by mirror-ray up (process 17 of ann@host), and ends when that ends" in result.stderr
    assert " until mirror-ray up (process 17 of ann@host) ends" in result.stderr
    assert coordinator.commands in ([], [("settle_groups", 20.0)])


def test_a_system_ends_with_another_process_that_has_it_in_the_foreground() -> None:
    """Not with one that left it running, nor with this one."""

    def starter(by: str = "ann@host", pid: int = 17, *, foreground: bool = True) -> Starter:
        return Starter(by=by, pid=pid, command="mirror-ray up", foreground=foreground)

    me = starter()
    assert ends_with(None, me) is None
    assert ends_with(me, me) is None
    assert ends_with(starter(pid=18, foreground=False), me) is None
    assert ends_with(starter(pid=18), me) == "mirror-ray up (process 18 of ann@host)"
    assert ends_with(starter(by="ann@other"), me) == "mirror-ray up (process 17 of ann@other)"
