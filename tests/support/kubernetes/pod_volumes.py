"""A pod's volumes as directories of its node: made before its containers, kept up to date while they run."""

from __future__ import annotations

import base64
import os
import shutil
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.kubernetes.node_api import ApiError, NodeApi
from tests.support.kubernetes.pod_environment import expand, field, quantity, resource_field

Object = dict[str, Any]
#: A file's content and mode, by its path in the volume.
Files = dict[str, tuple[bytes, int]]

_DATA = "..data"
_RENEWED_AT = 0.8


class VolumeError(Exception):
    """A volume can't be made yet, or not at all."""


def picked(data: dict[str, bytes], source: Object, default_mode: int, what: str) -> Files:
    """Those keys of a ConfigMap or a Secret that a volume has: all of them, or its ``items``.

    Raises:
        VolumeError: A key is missing.
    """
    if "items" not in source:
        return {key: (value, default_mode) for key, value in data.items()}
    missing = [item["key"] for item in source["items"] if item["key"] not in data]
    if missing and not source.get("optional"):
        raise VolumeError(f"references non-existent {what} key: {missing[0]}")
    return {
        item["path"]: (data[item["key"]], item.get("mode", default_mode))
        for item in source["items"]
        if item["key"] in data
    }


def write_files(directory: Path, files: Files, *, owner: int, group: int | None) -> None:
    """Put files in the place of those that were there, all of them at one moment, as the kubelet does."""
    content = directory / datetime.now().strftime("..%Y_%m_%d_%H_%M_%S.%f")  # noqa: DTZ005 - a name
    content.mkdir(mode=0o755)
    for path, (data, mode) in files.items():
        file = content / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(mode if group is None else mode | 0o440)
        os.chown(file, owner, -1 if group is None else group)
    before = directory / _DATA
    old = before.resolve() if before.is_symlink() else None
    swapped = directory / "..data_tmp"
    swapped.symlink_to(content.name)
    swapped.replace(before)
    tops = {Path(path).parts[0] for path in files}
    for top in tops:
        if not (directory / top).is_symlink():
            (directory / top).symlink_to(f"{_DATA}/{top}")
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in tops:
            entry.unlink()
    if old is not None and old != content:
        shutil.rmtree(old)


@dataclass(frozen=True)
class _Token:
    text: str
    renewed_at_s: float


class PodVolumes:
    """The volumes of one pod below a directory."""

    def __init__(self, api: NodeApi, pod: Object, directory: Path, node: dict[str, str]) -> None:
        self.pod = pod
        self._api, self._directory, self._node = api, directory, node
        self._written: dict[str, Files] = {}
        self._tokens: dict[str, _Token] = {}
        security = pod["spec"].get("securityContext", {})
        self._group: int | None = security.get("fsGroup")
        users = {
            container.get("securityContext", {}).get("runAsUser", security.get("runAsUser"))
            for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
        }
        self._only_user: int | None = users.pop() if len(users) == 1 else None

    @property
    def _namespaced(self) -> str:
        return f"/api/v1/namespaces/{self.pod['metadata']['namespace']}"

    def path(self, name: str) -> Path:
        """Where a volume is: what containers mount."""
        volume = next(one for one in self.pod["spec"]["volumes"] if one["name"] == name)
        return Path(volume["hostPath"]["path"]) if "hostPath" in volume else self._directory / name

    def in_memory(self) -> list[dict[str, str]]:
        """The volumes that are tmpfs, which the pod's sandbox mounts."""
        owned = "mode=0777" if self._group is None else f"mode=2777,gid={self._group}"
        found = []
        for volume in self.pod["spec"].get("volumes", []):
            empty = volume.get("emptyDir", {})
            if empty.get("medium") == "Memory":
                size = f",size={int(quantity(empty['sizeLimit']))}" if empty.get("sizeLimit") else ""
                found.append({"path": str(self.path(volume["name"])), "options": owned + size})
        return found

    async def prepare(self) -> None:
        """Make what is not there yet, and bring up to date what has changed in the API.

        Raises:
            VolumeError: A volume lacks what it is made of.
        """
        for volume in self.pod["spec"].get("volumes", []):
            try:
                await self._prepare(volume)
            except VolumeError as error:
                raise VolumeError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error

    async def _prepare(self, volume: Object) -> None:
        name = volume["name"]
        match volume:
            case {"emptyDir": _}:
                self._make_empty(name)
            case {"hostPath": host}:
                _check_host(Path(host["path"]), host.get("type", ""))
            case {"configMap": source}:
                self._write(name, await self._config_map(source, source.get("defaultMode", 0o644)))
            case {"secret": source}:
                named = source | {"name": source["secretName"]}
                self._write(name, await self._secret(named, source.get("defaultMode", 0o644)))
            case {"downwardAPI": source}:
                self._write(name, self._downward(source, source.get("defaultMode", 0o644)))
            case {"projected": source}:
                self._write(name, await self._projected(source, source.get("defaultMode", 0o644)))
            case _:
                raise VolumeError(f"no such kind of volume here: {', '.join(set(volume) - {'name'})}")

    def _make_empty(self, name: str) -> None:
        directory = self._directory / name
        if directory.exists():
            return
        directory.mkdir(parents=True)
        directory.chmod(0o777)
        if self._group is not None:
            os.chown(directory, -1, self._group)
            directory.chmod(0o2777)

    def _write(self, name: str, files: Files) -> None:
        if self._written.get(name) == files:
            return
        directory = self._directory / name
        directory.mkdir(parents=True, exist_ok=True)
        write_files(directory, files, owner=0, group=self._group)
        self._written[name] = files
        self._own_tokens(name)

    def _own_tokens(self, name: str) -> None:
        """A token belongs to the one user of the pod, if it has one."""
        volume = next(one for one in self.pod["spec"]["volumes"] if one["name"] == name)
        for source in volume.get("projected", {}).get("sources", []):
            if "serviceAccountToken" in source and self._only_user is not None:
                os.chown(self._directory / name / source["serviceAccountToken"]["path"], self._only_user, -1)

    async def _config_map(self, source: Object, mode: int) -> Files:
        found = await self._get("configmaps", source)
        data = {key: value.encode() for key, value in found.get("data", {}).items()}
        data |= {key: base64.b64decode(value) for key, value in found.get("binaryData", {}).items()}
        return picked(data, source, mode, "config")

    async def _secret(self, source: Object, mode: int) -> Files:
        found = await self._get("secrets", source)
        data = {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
        return picked(data, source, mode, "secret")

    async def _get(self, kind: str, source: Object) -> Object:
        try:
            return await self._api.get(f"{self._namespaced}/{kind}/{source['name']}")
        except ApiError as error:
            if error.is_missing and source.get("optional"):
                return {}
            if error.is_missing:
                raise VolumeError(f'{kind.removesuffix("s")} "{source["name"]}" not found') from error
            raise

    def _downward(self, source: Object, mode: int) -> Files:
        files: Files = {}
        for item in source.get("items", []):
            if "fieldRef" in item:
                text = field(self.pod, item["fieldRef"]["fieldPath"])
            else:
                reference = item["resourceFieldRef"]
                container = next(
                    one for one in self.pod["spec"]["containers"] if one["name"] == reference["containerName"]
                )
                text = resource_field(container, reference, self._node)
            files[item["path"]] = (text.encode(), item.get("mode", mode))
        return files

    async def _projected(self, source: Object, mode: int) -> Files:
        files: Files = {}
        for part in source.get("sources", []):
            match part:
                case {"configMap": inner}:
                    files |= await self._config_map(inner, mode)
                case {"secret": inner}:
                    files |= await self._secret(inner, mode)
                case {"downwardAPI": inner}:
                    files |= self._downward(inner, mode)
                case {"serviceAccountToken": inner}:
                    own = self._group is not None or self._only_user is not None
                    files[inner["path"]] = ((await self._token(inner)).encode(), 0o600 if own else mode)
                case _:
                    raise VolumeError(f"no such source of a projected volume here: {', '.join(part)}")
        return files

    async def _token(self, source: Object) -> str:
        key = source["path"]
        held = self._tokens.get(key)
        if held is None or held.renewed_at_s <= time.monotonic():
            metadata = self.pod["metadata"]
            account = self.pod["spec"].get("serviceAccountName", "default")
            bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
            seconds = source.get("expirationSeconds", 3600)
            spec: Object = {"expirationSeconds": seconds, "boundObjectRef": bound}
            if source.get("audience"):
                spec["audiences"] = [source["audience"]]
            try:
                made = await self._api.create(
                    f"{self._namespaced}/serviceaccounts/{account}/token",
                    {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
                )
            except ApiError as error:
                raise VolumeError(f"failed to fetch token: {error}") from error
            held = _Token(made["status"]["token"], time.monotonic() + seconds * _RENEWED_AT)
            self._tokens[key] = held
        return held.text


def _check_host(path: Path, kind: str) -> None:
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        raise VolumeError(f"hostPath: {path} does not exist")


def mounts_of(container: Object, variables: dict[str, str], paths: dict[str, Path]) -> list[Object]:
    """What a container mounts, in an order in which no mount hides another; ``paths`` of volumes by name.

    Raises:
        VolumeError: A mount names no volume of the pod, or leads out of it.
    """
    found = []
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in paths:
            raise VolumeError(f'volume "{mount["name"]}" of container {container["name"]} is none of the pod')
        source = paths[mount["name"]]
        part = mount.get("subPath") or expand(mount.get("subPathExpr", ""), variables)
        if ".." in Path(part).parts or Path(part).is_absolute():
            raise VolumeError(f"subPath {part} leads out of volume {mount['name']}")
        target = "/" + mount["mountPath"].strip("/")
        found.append({"source": str(source / part), "target": target, "read_only": mount.get("readOnly", False)})
    return sorted(found, key=lambda mount: Path(mount["target"]).parts)
