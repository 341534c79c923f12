"""Jars from Maven, named by a pom in this package, kept in the user's cache directory.

Each jar of a pom is listed beside it with its SHA-256, and compared before it is used. After a change of a pom the list
is written anew by ``python -m mirror_ray.jars``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from mirror_ray.model.errors import MirrorError
from mirror_ray.private import home
from mirror_ray.writing import writing

KAFKA = "kafka-4.3.0"
SPARK = "spark-3.5.7"
MINIMUM_JAVA = 17

# Pinned: without a version Maven takes whichever is newest, or the one that its own release happens to name.
_COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
#: -C: a transfer whose checksum differs from the repository's fails, that of Maven's own plugin, too.
_FLAGS = ("-q", "-B", "-C")


def cache_dir() -> Path:
    """Where jars and clusters are kept: ``MIRROR_RAY_CACHE``, else ``mirror-ray`` in the user's cache directory.

    Raises:
        ConfigError: Neither is set, and the user has no home directory.
    """
    override = os.environ.get("MIRROR_RAY_CACHE")
    if override:
        return _expanded(override)
    named = os.environ.get("XDG_CACHE_HOME")
    return (_expanded(named) if named else home("MIRROR_RAY_CACHE").absolute() / ".cache") / "mirror-ray"


def _expanded(path: str) -> Path:
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111 - the name of a user that does not exist stays in the path


def ensure_jars(bundle: str = KAFKA, *, pom: bytes | None = None) -> Path:
    """Directory with the jars of ``poms/{bundle}.xml``; fetched by Maven the first time, at once afterwards.

    The directory appears whole or not at all, and two processes that ask at the same time fetch once. Jars of this
    package's poms are compared with their listed SHA-256; those below ``MIRROR_RAY_JARS``, where an image may have
    them, were when it was made. ``pom``: used where this package has no pom of that name.

    Raises:
        MirrorError: Maven is missing, or failed, or fetched other jars; the text says what to do.
    """
    content = _pom(bundle) if pom is None else pom
    # Another pom, other jars: those of an earlier version stay where a broker may be running from them.
    name = f"{bundle}-{hashlib.sha256(content).hexdigest()[:8]}"
    target = cache_dir() / name
    for directory in (Path(os.environ.get("MIRROR_RAY_JARS") or target.parent) / name, target):
        if directory.is_dir():
            return directory
    with locked(target.with_name(f".{bundle}.lock")):
        if not target.is_dir():
            with fetched(bundle, content) as jars:
                _check(bundle, jars)
                jars.rename(target)
    return target


@cache
def java_command() -> str:
    """The ``java`` to run, from ``JAVA_HOME`` or PATH.

    Raises:
        MirrorError: There is none, or it is older than Kafka's brokers need.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME ({home})" if home else "PATH"
        raise MirrorError(f"no java in {where}: {_remedy('openjdk-17-jdk-headless', 'openjdk@17')}")
    version = subprocess.run(  # noqa: S603 - the user's own java, by JAVA_HOME or PATH
        [java, "-version"], capture_output=True, text=True, check=False
    ).stderr
    match = re.search(r'version "(\d+)', version)
    if match is None or int(match[1]) < MINIMUM_JAVA:
        found = match[1] if match else "an unknown version"
        raise MirrorError(
            f"{java} is Java {found}, Kafka and Spark need {MINIMUM_JAVA} or newer: "
            f"{_remedy('openjdk-17-jdk-headless', 'openjdk@17')}, or set JAVA_HOME"
        )
    return java


def kafka_program(main_class: str, *jvm_options: str, jars: Path | None = None) -> list[str]:
    """The command that runs one of Kafka's own classes, with our log4j2 configuration; its arguments go behind.

    ``jars``: another version's than ``ensure_jars`` gives.

    Raises:
        MirrorError: As `java_command` and `ensure_jars` do.
    """
    log4j = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
    return [java_command(), *jvm_options, log4j, "-cp", f"{jars or ensure_jars()}/*", main_class]


@contextmanager
def fetched(bundle: str, pom: bytes | None = None, options: Sequence[str] = ()) -> Iterator[Path]:
    """A directory below `cache_dir` with the jars that Maven fetches now, unchecked; deleted at the end.

    ``pom``: used in place of this package's pom of that name. ``options``: of Maven, beside ours.

    Raises:
        MirrorError: Maven is missing, or failed; the text says what to do.
    """
    with tempfile.TemporaryDirectory(prefix=f".{bundle}-", dir=cache_dir()) as scratch:
        jars = Path(scratch) / "jars"
        # Maven writes beside the pom; the package's own directory may be read-only.
        pom_file = Path(scratch) / "pom.xml"
        pom_file.write_bytes(_pom(bundle) if pom is None else pom)
        what = f"the jars of {bundle}"
        text = run_maven(what, "-f", str(pom_file), _COPY_DEPENDENCIES, f"-DoutputDirectory={jars}", *options)
        if not any(jars.glob("*.jar")):
            raise MirrorError(f"Maven fetched no jar for {what}:\n{text}")
        yield jars


def run_maven(what: str, *arguments: str) -> str:
    """Let Maven fetch ``what`` ("the jars of ..."), with our flags before ``arguments``.

    Returns:
        The end of what Maven wrote.

    Raises:
        MirrorError: Maven or Java is missing, or Maven failed; the text says what to do.
    """
    mvn = shutil.which("mvn")
    if mvn is None:
        raise MirrorError(f"no mvn in PATH, and {what} are not in {cache_dir()}: {_remedy('maven', 'maven')}")
    java_command()
    done = subprocess.run(  # noqa: S603 - the user's own mvn, by PATH, on arguments of ours
        [mvn, *_FLAGS, *arguments], capture_output=True, text=True, check=False
    )
    text = (done.stdout + done.stderr).strip()[-2000:]
    if done.returncode != 0:
        raise MirrorError(
            f"Maven could not fetch {what}; check the network and Maven's settings.xml, try again:\n{text}"
        )
    return text


@dataclass(frozen=True)
class Jar:
    """A jar of a pom, as it was when the pom was written: its file, its SHA-256 in hexadecimal, its group in Maven."""

    file: str
    sha256: str
    group: str


def listed_jars(bundle: str) -> list[Jar] | None:
    """The jars of a bundle, as they were when its pom was written; None where this package has no list for it."""
    listed = resources.files("mirror_ray.jars").joinpath("poms", f"{bundle}.jars")
    if not listed.is_file():
        return None
    return [Jar(file, digest, group) for digest, file, group in map(str.split, listed.read_text().splitlines())]


def checksums_of(directory: Path) -> dict[str, str]:
    """SHA-256 in hexadecimal of each jar in a directory, by its name."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(directory.glob("*.jar"))}


def jar_differences(found: dict[str, str], listed: list[Jar]) -> list[str]:
    """What is wrong with the jars that were fetched, a phrase each: changed, unknown, or not there."""
    expected = {jar.file: jar.sha256 for jar in listed}
    wrong = [f"{name} is not in the list" for name in sorted(found.keys() - expected.keys())]
    wrong += [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    return wrong + [
        f"{name} is another one: SHA-256 {found[name]} instead of {expected[name]}"
        for name in sorted(found.keys() & expected.keys())
        if found[name] != expected[name]
    ]


def _pom(bundle: str) -> bytes:
    return resources.files("mirror_ray.jars").joinpath("poms", f"{bundle}.xml").read_bytes()


def _check(bundle: str, jars: Path) -> None:
    expected = listed_jars(bundle)
    wrong = jar_differences(checksums_of(jars), expected) if expected is not None else []
    if wrong:
        raise MirrorError(
            f"Maven fetched other jars than those of {bundle} that mirror-ray was tested with; none is used. "
            "Look at the repository or mirror in Maven's settings.xml, "
            f"and at {Path.home() / '.m2/repository'}: {'; '.join(wrong)}"
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, which one process at a time has; the file and its directory are made where they are not."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remedy(debian: str, homebrew: str) -> str:
    return f"apt-get install {debian} (Debian, Ubuntu) or brew install {homebrew} (macOS)"
