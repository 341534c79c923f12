"""Makes the files of ``schemas/``; its README says from what.

python -m tests.support.kubernetes.trim KUBERAY_MODULE PROMETHEUS_OPERATOR_MODULE KUBERNETES_JSON_SCHEMAS
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

SCHEMAS = Path(__file__).with_name("schemas")

_KUBERAY = ("rayclusters", "rayjobs")
_PROMETHEUS_OPERATOR = ("podmonitors", "prometheusrules")
_CORE = ("configmap-v1", "networkpolicy-networking-v1", "poddisruptionbudget-policy-v1", "service-v1")
_REFERENCE = re.compile(r"(?:/api/_definitions\.json)?#/\$defs/(.+)")


def main(kuberay: Path, prometheus_operator: Path, core: Path) -> None:
    """Write them all."""
    for name in _KUBERAY:
        _write_crd(kuberay / "config/crd/bases" / f"ray.io_{name}.yaml")
    for name in _PROMETHEUS_OPERATOR:
        crds = prometheus_operator / "example/prometheus-operator-crd"
        _write_crd(crds / f"monitoring.coreos.com_{name}.yaml")
    definitions = json.loads((core / "_definitions.json").read_text())["$defs"]
    for name in _CORE:
        schema = json.loads((core / f"{name}.json").read_text())
        used: dict[str, Any] = {}
        _collect(schema, definitions, used)
        kind = schema["properties"]["kind"]["enum"][0]
        del schema["$id"]
        _write(f"{kind}.json.gz", {**schema, "$defs": used})


def _write_crd(path: Path) -> None:
    crd = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)  # a safe one
    [version] = [version for version in crd["spec"]["versions"] if version["name"] == "v1"]
    _write(f"{crd['spec']['names']['kind']}.json.gz", version["schema"]["openAPIV3Schema"])


def _collect(node: Any, definitions: dict[str, Any], used: dict[str, Any]) -> None:
    """Add what a schema refers to, and have it refer to it in its own document."""
    if isinstance(node, list):
        for item in node:
            _collect(item, definitions, used)
    elif isinstance(node, dict):
        reference = _REFERENCE.fullmatch(node.get("$ref", ""))
        if reference:
            node["$ref"] = f"#/$defs/{reference[1]}"
            if reference[1] not in used:
                used[reference[1]] = definitions[reference[1]]
                _collect(used[reference[1]], definitions, used)
        for child in node.values():
            _collect(child, definitions, used)


def _write(name: str, schema: Any) -> None:
    text = json.dumps(_without_prose(schema), separators=(",", ":"), sort_keys=True)
    (SCHEMAS / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _without_prose(node: Any, *, names: bool = False) -> Any:
    """Without descriptions; where keys are ``names`` of fields, a field of that name stays."""
    if isinstance(node, list):
        return [_without_prose(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_prose(value, names=not names and key in ("properties", "$defs"))
        for key, value in node.items()
        if names or key != "description"
    }


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
