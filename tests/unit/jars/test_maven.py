"""Where jars lie, and what is said when they can't be had."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from mirror_ray.jars import maven
from mirror_ray.jars.maven import cache_dir, ensure_jars
from mirror_ray.model.errors import MirrorError


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(tmp_path / "cache"))
    maven.java_command.cache_clear()
    yield
    maven.java_command.cache_clear()


def _pom(bundle: str) -> bytes:
    return resources.files("mirror_ray.jars").joinpath("poms", f"{bundle}.xml").read_bytes()


def _kept() -> list[Path]:
    return [path for path in cache_dir().iterdir() if path.is_dir()]


def _maven(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a mvn of that script, and a java that is new enough, before all others."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, lines in {"mvn": script, "java": "echo 'version \"17.0.1\"' >&2"}.items():
        program = programs / name
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)


def test_the_environment_names_the_cache_directory(tmp_path: Path) -> None:
    """MIRROR_RAY_CACHE goes before all else."""
    assert cache_dir() == tmp_path / "cache"


def test_the_cache_directory_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without MIRROR_RAY_CACHE the directory is mirror-ray in XDG_CACHE_HOME."""
    monkeypatch.delenv("MIRROR_RAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "mirror-ray"


def test_jars_that_are_there_need_no_maven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that exists is whole, so nothing is run; another pom has another directory."""
    monkeypatch.setenv("PATH", "")
    there = cache_dir() / f"{maven.KAFKA}-{hashlib.sha256(_pom(maven.KAFKA)).hexdigest()[:8]}"
    there.mkdir(parents=True)
    assert ensure_jars() == there
    with pytest.raises(MirrorError, match="no mvn in PATH"):
        ensure_jars(pom=b"<another/>")


def test_an_images_jars_are_used_from_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those below MIRROR_RAY_JARS, where nothing is written; what is not there is looked for as ever."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("MIRROR_RAY_JARS", str(tmp_path / "image"))
    there = tmp_path / "image" / f"{maven.KAFKA}-{hashlib.sha256(_pom(maven.KAFKA)).hexdigest()[:8]}"
    there.mkdir(parents=True)
    assert ensure_jars() == there
    assert not cache_dir().exists()
    with pytest.raises(MirrorError, match=f"are not in {cache_dir()}"):
        ensure_jars(pom=b"<another/>")
    assert list((tmp_path / "image").iterdir()) == [there]


def test_missing_maven_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names mvn and how to install it, and leaves nothing half-made."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MirrorError, match=r"no mvn in PATH.*apt-get install maven.*brew install maven"):
        ensure_jars()
    assert not list(cache_dir().glob("*.jar"))


def test_missing_java_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names java and how to install it."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    maven.java_command.cache_clear()
    with pytest.raises(MirrorError, match=r"no java in PATH.*apt-get install openjdk-17"):
        maven.java_command()


def test_a_maven_that_fails_leaves_no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven's own words are in the error, and the directory does not appear."""
    _maven("echo no route to the registry; exit 1", tmp_path, monkeypatch)
    with pytest.raises(MirrorError, match="no route to the registry"):
        ensure_jars()
    assert _kept() == []


_WRITES = """for each in "$@"; do case "$each" in -DoutputDirectory=*) to="${each#*=}";; esac; done; mkdir -p "$to"; """


def test_jars_that_are_other_ones_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that was broken into: the file is named, with both checksums, and nothing of it is kept."""
    one = (maven.listed_jars(maven.SPARK) or [])[0].file
    _maven(f"""{_WRITES} echo evil > "$to/{one}"; echo more > "$to/evil-1.jar" """, tmp_path, monkeypatch)
    with pytest.raises(MirrorError, match=r"(?s)other jars than those of spark.*settings\.xml") as refused:
        ensure_jars(maven.SPARK)
    assert f"{one} is another one: SHA-256 " in str(refused.value)
    assert "evil-1.jar is not in the list" in str(refused.value)
    assert _kept() == []


def test_jars_of_somebody_elses_pom_are_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tests' earlier versions of Kafka there are no lists."""
    _maven(f"""{_WRITES} echo old > "$to/old-1.jar" """, tmp_path, monkeypatch)
    assert [jar.name for jar in ensure_jars("kafka-0.1", pom=b"<old/>").iterdir()] == ["old-1.jar"]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"a.jar": "1", "b.jar": "2"}, []),
        ({"a.jar": "1"}, ["b.jar is missing"]),
        ({"a.jar": "1", "b.jar": "2", "c.jar": "3"}, ["c.jar is not in the list"]),
        ({"a.jar": "1", "b.jar": "9"}, ["b.jar is another one: SHA-256 9 instead of 2"]),
    ],
)
def test_what_differs_is_said(found: dict[str, str], said: list[str]) -> None:
    """One phrase for each jar."""
    listed = [maven.Jar(file, digest, "org") for file, digest in (("a.jar", "1"), ("b.jar", "2"))]
    assert maven.jar_differences(found, listed) == said


@pytest.mark.parametrize("bundle", [maven.KAFKA, maven.SPARK])
def test_every_pom_has_its_list(bundle: str) -> None:
    """A digest for each jar; what a pom names itself is among them."""
    listed = maven.listed_jars(bundle) or []
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in listed)
    # Of what an imported BOM names, there need be nothing.
    text = re.sub(r"(?s)<dependencyManagement>.*</dependencyManagement>", "", _pom(bundle).decode())
    own = re.findall(r"<artifactId>(\S+)</artifactId>\s*<version>", text)[1:]
    assert own
    assert [name for name in own if not any(jar.file.startswith(f"{name}-") for jar in listed)] == []


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers need Java 17; the error says which was found."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    maven.java_command.cache_clear()
    with pytest.raises(MirrorError, match="is Java 11"):
        maven.java_command()
    maven.java_command.cache_clear()
