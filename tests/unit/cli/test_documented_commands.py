"""Whatever `mirror-ray …` the docs tell people to type, the command line takes."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from mirror_ray.cli.app import app

_ROOT = Path(__file__).parents[3]
_PAGES = sorted([_ROOT / "README.md", _ROOT / "deploy/README.md", *_ROOT.glob("docs/**/*.md")])
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")
#: A command at the beginning, or behind what runs it elsewhere.
_COMMAND = re.compile(r"(?:^|-- |mirror-ray:\S+ |/bin/)mirror-ray ([a-z].*)")
#: Stands for what is left out, or begins what is said of it.
_ENDS = re.compile(r"\s+(?:#.*|\.\.\..*|…|\[.*|\|.*|>.*|   .*)$")


def _commands(page: Path) -> list[str]:
    text = page.read_text()
    lines = [line for block in _BLOCK.findall(text) for line in block.splitlines()]
    found = [_COMMAND.search(line.strip()) for line in [*lines, *_INLINE.findall(_BLOCK.sub("", text))]]
    return [match[1] for match in found if match is not None]


@cache
def _root() -> Any:
    return typer.main.get_command(app)


def _unknown(line: str) -> str | None:
    """What of it does not exist."""
    command = _root()
    words = shlex.split(_ENDS.sub("", line))
    while words and hasattr(command, "commands"):
        name = words.pop(0)
        if name not in command.commands:
            return name
        command = command.commands[name]
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
    return next((word for word in words if re.match(r"-{1,2}[a-z]", word) and word not in known), None)


@pytest.mark.parametrize(
    "page", [page for page in _PAGES if _commands(page)], ids=lambda page: str(page.relative_to(_ROOT))
)
def test_every_command_on_it_exists(page: Path) -> None:
    """Its name, and each option."""
    assert {line: unknown for line in _commands(page) if (unknown := _unknown(line)) is not None} == {}


def test_there_are_many() -> None:
    """Else the pages are not read as they are written."""
    assert sum(len(_commands(page)) for page in _PAGES) > 100
