"""The programs of a Kubernetes cluster, which Go builds of the modules in tests/kubernetes/go; kept in the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from mirror_ray.jars.maven import cache_dir

_MODULES = Path(__file__).parents[2] / "kubernetes" / "go"
_KUBERNETES = "k8s.io/kubernetes"
_KUBERAY = "github.com/ray-project/kuberay/ray-operator"
_COREDNS = "github.com/coredns/coredns"
_PROMETHEUS = "github.com/prometheus-operator/prometheus-operator"
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
#: What Debian has.
_DEBIAN = {"etcd": "etcd-server", "nft": "nftables", "ip": "iproute2", "unshare": "util-linux"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """Where the programs are, and what they are."""

    directory: Path
    #: By the name of the directory that has their go.mod.
    versions: Mapping[str, str]
    #: The modules of two operators, which have their manifests in them.
    kuberay: Path
    prometheus: Path

    def path(self, name: str) -> str:
        """A program's path: one of ours, or the machine's own."""
        own = self.directory / name
        return str(own) if own.exists() else _found(name)


def binaries() -> Binaries:
    """The programs, built where that has not been done for these versions: ten minutes on two cores."""
    directory = cache_dir() / "kubernetes" / _digest()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (directory / ".ready").exists():
            _build(directory)
    _go("prometheus", "mod", "download", _PROMETHEUS)
    return Binaries(
        directory=directory,
        versions=_versions(),
        kuberay=Path(_listed("kuberay", _KUBERAY, "{{.Dir}}")),
        prometheus=Path(_listed("prometheus", _PROMETHEUS, "{{.Dir}}")),
    )


def _build(directory: Path) -> None:
    version = _versions()["kubernetes"]
    major, minor, _ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in stamps.items()]
    for module, packages, linked in (
        ("kubernetes", ("tool",), flags),
        ("kuberay", ("tool",), []),
        ("coredns", (".",), []),
    ):
        sys.stderr.write(f"Building {module} ...\n")
        _go(module, "install", "-trimpath", f"-ldflags={' '.join(['-s -w', *linked])}", *packages, GOBIN=str(directory))
    (directory / ".ready").touch()


def _digest() -> str:
    """Of what they are built from: another version is another directory."""
    digest = hashlib.sha256()
    for path in sorted(path for path in _MODULES.rglob("*") if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _versions() -> dict[str, str]:
    modules = {"kubernetes": _KUBERNETES, "kuberay": _KUBERAY, "coredns": _COREDNS}
    return {name: _listed(name, module, "{{.Version}}") for name, module in modules.items()}


def _listed(module: str, path: str, template: str) -> str:
    return _go(module, "list", "-m", "-f", template, path).strip()


def _go(module: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [_found("go"), *arguments],
        cwd=_MODULES / module,
        env=os.environ | {"GOFLAGS": "-buildvcs=false", "GOWORK": "off", "CGO_ENABLED": "0"} | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        _fail(f"`go {' '.join(arguments[:2])}` failed in {_MODULES / module}: its own words are above")
    return done.stdout


def _found(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/local/go/bin")
    if found is None:
        remedy = (
            f"apt-get install {_DEBIAN[name]}" if name in _DEBIAN else "install Go 1.25 or newer (https://go.dev/dl)"
        )
        _fail(f"{name} is missing: {remedy}")
    return found


def _fail(text: str) -> NoReturn:
    sys.exit(text)


if __name__ == "__main__":
    sys.stdout.write(f"{binaries().directory}\n")
