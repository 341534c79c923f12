"""Archives from Maven: whole and the right ones, or not there."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirror_ray.jars import maven
from mirror_ray.jars.archives import APICURIO, Archive, ensure_archive
from mirror_ray.jars.maven import cache_dir
from mirror_ray.model.errors import MirrorError


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(tmp_path / "cache"))
    maven.java_command.cache_clear()
    yield
    maven.java_command.cache_clear()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An archive, and a mvn that fetches it."""
    file = tmp_path / "served.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        member = tarfile.TarInfo("lib/one.jar")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"one"))
    programs = tmp_path / "bin"
    programs.mkdir()
    name = f"{APICURIO.artifact}-{APICURIO.version}-all.tar.gz"
    copies = (
        f"""for each in "$@"; do case "$each" in -DoutputDirectory=*) cp {file} "${{each#*=}}/{name}";; esac; done"""
    )
    for program, lines in {"mvn": copies, "java": "echo 'version \"17.0.1\"' >&2"}.items():
        path = programs / program
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return replace(APICURIO, sha256=hashlib.sha256(file.read_bytes()).hexdigest())


def test_an_archive_is_fetched_once(served: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies there unpacked, and nothing else does; without Maven it still does."""
    target = ensure_archive(served)
    assert (target / "lib/one.jar").read_bytes() == b"one"
    assert [path for path in cache_dir().iterdir() if path.is_dir()] == [target]
    monkeypatch.setenv("PATH", "")
    assert ensure_archive(served) == target


def test_another_archive_is_not_unpacked(served: Archive) -> None:
    """A mirror that was broken into: both checksums are named, and nothing is kept."""
    with pytest.raises(
        MirrorError, match=rf"(?s)Apicurio Registry 3\.0\.9.*{served.sha256} instead of {APICURIO.sha256}"
    ):
        ensure_archive(APICURIO)
    assert [path for path in cache_dir().iterdir() if path.is_dir()] == []


def test_missing_maven_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where jars are fetched."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MirrorError, match=r"no mvn in PATH, and the files of Apicurio.*apt-get install maven"):
        ensure_archive(APICURIO)
