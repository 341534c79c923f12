"""What users and their scripts rely on: every command's options and help, and what commands print of a known system.

A change that is meant is taken over with ``MIRROR_RAY_UPDATE_SNAPSHOTS=1``, and reviewed in the diff of the files in
``snapshots/``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from mirror_ray.cli.app import app
from tests.unit.cli.fakes import CONFIG, FakeCoordinator

_SNAPSHOTS = Path(__file__).with_name("snapshots")
_COMMANDS = (
    ("status",),
    ("lag",),
    ("topics",),
    ("groups",),
    ("groups", "--group", "billing"),
    ("schemas",),
    ("schemas", "--problems"),
    ("replicators",),
    ("events",),
    ("gaps",),
    ("translate", "A->B", "--group", "billing"),
    ("translate", "A->B", "orders:0", "--offset", "7"),
    ("backfill",),
)


def _check(name: str, text: str) -> None:
    path = _SNAPSHOTS / name
    if os.environ.get("MIRROR_RAY_UPDATE_SNAPSHOTS"):
        path.write_text(text)
    assert path.read_text() == text


def _help_pages(name: str, command: Any, parent: Any = None) -> Iterator[str]:
    """In plain text: no terminal decides about it."""
    command.rich_markup_mode = None
    context = command.make_context(
        name, [], parent=parent, resilient_parsing=True, terminal_width=240, max_content_width=240
    )
    yield command.get_help(context)
    for child in getattr(command, "commands", {}):
        yield from _help_pages(child, command.commands[child], context)


def test_every_command_has_the_options_and_help_that_it_had() -> None:
    """Options are a contract; a help text is what people learn the command from."""
    _check("help.txt", "\n\n".join(_help_pages("mirror-ray", typer.main.get_command(app))) + "\n")


def test_commands_print_what_they_printed(
    coordinator: FakeCoordinator, run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a table and JSON: data on stdout, messages on stderr, the exit code. YAML has the data of JSON."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    path = tmp_path / "mm2.properties"
    path.write_text(CONFIG)
    lines = []
    for command in _COMMANDS:
        results = {output: run(*command, "-o", output) for output in ("table", "json", "yaml")}
        as_json, as_yaml = results["json"], results["yaml"]
        assert json.loads(as_json.stdout) == yaml.safe_load(as_yaml.stdout)
        assert (as_json.stderr, as_json.exit_code) == (as_yaml.stderr, as_yaml.exit_code)
        for output, result in results.items():
            # One command shows the form of YAML.
            if output != "yaml" or command == ("lag",):
                lines.append(f"$ mirror-ray {' '.join(command)} -o {output}")
                lines += [line.rstrip() for line in result.stdout.splitlines()]
                lines += [f"stderr: {line}" for line in result.stderr.splitlines()]
                lines.append(f"exit {result.exit_code}\n")
    validated = run("validate", path, "-o", "json")
    lines.append(f"$ mirror-ray validate CONFIG -o json\n{validated.stdout}exit {validated.exit_code}")
    _check("output.txt", "\n".join(lines) + "\n")
