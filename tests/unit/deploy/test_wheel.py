"""A wheel has the record kernel where there is Cargo to build it, and is made without it where there is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import hatch_build

_ROOT = Path(__file__).parents[3]
_RUST_VERSION = tomllib.loads((_ROOT / "kernel/Cargo.toml").read_text())["package"]["rust-version"]
_NO_CARGO = os.pathsep.join(
    folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "cargo").exists()
)


def _build(folder: Path, kind: str = "wheel", **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != hatch_build.OFF_VARIABLE}
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder],
        cwd=_ROOT,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def _is_available(wheel: Path, folder: Path) -> bool:
    """Asked of what the wheel holds, not of the sources here."""
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder)  # noqa: S202 - made by this test
    code = "from mirror_ray.records import kernel; print(kernel.__file__, kernel.is_available())"
    environment = {name: value for name, value in os.environ.items() if name != hatch_build.OFF_VARIABLE}
    file, available = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.split()
    assert Path(file).is_relative_to(folder)
    return available == "True"


def _cargo_that(does: str, folder: Path, version: str = "cargo 99.0.0 (of a test)") -> str:
    """A PATH with a cargo that tells its version, and otherwise does this."""
    cargo = folder / "cargo"
    cargo.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; else {does}; fi\n')
    cargo.chmod(0o755)
    return f"{folder}{os.pathsep}{_NO_CARGO}"


@pytest.mark.skipif(shutil.which("cargo") is None, reason="there is no Cargo")
@pytest.mark.skipif(not (_ROOT / "kernel/target").is_dir(), reason="make has not built the kernel: it takes minutes")
def test_a_wheel_has_the_kernel(tmp_path: Path) -> None:
    """For Python 3.11 and this kind of machine; what is built in it can be imported."""
    built = _build(tmp_path)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert re.search(r"-cp311-abi3-(linux|macosx)_\w+\.whl$", wheel.name)
    assert _is_available(wheel, tmp_path / "unpacked")


def test_a_wheel_is_made_without_cargo(tmp_path: Path) -> None:
    """For any machine; a kernel that lies among the sources stays out; it is said what is lost, and what helps."""
    built = _build(tmp_path, PATH=_NO_CARGO)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not _is_available(wheel, tmp_path / "unpacked")
    assert f"will not merge small batches: it needs Cargo {_RUST_VERSION} or newer, and there is none." in built.stderr
    assert "apt-get install" in built.stderr


def test_a_failing_build_fails_and_names_the_way_without(tmp_path: Path) -> None:
    """Nobody is to find out later that it was left out; who wants that says so."""
    failing = _cargo_that("exit 101", tmp_path)
    built = _build(tmp_path, PATH=failing)
    assert built.returncode != 0
    assert "MIRROR_RAY_NO_KERNEL=1 builds mirror-ray without it" in built.stderr
    assert not list(tmp_path.glob("*.whl"))
    without = _build(tmp_path, PATH=failing, MIRROR_RAY_NO_KERNEL="1")
    assert without.returncode == 0, without.stderr
    assert "MIRROR_RAY_NO_KERNEL is set" in without.stderr
    assert [wheel.name[-17:] for wheel in tmp_path.glob("*.whl")] == ["-py3-none-any.whl"]


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("cargo 1.63.0 (fd9c4297c 2022-07-01)", "and this is 1.63.0"),
        (f"cargo {_RUST_VERSION}.0", None),
        ("cargo 2.0.0-nightly (abc 2027-01-01)", None),
        ("error: no default toolchain", "and there is none"),
    ],
)
def test_a_cargo_has_to_be_new_enough(
    version: str, lacks: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As new as the crate says; rustup without a toolchain is none."""
    monkeypatch.setenv("PATH", _cargo_that("exit 101", tmp_path, version))
    monkeypatch.delenv(hatch_build.OFF_VARIABLE, raising=False)
    said = hatch_build.what_is_lacking()
    assert (said is None) if lacks is None else (said is not None and lacks in said)


def test_a_former_kernel_goes_where_none_can_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sources may have gone on since: it would not fit them."""
    monkeypatch.setattr(hatch_build, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", _NO_CARGO)
    former = tmp_path / hatch_build.MODULE
    former.parent.mkdir(parents=True)
    former.touch()
    hatch_build.main()
    assert not former.exists()
    assert "will not merge small batches" in capsys.readouterr().err


def test_the_sources_of_a_release_have_those_of_the_kernel(tmp_path: Path) -> None:
    """With its lock, and with what builds it; nothing that was built."""
    built = _build(tmp_path, "sdist")
    assert built.returncode == 0, built.stderr
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    sources = {path.relative_to(_ROOT).as_posix() for path in (_ROOT / "kernel/src").rglob("*.rs")}
    assert sources | {"hatch_build.py", "kernel/Cargo.toml", "kernel/Cargo.lock", "kernel/.cargo/config.toml"} <= names
    assert not [name for name in names if name.startswith("kernel/target")]


def test_what_it_needs_is_told_in_the_version_of_the_crate() -> None:
    """To whoever reads, too."""
    assert f"| Cargo | {_RUST_VERSION} or later" in (_ROOT / "docs/install.md").read_text()
    assert f"Cargo {_RUST_VERSION}" in (_ROOT / "README.md").read_text()
