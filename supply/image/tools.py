"""Docker, and buildah where there is no Docker: what each is asked to build an image, and to say what it has built."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from supply.image.registries import apt_options, of_mirrors
from supply.parts import ROOT

IMAGE: Final = "mirror-ray:0.1.0"
_DIRECTORY: Final = ROOT / "deploy/image"
_DOCKERFILE: Final = _DIRECTORY / "Dockerfile"
_COPIED: Final = re.compile(rb"(file|dir|multi):[0-9a-f]{64}")
_MISSING: Final = (
    "missing: Docker, or buildah. Debian, Ubuntu: apt-get install buildah mmdebstrap, and run the same as root."
)


class ImageError(Exception):
    """An image can't be built or found; the text says what to do."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What the Dockerfile names, unless a build is told otherwise."""

    base: str
    #: The time of every file in an image, in seconds since 1970.
    epoch_s: int


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """What an image says of itself."""

    #: The digest of its configuration, which names the digest of each layer.
    digest: str
    environment: Sequence[str]
    entrypoint: Sequence[str]
    #: What asks for the health of a container, without ``CMD``.
    health: Sequence[str]
    layers: int


class ImageTool(Protocol):
    """Builds images."""

    title: str

    def build(self, recipe: Recipe, base: str | None, registries: Path, options: Sequence[str]) -> str:
        """Build `IMAGE` from the project, with what clients of registries must know; returns what its base is.

        ``base``: in place of the recipe's. ``options`` are the tool's own.
        """

    def described(self) -> BuiltImage:
        """What `IMAGE` says of itself."""

    def unpack(self, directory: Path) -> None:
        """Put `IMAGE`'s files into an empty directory."""


class Docker:
    """By BuildKit, which ``docker build`` is."""

    title = "Docker"

    def build(self, recipe: Recipe, base: str | None, registries: Path, options: Sequence[str]) -> str:
        """As `ImageTool` says. Its files have one time only where the tool's exporter rewrites it."""
        arguments = build_arguments(recipe, base, registries)
        run(
            "docker",
            "buildx",
            "build",
            *arguments,
            "--output",
            "type=docker,rewrite-timestamp=true",
            *options,
            str(ROOT),
        )
        return base or recipe.base

    def described(self) -> BuiltImage:
        """As `ImageTool` says."""
        [found] = json.loads(_output("docker", "image", "inspect", IMAGE))
        return described(found["Id"], found["Config"], len(found["RootFS"]["Layers"]))

    def unpack(self, directory: Path) -> None:
        """As `ImageTool` says."""
        container = _output("docker", "create", IMAGE).strip()
        try:
            with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as exported:  # noqa: S603, S607 - Docker or buildah, by PATH
                subprocess.run(["tar", "-xpC", str(directory)], stdin=exported.stdout, check=True)  # noqa: S603, S607 - Docker or buildah, by PATH
        finally:
            _output("docker", "rm", container)


class Buildah:
    """Without cgroups, namespaces of users or a daemon: as root, each step in a chroot."""

    title = "buildah"

    def build(self, recipe: Recipe, base: str | None, registries: Path, options: Sequence[str]) -> str:
        """As `ImageTool` says. The recipe's base where its registry answers, else one of Debian's packages."""
        named = base or recipe.base
        if not _ends_well("buildah", "pull", "--quiet", named):
            if base is not None:
                raise ImageError(f"there is no image {base}: `buildah pull {base}` says why")
            named = self._debian(recipe)
        ignored = f"{_DOCKERFILE}.dockerignore"
        # Docker's format has the health check; the other one has no place for it.
        own = ("--isolation", "chroot", "--format", "docker", "--layers", "--timestamp", str(recipe.epoch_s))
        run(
            "buildah",
            "build",
            *own,
            "--ignorefile",
            ignored,
            *build_arguments(recipe, named, registries),
            *options,
            str(ROOT),
        )
        return named

    def described(self) -> BuiltImage:
        """As `ImageTool` says."""
        found = json.loads(_output("buildah", "inspect", "--type", "image", IMAGE))
        docker = found["Docker"]
        return described(f"sha256:{found['FromImageID']}", docker["config"], len(docker["rootfs"]["diff_ids"]))

    def unpack(self, directory: Path) -> None:
        """As `ImageTool` says."""
        container = _output("buildah", "from", "--pull-never", IMAGE).strip()
        try:
            mounted = _output("buildah", "mount", container).strip()
            run("cp", "-a", f"{mounted}/.", str(directory))
        finally:
            _output("buildah", "rm", container)

    def _settle(self) -> None:
        """Leave out of `IMAGE`'s configuration what is another one each time; its layers stay as they are."""
        with tempfile.TemporaryDirectory(prefix="mirror-ray-image-", dir="/var/tmp") as scratch:
            _output("buildah", "push", "--disable-compression", IMAGE, f"dir:{scratch}")
            manifest = json.loads(Path(scratch, "manifest.json").read_text())
            content = settled(Path(scratch, manifest["config"]["digest"].removeprefix("sha256:")).read_bytes())
            digest = hashlib.sha256(content).hexdigest()
            Path(scratch, digest).write_bytes(content)
            manifest["config"] |= {"digest": f"sha256:{digest}", "size": len(content)}
            Path(scratch, "manifest.json").write_text(json.dumps(manifest))
            _output("buildah", "pull", "--quiet", f"dir:{scratch}")
        _output("buildah", "tag", digest, IMAGE)

    def _debian(self, recipe: Recipe) -> str:
        """Make the base of Debian's packages."""
        print(f"{recipe.base} is not reached: the base is made of Debian's packages", flush=True)
        name = "localhost/mirror-ray-base:bookworm"
        options = (f"--aptopt={line}" for line in of_mirrors(apt_options()))
        with tempfile.TemporaryDirectory(prefix="mirror-ray-base-") as scratch:
            archive = f"{scratch}/base.tar"
            run(str(_DIRECTORY / "base.sh"), archive, *options, epoch_s=recipe.epoch_s)
            container = _output("buildah", "from", "scratch").strip()
            _output("buildah", "add", container, archive, "/")
            _output("buildah", "config", "--cmd", "python3", "--hostname", "", container)
            timed = ("--timestamp", str(recipe.epoch_s))
            _output("buildah", "commit", "--rm", "--format", "docker", *timed, container, name)
        return name


def find_tool() -> ImageTool:
    """Docker where it answers, else buildah.

    Raises:
        ImageError: There is neither.
    """
    if shutil.which("docker") and _ends_well("docker", "info"):
        return Docker()
    if shutil.which("buildah"):
        return Buildah()
    raise ImageError(_MISSING)


def read_recipe(dockerfile: str | None = None) -> Recipe:
    """What the Dockerfile, or the text of another one, names."""
    lines = (_DOCKERFILE.read_text() if dockerfile is None else dockerfile).splitlines()
    named = dict(line.removeprefix("ARG ").split("=", 1) for line in lines if line.startswith("ARG ") and "=" in line)
    return Recipe(base=named["PYTHON"], epoch_s=int(named["SOURCE_DATE_EPOCH"]))


def build_arguments(recipe: Recipe, base: str | None, registries: Path) -> list[str]:
    """What Docker and buildah are told alike."""
    return [
        *("--file", str(_DOCKERFILE), "--tag", IMAGE),
        *("--build-context", f"registries={registries}"),
        *("--build-arg", f"SOURCE_DATE_EPOCH={recipe.epoch_s}"),
        *(() if base is None else ("--build-arg", f"PYTHON={base}")),
    ]


def settled(config: bytes) -> bytes:
    """An image's configuration without what is new each time: the names of what it was made in and of, and of copies.

    The digest of what a step copied is of the times, too, that files had before.
    """
    kept = {
        key: value
        for key, value in json.loads(_COPIED.sub(rb"\1", config)).items()
        if key not in {"container", "container_config", "parent"}
    }
    kept["config"].pop("Hostname", None)
    kept["config"].pop("Image", None)
    return json.dumps(kept, sort_keys=True).encode()


def described(digest: str, config: dict[str, Any], layers: int) -> BuiltImage:
    """An image by the configuration that Docker has of it, and buildah too."""
    return BuiltImage(
        digest=digest,
        environment=config["Env"],
        entrypoint=config["Entrypoint"],
        health=config["Healthcheck"]["Test"][1:],
        layers=layers,
    )


def run(*command: str, epoch_s: int | None = None) -> None:
    """Run a program whose output is the user's.

    Raises:
        ImageError: It failed; what it said is above.
    """
    variables = None if epoch_s is None else {**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s)}
    code = subprocess.run(command, check=False, env=variables).returncode  # noqa: S603 - Docker or buildah
    if code != 0:
        raise ImageError(f"{command[0]} ended with {code}: it says why, above")


def _ends_well(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - Docker or buildah


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - Docker or buildah
    if done.returncode != 0:
        raise ImageError(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout
