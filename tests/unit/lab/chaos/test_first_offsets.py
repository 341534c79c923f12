"""A log of the laboratory that is to begin at another offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_ray.lab.chaos.first_offsets import begin_log
from mirror_ray.model.errors import MirrorError


def _log(directory: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (directory / name).touch()


def test_the_files_of_an_empty_segment_are_named_by_its_first_offset(tmp_path: Path) -> None:
    """What else is in the directory stays."""
    zero = "00000000000000000000"
    _log(tmp_path, (f"{zero}.log", f"{zero}.index", f"{zero}.timeindex", "partition.metadata"))
    begin_log(tmp_path, 3_000_000_000)
    first = "00000000003000000000"
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{first}.log",
        f"{first}.index",
        f"{first}.timeindex",
        "partition.metadata",
    }


@pytest.mark.parametrize("names", [(), ("00000000000000000007.log",), ("00000000000000000000.log", "7.log")])
def test_another_log_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    """One without a segment, one that begins elsewhere, one of several segments; nothing is renamed."""
    _log(tmp_path, names)
    with pytest.raises(MirrorError, match="not the log of a new topic"):
        begin_log(tmp_path, 1_000_000)
    assert {path.name for path in tmp_path.iterdir()} == set(names)


def test_a_log_with_records_is_refused(tmp_path: Path) -> None:
    """They would be found at other offsets."""
    (tmp_path / "00000000000000000000.log").write_bytes(b"records")
    with pytest.raises(MirrorError, match="not the log of a new topic"):
        begin_log(tmp_path, 1_000_000)
