"""What a trail keeps, what it loses, and what it says of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror_ray.config.settings import AuditSettings
from mirror_ray.kafka import audit_logs
from mirror_ray.kafka.audit_log import recorded, recorded_async
from mirror_ray.kafka.audit_logs import KafkaAuditLog
from mirror_ray.kafka.audit_topics import AuditWriter
from mirror_ray.model.audit import AuditEntry, AuditPrincipal
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError

_WHO = AuditPrincipal(system="mirror", component="test")


class _Writer:
    """Writes into a list, unless it is down."""

    timeout_s = 0.2

    def __init__(self) -> None:
        self.written: list[AuditEntry] = []
        self.down = threading.Event()

    def write(self, entries: Sequence[AuditEntry]) -> None:
        if self.down.is_set():
            raise ClusterUnreachableError("cluster B does not answer")
        self.written += entries

    def close(self) -> None:
        """Nothing."""


def _trail(writer: _Writer, **settings: Any) -> KafkaAuditLog:
    return KafkaAuditLog(cast("AuditWriter", writer), AuditSettings(**settings), "A->B", _WHO)


def _change(number: int = 1) -> ClusterChange:
    return ClusterChange(kind="create_topic", cluster="B", subject=f"topic {number}", after="1 partitions")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_logs, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(audit_logs, "_LAST_PAUSE_S", 0.02)


def test_outcomes_are_told_apart() -> None:
    """Done, refused, of unknown outcome; and what was so already is not told."""
    writer = _Writer()
    trail = _trail(writer)
    outcomes: dict[int, MirrorError | None] = {
        1: None,
        2: MirrorError("no"),
        3: ClusterUnreachableError("gone"),
        4: MirrorError("there"),
    }
    changes = {number: _change(number) for number in outcomes}
    assert recorded(trail, changes, lambda: outcomes, lambda error: str(error) == "there") == outcomes
    with pytest.raises(ZeroDivisionError):
        recorded(trail, {5: _change(5)}, lambda: {5: 1 / 0})  # type: ignore[dict-item]  # it fails before
    assert trail.flush(5.0)
    assert [(entry.subject, entry.outcome, entry.error) for entry in writer.written] == [
        ("topic 1", "done", None),
        ("topic 2", "refused", "no"),
        ("topic 3", "unknown", "gone"),
        ("topic 5", "unknown", "division by zero"),
    ]


async def test_required_writes_the_intention_first() -> None:
    """Under the same id as what came of it."""
    writer = _Writer()
    trail = _trail(writer, required=True)

    async def act() -> dict[int, MirrorError | None]:
        assert [entry.outcome for entry in writer.written] == ["intended"]
        return {1: None}

    await recorded_async(trail, {1: _change()}, act)
    assert trail.flush(5.0)
    intended, done = writer.written
    assert (intended.id, done.outcome) == (done.id, "done")


def test_required_and_down_changes_nothing() -> None:
    """And leaves no intention behind that would be written later."""
    writer = _Writer()
    writer.down.set()
    trail = _trail(writer, required=True)
    with pytest.raises(MirrorError, match=r"nothing was changed, for audit\.required"):
        recorded(trail, {1: _change()}, lambda: pytest.fail("it was changed"))
    writer.down.clear()
    assert trail.flush(5.0)
    time.sleep(0.1)
    assert not writer.written


def test_required_and_full_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no room is not waited for in vain."""
    monkeypatch.setattr(audit_logs, "_MOST_WAITING", 1)
    writer = _Writer()
    trail = _trail(writer, required=True)
    with pytest.raises(MirrorError, match=r"nothing was changed"):
        recorded(trail, {1: _change(1), 2: _change(2)}, lambda: pytest.fail("it was changed"))
    assert trail.lost == 0


def test_what_waits_is_bounded_and_what_is_lost_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the log can be written again, the rest is; what was lost stays a problem."""
    monkeypatch.setattr(audit_logs, "_MOST_WAITING", 3)
    writer = _Writer()
    writer.down.set()
    trail = _trail(writer)
    for number in range(5):
        recorded(trail, {number: _change(number)}, lambda number=number: {number: None})  # type: ignore[misc]
    assert not trail.flush(0.1)
    assert "does not answer" in (trail.problem or "")
    writer.down.clear()
    assert trail.flush(5.0)
    assert [entry.subject for entry in writer.written] == ["topic 0", "topic 1", "topic 2"]
    assert trail.lost == 2
    assert "not in the audit log" in (trail.problem or "")


def test_the_same_refusal_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again after an hour, with another reason, or once it worked in between."""
    writer = _Writer()
    trail = _trail(writer)
    clock = SimpleNamespace(now_s=1_000_000.0)
    monkeypatch.setattr(time, "time", lambda: clock.now_s)

    def refuse(why: str | None) -> None:
        recorded(trail, {1: _change()}, lambda: {1: None if why is None else MirrorError(why)})

    for why in ("no", "no", "never", "never", None, "never"):
        refuse(why)
    clock.now_s += 3601
    refuse("never")
    assert trail.flush(5.0)
    assert [entry.error for entry in writer.written] == ["no", "never", None, "never", "never"]
