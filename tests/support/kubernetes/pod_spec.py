"""What ``pod_init`` is told to start for a container: from its pod, its image, and what both name."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

from tests.support.kubernetes.node_api import ApiError
from tests.support.kubernetes.node_context import NodeContext
from tests.support.kubernetes.pod_environment import command_of, environment, references, service_links
from tests.support.kubernetes.pod_images import runs_as
from tests.support.kubernetes.pod_process import StartError, dropped_capabilities
from tests.support.kubernetes.pod_volumes import PodVolumes, mounts_of

Object = dict[str, Any]


def unsupported(spec: Object) -> list[str]:
    """What a pod asks for that this stand-in would leave out without a word."""
    asked = [name for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace") if spec.get(name)]
    asked += ["activeDeadlineSeconds"] if "activeDeadlineSeconds" in spec else []
    sidecars = [one["name"] for one in spec.get("initContainers", []) if one.get("restartPolicy") == "Always"]
    return asked + [f"restartPolicy of init container {name}" for name in sidecars]


class ContainerSpecs:
    """Makes them for the containers of one pod; ``directory`` has the pod's files."""

    def __init__(self, node: NodeContext, volumes: PodVolumes, directory: Path, hostname: str) -> None:
        self._node, self._volumes, self._directory, self._hostname = node, volumes, directory, hostname

    async def make(self, pod: Object, container: Object, directory: Path) -> Object:
        """For a run of a container, whose own files are below ``directory``.

        Raises:
            StartError, ImageError, MissingValueError, VolumeError: It can't be started, and why.
        """
        image = self._node.images.find(container["image"])
        user = runs_as(image, pod, container)
        namespace, data = pod["metadata"]["namespace"], await self._referenced(pod, container)
        services = (await self._node.api.get("/api/v1/services"))["items"]
        links = service_links(services, namespace, enabled=pod["spec"].get("enableServiceLinks", True))
        given = {"HOSTNAME": self._hostname, "HOME": user.home} | image.variables | links
        variables = environment(pod, container, given, lambda *named: data.get(named), self._node.resources)
        command = command_of(container, image.config, variables)
        if not command:
            raise StartError("no command specified")
        security = container.get("securityContext", {})
        return {
            "root": _layers(image.path, directory, read_only=bool(security.get("readOnlyRootFilesystem"))),
            "mounts": self._system_mounts(container, directory) + self._mounts(pod, container, variables),
            "command": command,
            "environment": variables,
            "directory": container.get("workingDir") or image.config.get("WorkingDir") or "/",
            "uid": user.uid,
            "gid": user.gid,
            "groups": list(user.groups),
            "dropped_capabilities": dropped_capabilities(security),
            "no_new_privileges": security.get("allowPrivilegeEscalation") is False,
        }

    def _mounts(self, pod: Object, container: Object, variables: dict[str, str]) -> list[Object]:
        names = [volume["name"] for volume in pod["spec"].get("volumes", [])]
        return mounts_of(container, variables, {name: self._volumes.path(name) for name in names})

    def _system_mounts(self, container: Object, directory: Path) -> list[Object]:
        last_words = directory / "termination-log"
        last_words.write_bytes(b"")
        last_words.chmod(0o666)
        sources = {f"/etc/{name}": self._directory / name for name in ("hosts", "hostname", "resolv.conf")}
        sources |= {"/dev/shm": self._directory / "shm"}  # noqa: S108 - the container's
        sources |= {container.get("terminationMessagePath", "/dev/termination-log"): last_words}
        return [{"source": str(path), "target": target, "read_only": False} for target, path in sources.items()]

    async def _referenced(self, pod: Object, container: Object) -> dict[tuple[str, str], dict[str, str]]:
        """The data of what a container's environment names, so far as it is there."""
        found = {}
        for kind, name in references(container):
            try:
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s/{name}"
                data = (await self._node.api.get(path)).get("data", {})
            except ApiError as error:
                if not error.is_missing:
                    raise
                continue
            is_secret = kind == "secret"
            found[kind, name] = {key: base64.b64decode(data[key]).decode() if is_secret else data[key] for key in data}
        return found


def _layers(image: Path, directory: Path, *, read_only: bool) -> Object:
    """Where a container's root is put together: the image, and what a run writes to it."""
    layers = {name: directory / name for name in ("upper", "work", "merged")}
    for layer in layers.values():
        shutil.rmtree(layer, ignore_errors=True)
        layer.mkdir()
    return {"lower": str(image), "read_only": read_only} | {name: str(path) for name, path in layers.items()}
