"""Refuses a manifest that Kubernetes, KubeRay or the Prometheus operator would: by their own schemas, in ``schemas/``.

Unknown fields are refused, as `kubectl apply` with strict validation does. Rules in CEL are not looked at.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from tests.support.kubernetes.manifests import Manifest
from tests.support.kubernetes.trim import SCHEMAS

_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def mistakes(manifest: Manifest) -> list[str]:
    """What is wrong with it: where, and what; nothing if it is valid."""
    found = _validator(manifest["kind"]).iter_errors(manifest)
    wrong = [f"{'.'.join(map(str, error.absolute_path)) or 'it'}: {error.message}" for error in found]
    if manifest["apiVersion"].startswith("ray.io/"):
        wrong += _refused_by_kuberay(manifest)
    return wrong


@cache
def _validator(kind: str) -> Draft202012Validator:
    path = SCHEMAS / f"{kind}.json.gz"
    if not path.is_file():
        raise ValueError(f"no schema of {kind}: add it by tests/support/kubernetes/trim.py")
    schema = _schema(kind)
    if "$defs" not in schema:
        # A CRD's schema says nothing of metadata; that of every object holds.
        schema = _strict(schema)
        schema["$defs"] = _schema("ConfigMap")["$defs"]
        schema["properties"]["metadata"] = {"$ref": f"#/$defs/{_METADATA}"}
    return Draft202012Validator(schema)


def _schema(kind: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(gzip.decompress((SCHEMAS / f"{kind}.json.gz").read_bytes()))
    return result


def _strict(node: Any) -> Any:
    """A structural schema as the API server reads it: a field that is not named does not exist."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    fields = {
        key: {name: _strict(schema) for name, schema in node[key].items()} for key in ("properties",) if key in node
    }
    rest = {key: _strict(value) for key, value in node.items() if key != "properties"}
    if fields and not node.get("x-kubernetes-preserve-unknown-fields"):
        rest.setdefault("additionalProperties", False)
    return {**rest, **fields}


def _refused_by_kuberay(manifest: Manifest) -> list[str]:
    """What KubeRay's operator checks beside the schema.

    Source: ``ValidateRayClusterSpec`` and ``ValidateRayJobSpec`` of KubeRay 1.6.0, in
    ``ray-operator/controllers/ray/utils/validation.go``.
    """
    spec = manifest["spec"]
    if manifest["kind"] == "RayJob":
        if "clusterSelector" not in spec:
            return ["spec: without clusterSelector it would need a cluster of its own"]
        return ["spec.backoffLimit: not together with clusterSelector"] if spec.get("backoffLimit", 0) > 0 else []
    wrong = []
    if spec.get("authOptions", {}).get("mode") == "token" and "rayVersion" not in spec:
        wrong.append("spec.authOptions.mode: needs rayVersion")
    for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        name = group.get("groupName", "head")
        pod = group["template"]["spec"]
        if spec.get("autoscalerOptions", {}).get("version") == "v2" and pod.get("restartPolicy", "Never") != "Never":
            wrong.append(f"{name}: restartPolicy with the autoscaler v2 is Never")
        if group.get("minReplicas", 0) > group.get("maxReplicas", 2**31):
            wrong.append(f"{name}: minReplicas is above maxReplicas")
        environment = {variable["name"] for variable in pod["containers"][0].get("env", [])}
        if environment & {"RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME"}:
            wrong.append(f"{name}: Redis belongs into gcsFaultToleranceOptions")
    return wrong
