"""Every package and jar of an installation: from the lock, from the lists of jars, and from what packages bring."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from packaging.markers import Marker

from mirror_ray.jars.maven import KAFKA, SPARK, listed_jars

ROOT = Path(__file__).parents[1]
#: Of the image: a lock is for every platform.
_IMAGE = {"sys_platform": "linux", "platform_python_implementation": "CPython", "implementation_name": "cpython"}
#: Packages that have jars in them, and where.
_WITH_JARS = ("pyspark", "raydp")
_PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)
_JAR = re.compile(r"(.+)-(\d+\.[\w.]*(?:-\w+)*|\d\w*)\.jar")


@dataclass(frozen=True)
class SupplyPart:
    """A package of PyPI or a jar of Maven's.

    ``group`` is empty for PyPI, and where a jar does not say it. ``sha256``, in hexadecimal, is that of a jar that
    Maven fetches; the lock has those of packages, and so of the jars in them. ``brought_by``: the package or the
    bundle of jars that it is in.
    """

    ecosystem: Literal["pypi", "maven"]
    group: str
    name: str
    version: str
    sha256: str = ""
    brought_by: str = ""

    @property
    def purl(self) -> str:
        """Its package URL."""
        if self.ecosystem == "maven" and not self.group:
            return f"pkg:generic/{self.name}@{self.version}"
        return f"pkg:{'/'.join(filter(None, (self.ecosystem, self.group, self.name)))}@{self.version}"


@cache
def all_parts() -> tuple[SupplyPart, ...]:
    """Of the image: without what tests and linters need, and without Debian's packages."""
    lock = (ROOT / "requirements-runtime.lock").read_text()
    return (
        *of_lock(lock),
        *of_bundle(KAFKA),
        *of_bundle(SPARK),
        *(each for name in _WITH_JARS for each in within(name)),
    )


def of_lock(lock: str) -> list[SupplyPart]:
    """The packages that a lock puts into the image."""
    return [
        SupplyPart("pypi", "", name, version)
        for name, version, marker in _PINNED.findall(lock)
        if not marker or Marker(marker).evaluate(_IMAGE)
    ]


def of_bundle(bundle: str) -> list[SupplyPart]:
    """The jars that Maven fetches for one of our poms."""
    return [
        SupplyPart("maven", jar.group, *_name_and_version(jar.file), sha256=jar.sha256, brought_by=bundle)
        for jar in listed_jars(bundle) or ()
    ]


def within(package: str) -> list[SupplyPart]:
    """The jars in an installed package of Python."""
    directory = Path(str(resources.files(package).joinpath("jars")))
    return sorted(_within(package, directory), key=lambda part: part.name)


def _within(package: str, directory: Path) -> Iterator[SupplyPart]:
    for jar in directory.glob("*.jar"):
        name, version = _name_and_version(jar.name)
        yield SupplyPart("maven", _group(jar, name), name, version, brought_by=package)


def _name_and_version(file: str) -> tuple[str, str]:
    matched = _JAR.fullmatch(file)
    return (matched[1], matched[2]) if matched else (file.removesuffix(".jar"), "")


def _group(jar: Path, name: str) -> str:
    """What the jar says of itself in the file that Maven leaves in it; empty if it doesn't."""
    with zipfile.ZipFile(jar) as opened:
        own = re.compile(rf"META-INF/maven/([^/]+)/{re.escape(name)}/pom\.properties")
        return next((found[1] for found in map(own.fullmatch, opened.namelist()) if found), "")
