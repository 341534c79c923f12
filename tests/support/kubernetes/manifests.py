"""The Kubernetes manifests of ``deploy/``: as they are written, and as kustomize makes them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

Manifest = dict[str, Any]

DEPLOY = Path(__file__).parents[3] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
_NO_MANIFESTS = {"Kustomization", "Component"}


def read(path: Path) -> list[Manifest]:
    """The manifests in a file; none if it is a kustomization, a patch, or something else altogether."""
    documents = list(yaml.safe_load_all(path.read_text()))
    return [
        document
        for document in documents
        if isinstance(document, dict) and "apiVersion" in document and not _is_of_kustomize(document)
    ]


def kustomize(directory: Path) -> list[Manifest]:
    """What `kubectl apply -k` would apply. Skips where there is no kubectl of our days."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is missing: install 1.21 or later, https://kubernetes.io/docs/tasks/tools")
    done = subprocess.run([kubectl, "kustomize", directory], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def spoiled(manifest: Manifest, path: str, value: Any) -> Manifest:
    """A copy in which ``value`` is what is at ``path``, or where that is None nothing."""
    # Not a deep copy: what YAML's anchors share would be spoilt twice.
    result: Manifest = json.loads(json.dumps(manifest))
    *parents, last = path.split("/")
    node: Any = result
    for key in parents:
        node = node[int(key)] if isinstance(node, list) else node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return result


def _is_of_kustomize(document: Manifest) -> bool:
    return document.get("kind") in _NO_MANIFESTS or "$patch" in document
