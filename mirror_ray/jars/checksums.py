"""The jars that a pom of ours comes to, each with its SHA-256: what Maven fetches is compared before it is used.

To write them anew after a change of a pom: ``python -m mirror_ray.jars``; then look at the diff.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path


@dataclass(frozen=True)
class Jar:
    """A jar that was known when its pom was written: its file, its SHA-256 in hexadecimal, its group in Maven."""

    file: str
    sha256: str
    group: str


def known(bundle: str) -> list[Jar] | None:
    """The jars of a bundle; None where this package has no list for it."""
    listed = resources.files("mirror_ray.jars").joinpath("poms", f"{bundle}.jars")
    if not listed.is_file():
        return None
    return [Jar(file, digest, group) for digest, file, group in map(str.split, listed.read_text().splitlines())]


def of_jars(directory: Path) -> dict[str, str]:
    """SHA-256 in hexadecimal of each jar in a directory, by its name."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(directory.glob("*.jar"))}


def differences(found: dict[str, str], listed: list[Jar]) -> list[str]:
    """What is wrong with the jars that were fetched, a phrase each: changed, unknown, or not there."""
    expected = {jar.file: jar.sha256 for jar in listed}
    wrong = [f"{name} is not in the list" for name in sorted(found.keys() - expected.keys())]
    wrong += [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    return wrong + [
        f"{name} is another one: SHA-256 {found[name]} instead of {expected[name]}"
        for name in sorted(found.keys() & expected.keys())
        if found[name] != expected[name]
    ]
