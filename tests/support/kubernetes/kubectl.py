"""kubectl, as a user of a cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.kubernetes.manifests import Manifest

_TIMEOUT_S = 180.0


class KubectlError(Exception):
    """What kubectl said when it failed."""


class Kubectl:
    """Runs kubectl with one kubeconfig, in one namespace."""

    def __init__(self, program: str, kubeconfig: Path, namespace: str = "default") -> None:
        self._program, self._kubeconfig, self._namespace = program, kubeconfig, namespace

    def __call__(self, *arguments: str, stdin: str | None = None, timeout_s: float = _TIMEOUT_S) -> str:
        """What it prints. Raises KubectlError if it fails."""
        done = subprocess.run(
            self.command(*arguments), input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout + done.stderr

    def command(self, *arguments: str) -> list[str]:
        """The whole command, to be started."""
        return [self._program, f"--kubeconfig={self._kubeconfig}", f"--namespace={self._namespace}", *arguments]

    def within(self, namespace: str) -> Kubectl:
        """The same user in another namespace."""
        return Kubectl(self._program, self._kubeconfig, namespace)

    def apply(self, *manifests: Manifest) -> str:
        """Apply manifests, as the server merges them: definitions of resources are too large for kubectl's own way."""
        text = "\n---\n".join(json.dumps(manifest) for manifest in manifests)
        return self("apply", "--server-side", "-f", "-", stdin=text)

    def get(self, *arguments: str) -> Manifest:
        """An object."""
        found: Manifest = json.loads(self("get", "-o", "json", *arguments))
        return found

    def find(self, *arguments: str) -> list[Manifest]:
        """The objects that a selector finds."""
        found: list[Manifest] = self.get(*arguments)["items"]
        return found

    def wait_for(self, condition: str, *what: str, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until an object is there, and its condition is True."""
        try:
            for wanted in ("create", f"condition={condition}"):
                self("wait", *what, f"--for={wanted}", f"--timeout={timeout_s:g}s", timeout_s=timeout_s + 30)
        except KubectlError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def field(self, kind: str, name: str, *path: str) -> Any:
        """A field of an object, or of its status; None where it is not there."""
        value: Any = self.get(kind, name)
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def story(self) -> str:
        """What happened lately in the namespace, for who reads of a failure."""
        pods = self("get", "pods", "-o", "wide")
        return pods + self("get", "events", "--sort-by=.lastTimestamp")[-6000:]
