"""One command of a Ray has Spark at a time."""

from __future__ import annotations

import pytest
from ray.exceptions import RayError

from mirror_ray.spark import lock


def _nobody(_name: str) -> None:
    raise ValueError


def test_spark_that_is_given_back_just_then_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray refuses the name, and knows nothing of it when it is asked who has it."""
    room, refusals = object(), [RayError("Failed to create placement group: name 'spark' already exists.")]

    def placement_group(*_: object, **__: object) -> object:
        if refusals:
            raise refusals.pop()
        return room

    monkeypatch.setattr(lock, "placement_group", placement_group)
    monkeypatch.setattr(lock, "get_placement_group", _nobody)
    monkeypatch.setattr(lock, "_get", lambda: "another command")
    monkeypatch.setattr(lock, "_put", lambda _holder: None)
    monkeypatch.setattr(lock, "_RETRY_S", 0.0)
    said: list[str] = []
    assert lock.reserve([{"CPU": 1.0}], "verify A->B", said.append) is room


def test_what_ray_refuses_for_another_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once."""

    def placement_group(*_: object, **__: object) -> object:
        raise RayError("no node")

    monkeypatch.setattr(lock, "placement_group", placement_group)
    monkeypatch.setattr(lock, "get_placement_group", _nobody)
    with pytest.raises(RayError, match="no node"):
        lock.reserve([{"CPU": 1.0}], "verify A->B", lambda _text: None)
