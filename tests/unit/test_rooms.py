"""The table of rooms in docs/architecture.md is what the folders are, and imports go to lower layers only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs/architecture.md"
_ROW = re.compile(r"^\| (\d+) \| `([\w.]+)` \|", re.MULTILINE)
_LAYERS = {room: int(layer) for layer, room in _ROW.findall(_PAGE.read_text(encoding="utf-8"))}
_DOCUMENTS = [_ROOT / "README.md", *(_ROOT / "docs").rglob("*.md")]
_FILE = re.compile(r"\b((?:mirror_ray|actors|tests)/[\w/]+\.py)\b")


def _room(module: str) -> str:
    return next((room for room in _LAYERS if module == room or module.startswith(f"{room}.")), "")


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_room_is_in_the_table() -> None:
    """And no other: a newcomer finds the room of a change there."""
    rooms = {f"mirror_ray.{path.parent.name}" for path in _ROOT.glob("mirror_ray/*/__init__.py")}
    assert set(_LAYERS) == rooms | {"actors"}


def test_rooms_import_lower_layers_only() -> None:
    """Neither circles nor imports that run back up."""
    wrong = set()
    for path in [*_ROOT.glob("mirror_ray/*/**/*.py"), *_ROOT.glob("actors/*.py")]:
        room = _room(".".join(path.relative_to(_ROOT).with_suffix("").parts))
        for module in _imports(path):
            imported = _room(module)
            if imported not in ("", room) and _LAYERS[imported] >= _LAYERS[room]:
                wrong.add(f"{room} -> {imported} ({path.name})")
    assert wrong == set()


def test_the_files_that_documents_name_exist() -> None:
    """Of the product, and tests that hold a guarantee."""
    named = {(page.name, name) for page in _DOCUMENTS for name in _FILE.findall(page.read_text(encoding="utf-8"))}
    assert {(page, name) for page, name in named if not (_ROOT / name).is_file()} == set()
