"""Where jars lie, and what is said when they can't be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_ray.devcluster import cache_dir, ensure_jars, jars
from mirror_ray.model.errors import MirrorError


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(tmp_path / "cache"))


def test_the_environment_names_the_cache_directory(tmp_path: Path) -> None:
    """MIRROR_RAY_CACHE goes before all else."""
    assert cache_dir() == tmp_path / "cache"


def test_the_cache_directory_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without MIRROR_RAY_CACHE the directory is mirror-ray in XDG_CACHE_HOME."""
    monkeypatch.delenv("MIRROR_RAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "mirror-ray"


def test_jars_that_are_there_need_no_maven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that exists is whole, so nothing is run."""
    (cache_dir() / jars.KAFKA).mkdir(parents=True)
    monkeypatch.setenv("PATH", "")
    assert ensure_jars() == cache_dir() / jars.KAFKA


def test_missing_maven_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names mvn and how to install it, and leaves nothing half-made."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MirrorError, match=r"no mvn in PATH.*apt-get install maven.*brew install maven"):
        ensure_jars()
    assert not (cache_dir() / jars.KAFKA).exists()


def test_missing_java_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names java and how to install it."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jars.java_command.cache_clear()
    with pytest.raises(MirrorError, match=r"no java in PATH.*apt-get install openjdk-17"):
        jars.java_command()


def test_a_maven_that_fails_leaves_no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven's own words are in the error, and the directory does not appear."""
    for name, script in {
        "mvn": "echo no route to the registry; exit 1",
        "java": "echo 'version \"17.0.1\"' >&2",
    }.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jars.java_command.cache_clear()
    with pytest.raises(MirrorError, match="no route to the registry"):
        ensure_jars()
    jars.java_command.cache_clear()
    assert not (cache_dir() / jars.KAFKA).exists()


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers need Java 17; the error says which was found."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    jars.java_command.cache_clear()
    with pytest.raises(MirrorError, match="is Java 11"):
        jars.java_command()
    jars.java_command.cache_clear()
