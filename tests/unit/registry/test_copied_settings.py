"""Which modes of the source's registry the target's gets."""

from __future__ import annotations

import pytest

from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.global_settings import global_mode
from mirror_ray.registry.registry import Mode
from mirror_ray.registry.subject_settings import ModeChange, mode_change


@pytest.mark.parametrize(
    ("source", "target", "becomes"),
    [
        ("READONLY", None, ModeChange("READONLY")),
        ("READONLY_OVERRIDE", "READONLY", ModeChange("READONLY_OVERRIDE")),
        ("READONLY", "READWRITE", ModeChange("READONLY")),
        ("READONLY", "READONLY", None),
        (None, "READONLY", ModeChange(None)),
        ("READWRITE", "READONLY", ModeChange(None)),
        ("IMPORT", "READONLY", ModeChange(None)),
        (None, None, None),
        (None, "READWRITE", None),
        ("IMPORT", None, None),
        ("FORWARD", None, None),
        # Somebody else imports there.
        ("READONLY", "IMPORT", None),
        (None, "FORWARD", None),
    ],
)
def test_only_closed_modes_are_copied(source: Mode | None, target: Mode | None, becomes: ModeChange | None) -> None:
    """And are taken back; others on the target are left alone."""
    assert mode_change(source, target) == becomes


@pytest.mark.parametrize(
    ("source", "target", "way", "becomes"),
    [
        ("READWRITE", "READONLY", "translated", "READWRITE"),
        ("READWRITE", "READWRITE", "translated", None),
        ("READONLY", "READWRITE", "translated", None),
        ("READONLY", "READWRITE", "same", "READONLY"),
        ("READONLY_OVERRIDE", "READWRITE", "same", None),
        ("IMPORT", "READWRITE", "same", None),
        ("FORWARD", "READWRITE", "same", None),
        (None, "READONLY", "same", None),
    ],
)
def test_no_global_mode_stops_the_mirror(
    source: Mode | None, target: Mode | None, way: IdsWay, becomes: Mode | None
) -> None:
    """Under READONLY subjects in mode IMPORT go on, under READONLY_OVERRIDE none does."""
    assert global_mode(source, target, way) == becomes
