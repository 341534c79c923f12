"""Images as root file systems that lie on this machine, and whom a container of one runs as."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Object = dict[str, Any]


class ImageError(Exception):
    """There is no such image, or it is not to be run as it is asked for."""


@dataclass(frozen=True)
class ImageRoot:
    """An image: its root file system, and its ``config`` (Env, Entrypoint, Cmd, User, WorkingDir)."""

    path: Path
    config: Object = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> ImageRoot:
        """With the configuration beside it: ``DIR.json``, or the variables alone in ``environment``."""
        config, variables = path.parent / f"{path.name}.json", path.parent / "environment"
        if config.exists():
            return cls(path, json.loads(config.read_text()))
        if variables.exists():
            return cls(path, {"Env": [line for line in variables.read_text().splitlines() if "=" in line]})
        return cls(path)

    @property
    def variables(self) -> dict[str, str]:
        """Its environment."""
        found = dict(line.partition("=")[::2] for line in self.config.get("Env") or [])
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} | found

    def entries(self, name: str) -> list[list[str]]:
        """The lines of its ``/etc/passwd`` or ``/etc/group``, each in parts."""
        file = self.path / "etc" / name
        return [line.split(":") for line in file.read_text().splitlines()] if file.is_file() else []


@dataclass(frozen=True)
class RunsAs:
    """A container's user and groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


class Images:
    """Which root file system an image's name stands for."""

    def __init__(self, named: dict[str, ImageRoot], otherwise: ImageRoot | None) -> None:
        self._named, self._otherwise = named, otherwise

    def find(self, name: str) -> ImageRoot:
        """The image of this name.

        Raises:
            ImageError: There is none.
        """
        found = self._named.get(name, self._otherwise)
        if found is None:
            raise ImageError(f'failed to pull image "{name}": not found: give the kubelet --rootfs DIRECTORY={name}')
        return found


def runs_as(image: ImageRoot, pod: Object, container: Object) -> RunsAs:
    """Whom a container runs as, by its own security context, the pod's, or the image.

    Raises:
        ImageError: It may not run as root, and would; or the image has no such user.
    """
    of_pod = pod["spec"].get("securityContext", {})
    security = of_pod | container.get("securityContext", {})
    name, _, group_name = str(image.config.get("User") or "0").partition(":")
    user = str(security.get("runAsUser", name))
    entry = next((entry for entry in image.entries("passwd") if user in entry[:1] + entry[2:3]), None)
    if entry is None and not user.isdigit():
        raise ImageError(f"the image has no user {user}")
    uid = int(entry[2]) if entry else int(user)
    if security.get("runAsNonRoot") and uid == 0:
        raise ImageError("container has runAsNonRoot and image will run as root")
    group = str(
        security.get("runAsGroup") or ("" if "runAsUser" in security else group_name) or (entry[3] if entry else 0)
    )
    gid = int(group) if group.isdigit() else next(int(one[2]) for one in image.entries("group") if one[0] == group)
    named = [int(one[2]) for one in image.entries("group") if entry and len(one) > 3 and entry[0] in one[3].split(",")]
    extra = [*of_pod.get("supplementalGroups", []), *([of_pod["fsGroup"]] if "fsGroup" in of_pod else []), *named]
    return RunsAs(uid, gid, tuple(dict.fromkeys([gid, *extra])), entry[5] if entry else "/")
