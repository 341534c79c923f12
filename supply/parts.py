"""Every package and jar of an installation: from the lock, from the lists of jars, and from packages with jars."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Literal

from packaging.markers import Marker

from mirror_ray.jars.maven import KAFKA, SPARK, listed_jars

ROOT = Path(__file__).parents[1]
#: The image's platform: a lock is for every platform.
_IMAGE = {"sys_platform": "linux", "platform_python_implementation": "CPython", "implementation_name": "cpython"}
#: Packages that contain jars.
_WITH_JARS = ("pyspark", "raydp")
_PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)
_JAR = re.compile(r"(.+)-(\d+\.[\w.]*(?:-\w+)*|\d\w*)\.jar")


@dataclass(frozen=True)
class SupplyPart:
    """A package of PyPI or a jar of Maven's.

    ``group`` is empty for PyPI, and for a jar without one. ``sha256``, in hexadecimal, is set for jars that Maven
    fetches; the lock has the hashes of packages, and so of the jars in them. ``brought_by`` is the package or bundle of
    jars that contains it.
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
    """The image's parts, without tools for tests and linting, and without Debian's packages."""
    lock = (ROOT / "requirements-runtime.lock").read_text()
    return (*of_lock(lock), *of_bundle(KAFKA), *of_bundle(SPARK), *chain.from_iterable(map(of_package, _WITH_JARS)))


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


def of_package(package: str) -> list[SupplyPart]:
    """The jars in an installed package of Python."""
    directory = Path(str(resources.files(package).joinpath("jars")))
    parts = []
    for jar in directory.glob("*.jar"):
        name, version = _name_and_version(jar.name)
        parts.append(SupplyPart("maven", _group(jar, name), name, version, brought_by=package))
    return sorted(parts, key=lambda part: part.name)


def _name_and_version(file: str) -> tuple[str, str]:
    matched = _JAR.fullmatch(file)
    return (matched[1], matched[2]) if matched else (file.removesuffix(".jar"), "")


def _group(jar: Path, name: str) -> str:
    """The jar's group by the ``pom.properties`` that Maven writes into it; empty without one."""
    with zipfile.ZipFile(jar) as opened:
        own = re.compile(rf"META-INF/maven/([^/]+)/{re.escape(name)}/pom\.properties")
        return next((found[1] for found in map(own.fullmatch, opened.namelist()) if found), "")
