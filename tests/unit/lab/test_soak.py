"""What a soak calls growth, and what its report says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mirror_ray.lab.soak.growth import growth
from mirror_ray.lab.soak.sampler import file_sizes, title_of
from mirror_ray.lab.soak.soak_report import SoakOutcome, soak_report

_EVERY_S = 10
_HOUR = range(0, 3600, _EVERY_S)


def test_a_leak_is_seen_through_noise_and_a_leap_is_none() -> None:
    """Of 1.7 MB a minute on 50 MB, and of what is taken once and kept."""
    noise = random.Random(1)
    leaking = growth("gcs_server", [(at, 50e6 + 1.7e6 * at / 60 + noise.uniform(0, 3e6)) for at in _HOUR])
    assert leaking.mb_per_hour == pytest.approx(102, rel=0.05)
    assert not leaking.flat
    spiked = growth("replicator", [(at, 80e6 + (40e6 if at % 600 == 0 else 0) + noise.uniform(0, 1e5)) for at in _HOUR])
    assert spiked.flat
    assert spiked.most_mb > 110


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["ray::mirror:replicator:1:Replicator.exchange"], "Replicator"),
        (["ray::Coordinator"], "Coordinator"),
        (["/x/ray/core/src/ray/gcs/gcs_server", "--log_dir=/x"], "gcs_server"),
        (["python", "-S", "-E", "/x/actors/lazy_agent.py", "0"], "agent"),
    ],
)
def test_processes_have_the_names_that_people_know(words: list[str], title: str) -> None:
    """By their command lines."""
    assert title_of(words) == title


def test_files_are_counted_by_kind(tmp_path: Path) -> None:
    """Of each process that there was Ray keeps some; their ids make no kind."""
    (tmp_path / "logs").mkdir()
    for pid in (4711, 4712):
        (tmp_path / f"logs/python-core-driver-01000000ffffffff_{pid}.log").write_text("12345")
    assert file_sizes(tmp_path) == {"logs/python-core-driver.log": (2, 10.0)}


def test_the_report_names_what_grows() -> None:
    """And says so first."""
    outcome = SoakOutcome(
        command="make soak",
        date="2026-01-01",
        machine="a machine",
        minutes=60,
        warm_up_minutes=10,
        rate=1000,
        memory=[growth("gcs_server", [(at, 50e6 + 1e4 * at) for at in _HOUR]), growth("raylet", [(0, 1e6), (9, 1e6)])],
        files=[],
        file_counts=(30, 31),
        copied="all copied",
        holds=True,
    )
    text = soak_report(outcome)
    assert "**GROWING: gcs_server by 36.0 MB/h; all records copied.**" in text
    assert "| raylet | 1.0 | 1.0 | 1.0 | 0.00 | flat |" in text
