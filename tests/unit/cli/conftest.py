"""Commands run in this process, with a fake in the place of Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mirror_ray import runtime
from mirror_ray.cli import up
from mirror_ray.cli.app import app
from mirror_ray.kafka.audit_topics import AuditWriter
from mirror_ray.model.audit import AuditEntry
from tests.unit.cli.fakes import CONFIG, FakeCoordinator


@pytest.fixture(autouse=True)
def audit_log(monkeypatch: pytest.MonkeyPatch) -> list[AuditEntry]:
    """What commands keep in the audit log; its cluster would be waited for, and there is none."""
    written: list[AuditEntry] = []
    monkeypatch.setattr(AuditWriter, "write", lambda _, entries: written.extend(entries))
    return written


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> FakeCoordinator:
    """The system that every command finds or starts."""
    fake = FakeCoordinator()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(runtime, "attach", lambda _name, _address: fake.system())
    monkeypatch.setattr(runtime, "start", fake.start)
    return fake


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration whose clusters are taken as reachable."""
    monkeypatch.setattr(up, "check_clusters", lambda _settings: None)
    path = tmp_path / "mm2.properties"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def run() -> Callable[..., Any]:
    """Run a command line; the result has ``exit_code``, ``stdout`` and ``stderr``."""
    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])
