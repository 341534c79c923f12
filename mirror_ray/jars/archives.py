"""Programs that Maven has as one archive with all of their jars, kept unpacked in the user's cache directory."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirror_ray.jars.maven import cache_dir, locked, run_maven
from mirror_ray.model.errors import MirrorError

# Pinned, as in `maven`. The last one that fetches a file without reading its pom: Maven's repository need not have the
# pom's parent.
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:2.10:copy"


@dataclass(frozen=True)
class Archive:
    """A ``.tar.gz`` in Maven's repository, as it was when it was tried."""

    #: For messages.
    title: str
    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str


APICURIO: Final = Archive(
    title="Apicurio Registry 3.0.9",
    group="io.apicurio",
    artifact="apicurio-registry-app",
    version="3.0.9",
    classifier="all",
    sha256="2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43",
)


def ensure_archive(archive: Archive) -> Path:
    """Directory with what an archive holds; fetched by Maven the first time, at once afterwards.

    The directory appears whole or not at all, two processes that ask at the same time fetch once, and an archive with
    another SHA-256 is not unpacked.

    Raises:
        MirrorError: Maven is missing, or failed, or fetched another archive; the text says what to do.
    """
    target = cache_dir() / f"{archive.artifact}-{archive.version}-{archive.sha256[:8]}"
    if target.is_dir():
        return target
    with locked(target.with_name(f".{archive.artifact}.lock")):
        if not target.is_dir():
            _fetch(archive, target)
    return target


def _fetch(archive: Archive, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{archive.artifact}-", dir=target.parent) as scratch:
        run_maven(
            f"the files of {archive.title}",
            _COPY,
            f"-Dartifact={archive.group}:{archive.artifact}:{archive.version}:tar.gz:{archive.classifier}",
            f"-DoutputDirectory={scratch}",
        )
        file = Path(scratch) / f"{archive.artifact}-{archive.version}-{archive.classifier}.tar.gz"
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "nothing"
        if digest != archive.sha256:
            raise MirrorError(
                f"Maven fetched another file than the one of {archive.title} that mirror-ray was tested with; "
                "it is not used. Look at the repository or mirror in Maven's settings.xml, "
                f"and at {Path.home() / '.m2/repository'}: {file.name}, SHA-256 {digest} instead of {archive.sha256}"
            )
        unpacked = Path(scratch) / "unpacked"
        with tarfile.open(file) as tar:
            tar.extractall(unpacked, filter="data")
        unpacked.rename(target)
