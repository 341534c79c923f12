"""The report of an image says of what it is, and what was measured."""

from __future__ import annotations

import pytest

from supply.image.report import Trial, markdown, measured, parts, versions
from supply.image.tools import BuiltImage

_OUTPUT = """\
mirror-ray 0.1.0
measured first_command_ms 1234
measured command_ms 300
ray, version 2.60.0
openjdk version "17.0.15" 2025-04-15
Debian 12.13
measured packages 120
measured healthy_ms 9000
measured stopped_ms 2000
measured tmp_bytes 5000000
all copied
"""
_PACKAGES = "/opt/mirror-ray/lib/python3.11/site-packages"


@pytest.fixture
def trial() -> Trial:
    """An image of two files, that was run."""
    return Trial(
        date="2026-11-27",
        tool="buildah",
        image=BuiltImage(digest="sha256:ab", environment=[], entrypoint=[], health=[], layers=4),
        output=_OUTPUT,
        sizes={f"{_PACKAGES}/ray/core": 3_000_000, "/usr/bin/python3": 1_000_000},
        compressed_bytes=2_000_000,
        cores=2,
        memory_bytes=24 << 30,
        kernel="6.18",
    )


def test_a_file_counts_where_it_belongs() -> None:
    """To the part with the longest path; the largest part comes first, and one without files has none."""
    found = parts({f"{_PACKAGES}/rayon/a": 1, f"{_PACKAGES}/ray/a": 5, "/usr/lib/jvm/java": 7, "/etc/passwd": 2})
    assert {part: size for part, size in found.items() if size} == {
        "Java 17": 7,
        "Ray": 5,
        "Debian, with Python": 2,
        "other Python packages": 1,
    }
    assert next(iter(found)) == "Java 17"


def test_figures_and_versions_are_what_was_printed() -> None:
    """By their names; of the rest nothing is taken for a figure."""
    assert measured(f"{_OUTPUT}not measured x 1\nmeasured y none\n")["healthy_ms"] == 9000
    assert set(measured("not measured x 1\nmeasured y none\n")) == set()
    assert versions(_OUTPUT) == ["mirror-ray 0.1.0", "ray, version 2.60.0", 'openjdk version "17.0.15"', "Debian 12.13"]


def test_the_report_says_how_it_was_made(trial: Trial) -> None:
    """Command, day, machine, digest, sizes, times, and what ran; figures are in their tables alone."""
    text = markdown(trial)
    for said in (
        "make image-demo",
        "2026-11-27",
        "2 cores with 24 GiB",
        "sha256:ab",
        "2 MB compressed",
        "4 MB unpacked",
    ):
        assert said in text
    assert "| `mirror-ray --version`, again | 0.30 |" in text
    assert "    all copied" in text
    assert "    measured" not in text
