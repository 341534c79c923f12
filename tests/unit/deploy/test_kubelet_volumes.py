"""A pod's volumes, as the kubelet's stand-in makes them, and the frames in which the API server speaks to it."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import zlib
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.kubernetes.node_api import ApiError, NodeApi
from tests.support.kubernetes.pod_volumes import PodVolumes, VolumeError, mounts_of, picked, write_files
from tests.support.kubernetes.spdy import DICTIONARY, SpdyConnection


def test_a_volume_has_all_keys_or_its_items() -> None:
    """A volume has all keys or its items."""
    data = {"a": b"1", "b": b"2"}
    assert picked(data, {}, 0o644, "config") == {"a": (b"1", 0o644), "b": (b"2", 0o644)}
    items = [{"key": "a", "path": "x/y", "mode": 0o400}]
    assert picked(data, {"items": items}, 0o644, "config") == {"x/y": (b"1", 0o400)}
    with pytest.raises(VolumeError, match="non-existent config key: c"):
        picked(data, {"items": [{"key": "c", "path": "c"}]}, 0o644, "config")


def test_files_are_put_in_the_place_of_others_at_once(tmp_path: Path) -> None:
    """Whoever has a file open reads on in the old one."""
    write_files(tmp_path, {"a": (b"1", 0o400), "d/b": (b"2", 0o644)}, owner=os.getuid(), group=None)
    before = (tmp_path / "..data").resolve()
    assert (tmp_path / "a").readlink() == Path("..data/a")
    assert ((tmp_path / "d/b").read_bytes(), (tmp_path / "a").stat().st_mode & 0o777) == (b"2", 0o400)
    held = (tmp_path / "a").open("rb")
    write_files(tmp_path, {"a": (b"3", 0o400)}, owner=os.getuid(), group=os.getgid())
    assert (held.read(), (tmp_path / "a").read_bytes()) == (b"1", b"3")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o440
    assert not before.exists()
    assert not (tmp_path / "d").is_symlink()


def test_mounts_are_in_an_order_in_which_none_hides_another() -> None:
    """Mounts are in an order in which none hides another."""
    container = {
        "name": "c",
        "volumeMounts": [
            {"name": "v", "mountPath": "/srv/ray/", "subPath": "logs"},
            {"name": "v", "mountPath": "/srv", "readOnly": True},
            {"name": "v", "mountPath": "/one", "subPathExpr": "$(POD)"},
        ],
    }
    found = mounts_of(container, {"POD": "p"}, {"v": Path("/volumes/v")})
    assert [(mount["source"], mount["target"], mount["read_only"]) for mount in found] == [
        ("/volumes/v/p", "/one", False),
        ("/volumes/v", "/srv", True),
        ("/volumes/v/logs", "/srv/ray", False),
    ]


@pytest.mark.parametrize("part", ["../x", "/x"])
def test_a_part_of_a_volume_stays_within_it(part: str) -> None:
    """A part of a volume stays within it."""
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": part}]}
    with pytest.raises(VolumeError, match="leads out"):
        mounts_of(container, {}, {"v": Path("/volumes/v")})


class _Objects:
    """Answers as the API does."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.objects = objects
        self.tokens = 0

    async def get(self, path: str) -> dict[str, Any]:
        if path not in self.objects:
            raise ApiError(404, path)
        return cast("dict[str, Any]", self.objects[path])

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == "/api/v1/namespaces/ns/serviceaccounts/head/token"
        assert body["spec"]["boundObjectRef"]["uid"] == "u"
        self.tokens += 1
        return {"status": {"token": f"token-{self.tokens}"}}


def _volumes(objects: _Objects, directory: Path, *volumes: dict[str, Any]) -> PodVolumes:
    spec = {"serviceAccountName": "head", "containers": [{"name": "c"}], "volumes": list(volumes)}
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}
    return PodVolumes(cast(NodeApi, objects), pod, directory, {})


async def test_a_pod_waits_for_its_secret_and_gets_its_changes(tmp_path: Path) -> None:
    """What has not changed is not written again."""
    objects = _Objects({})
    named = {"name": "tls", "secret": {"secretName": "login", "optional": False, "defaultMode": 0o440}}
    volumes = _volumes(objects, tmp_path, named)
    with pytest.raises(VolumeError, match=r'failed for volume "tls" : secret "login" not found'):
        await volumes.prepare()
    path = "/api/v1/namespaces/ns/secrets/login"
    objects.objects[path] = {"data": {"password": base64.b64encode(b"one").decode()}}
    await volumes.prepare()
    first = (tmp_path / "tls/..data").resolve()
    await volumes.prepare()
    assert (tmp_path / "tls/..data").resolve() == first
    objects.objects[path] = {"data": {"password": base64.b64encode(b"two").decode()}}
    await volumes.prepare()
    assert (tmp_path / "tls/password").read_text() == "two"


async def test_a_token_is_asked_for_once_until_it_is_old(tmp_path: Path) -> None:
    """A token is asked for once until it is old."""
    objects = _Objects({"/api/v1/namespaces/ns/configmaps/kube-root-ca.crt": {"data": {"ca.crt": "CA"}}})
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    volumes = _volumes(objects, tmp_path, {"name": "api", "projected": {"sources": sources, "defaultMode": 0o440}})
    await volumes.prepare()
    await volumes.prepare()
    assert {name: (tmp_path / "api" / name).read_text() for name in ("token", "ca.crt", "namespace")} == {
        "token": "token-1",
        "ca.crt": "CA",
        "namespace": "ns",
    }


async def test_what_may_be_missing_is_an_empty_volume_and_memory_is_the_sandboxes(tmp_path: Path) -> None:
    """What may be missing is an empty volume and memory is the sandboxes."""
    optional = {"name": "maybe", "configMap": {"name": "gone", "optional": True}}
    memory = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    volumes = _volumes(_Objects({}), tmp_path, optional, memory)
    await volumes.prepare()
    assert [entry.name for entry in (tmp_path / "maybe").iterdir() if not entry.name.startswith("..")] == []
    assert volumes.in_memory() == [{"path": str(tmp_path / "shm"), "options": "mode=0777,size=1048576"}]


class _Written:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        pass


async def test_streams_of_one_connection_are_told_apart() -> None:
    """Headers are compressed with one dictionary for all."""
    compressor, reader, written = zlib.compressobj(zdict=DICTIONARY), asyncio.StreamReader(), _Written()
    for number, kind in ((1, "error"), (3, "stdin")):
        words = [b"streamtype", kind.encode()]
        block = struct.pack(">I", 1) + b"".join(struct.pack(">I", len(word)) + word for word in words)
        headers = compressor.compress(block) + compressor.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack(">IIBB", number, 0, 0, 0) + headers
        reader.feed_data(struct.pack(">HHI", 0x8003, 1, len(payload)) + payload)
    reader.feed_data(struct.pack(">II", 3, 5) + b"hello" + struct.pack(">II", 3, 1 << 24))
    reader.feed_data(struct.pack(">HHII", 0x8003, 6, 4, 77))
    reader.feed_eof()
    connection = SpdyConnection(reader, cast(asyncio.StreamWriter, written))
    streams = {stream.headers["streamtype"]: stream async for stream in connection.streams()}
    assert (streams["error"].number, await streams["error"].read()) == (1, b"")
    assert [await streams["stdin"].read() for _ in range(2)] == [b"hello", b""]
    # Its ping comes back.
    assert written.data.endswith(struct.pack(">HHII", 0x8003, 6, 4, 77))
    await streams["stdin"].write(b"x" * 40_000)
    assert written.data.endswith(struct.pack(">II", 3, 40_000 - (32 << 10)) + b"x" * (40_000 - (32 << 10)))
