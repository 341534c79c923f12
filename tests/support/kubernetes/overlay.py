"""The example's overlay made ours, as deploy/README.md tells a user to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.kubernetes import machine
from tests.support.kubernetes.manifests import DEPLOY

_EXAMPLES_API = "192.0.2.1/32"


class Overlay:
    """A copy of ``deploy/`` below ``directory``, with an overlay of our own in it."""

    def __init__(self, directory: Path) -> None:
        shutil.copytree(DEPLOY, directory)
        #: What `kubectl apply -k` is given.
        self.path = directory / "kubernetes" / "overlays" / "ours"
        shutil.copytree(self.path.with_name("example"), self.path)
        policy = self.path / "network-policy.yaml"
        # The brokers' addresses are those of the example.
        assert _EXAMPLES_API in policy.read_text()
        policy.write_text(policy.read_text().replace(_EXAMPLES_API, f"{machine.CONTROL_PLANE}/32"))

    def set_image(self, image: str) -> None:
        """The image of all pods."""
        name, _, tag = image.rpartition(":")
        self._change("kustomization.yaml", lambda found: found["images"][0].update(newName=name, newTag=tag))

    def set_components(self, names: Sequence[str]) -> None:
        """The components, by the names of their directories."""
        paths = [f"../../components/{name}" for name in names]
        self._change("kustomization.yaml", lambda found: found.update(components=paths))

    def add_availability(self, redis_address: str) -> None:
        """The component ``availability`` besides, with a Redis outside of Kubernetes."""
        self._change("kustomization.yaml", lambda found: found["components"].append("../../components/availability"))
        path = self.path.parents[1] / "components" / "availability" / "network-policy.yaml"
        policy = yaml.safe_load(path.read_text())
        policy["spec"]["egress"][0]["to"] = [{"ipBlock": {"cidr": f"{redis_address}/32"}}]
        path.write_text(yaml.safe_dump(policy, sort_keys=False))

    def configure(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Change ``mirror.yaml``."""
        self._change("mirror.yaml", change)

    def _change(self, name: str, change: Callable[[dict[str, Any]], object]) -> None:
        path = self.path / name
        document = yaml.safe_load(path.read_text())
        change(document)
        path.write_text(yaml.safe_dump(document, sort_keys=False))
