"""Every package, jar and crate of an installation: from locks, from the lists of jars, and from packages with jars."""

from __future__ import annotations

import re
import tomllib
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from packaging.markers import Marker

from mirror_ray.jars.maven import KAFKA, SPARK, listed_jars

ROOT = Path(__file__).parents[1]
#: The crate of the record kernel, and what its crates are brought by.
KERNEL = "kernel"
#: The image's platform: a lock is for every platform.
_IMAGE = {"sys_platform": "linux", "platform_python_implementation": "CPython", "implementation_name": "cpython"}
#: Packages that contain jars.
_WITH_JARS = ("pyspark", "raydp")
_PINNED = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)
_JAR = re.compile(r"(.+)-(\d+\.[\w.]*(?:-\w+)*|\d\w*)\.jar")


@dataclass(frozen=True)
class SupplyPart:
    """A package of PyPI, a jar of Maven's or a crate of Cargo's.

    ``group`` is a jar's, where it has one. ``sha256``, in hexadecimal, is set for jars that Maven fetches and for
    crates; the lock has the hashes of packages, and so of the jars in them. ``brought_by`` is the package or bundle of
    jars that contains it, or the kernel that is built from it.
    """

    ecosystem: Literal["pypi", "maven", "cargo"]
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
        return f"pkg:{'/'.join(filter(None, (self.ecosystem, self.group, self.name)))}@{quote(self.version)}"


@cache
def all_parts() -> tuple[SupplyPart, ...]:
    """The image's parts, without tools for tests and linting, and without Debian's packages."""
    lock = (ROOT / "requirements-runtime.lock").read_text()
    jars = chain(of_bundle(KAFKA), of_bundle(SPARK), *map(of_package, _WITH_JARS))
    return (*of_lock(lock), *jars, *of_crate(ROOT / KERNEL))


def of_lock(lock: str) -> list[SupplyPart]:
    """The packages that a lock puts into the image."""
    return [
        SupplyPart("pypi", "", name, version)
        for name, version, marker in _PINNED.findall(lock)
        if not marker or Marker(marker).evaluate(_IMAGE)
    ]


def of_crate(folder: Path, *, tests: bool = False) -> list[SupplyPart]:
    """The crates that a crate's lock has for building it, on whatever system; with ``tests``, for its tests too."""
    packages: list[dict[str, Any]] = tomllib.loads((folder / "Cargo.lock").read_text())["package"]
    wanted = set(tomllib.loads((folder / "Cargo.toml").read_text())["dependencies"])
    [own] = [package for package in packages if "source" not in package]
    # A dependency's version is named where the lock has several.
    by_name = {name: found for found in packages for name in (found["name"], f"{found['name']} {found['version']}")}
    open_ones = [name for name in own["dependencies"] if tests or name.partition(" ")[0] in wanted]
    parts: dict[str, SupplyPart] = {}
    while open_ones:
        found = by_name[open_ones.pop()]
        part = SupplyPart("cargo", "", found["name"], found["version"], found["checksum"], brought_by=KERNEL)
        if part.purl not in parts:
            parts[part.purl] = part
            open_ones += found.get("dependencies", ())
    return sorted(parts.values(), key=lambda part: part.purl)


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
