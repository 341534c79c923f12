"""The Kubernetes manifests hold what the project needs of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import mirror_ray

_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def spec() -> dict[str, Any]:
    """The RayCluster's spec."""
    document = yaml.safe_load((_ROOT / "ray-cluster.yaml").read_text())
    assert (document["apiVersion"], document["kind"]) == ("ray.io/v1", "RayCluster")
    result: dict[str, Any] = document["spec"]
    return result


def _container(group: dict[str, Any]) -> dict[str, Any]:
    [container] = group["template"]["spec"]["containers"]
    result: dict[str, Any] = container
    return result


def test_the_head_takes_no_replicators(spec: dict[str, Any]) -> None:
    """Its logical CPUs are none."""
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_replicators_scale(spec: dict[str, Any]) -> None:
    """One worker group, from a few to many, by Ray's own autoscaler."""
    assert spec["enableInTreeAutoscaling"] is True
    assert spec["autoscalerOptions"]["version"] == "v2"
    [group] = spec["workerGroupSpecs"]
    assert group["groupName"] == "replicators"
    assert 0 < group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    # Ray takes a pod's CPU limit, or its request where there is none, as its logical CPUs; a replicator asks for one.
    assert _container(group)["resources"]["requests"]["cpu"] == "1"


def test_every_container_is_ours_and_bounded(spec: dict[str, Any]) -> None:
    """One image for all, memory requested in full, and probes left to KubeRay."""
    for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        container = _container(group)
        assert container["image"] == f"mirror-ray:{mirror_ray.__version__}"
        assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]
        assert "livenessProbe" not in container


def test_the_job_uses_that_cluster() -> None:
    """It selects the cluster by the name that it has."""
    cluster = yaml.safe_load((_ROOT / "ray-cluster.yaml").read_text())
    job = yaml.safe_load((_ROOT / "deploy" / "rayjob.yaml").read_text())
    assert job["kind"] == "RayJob"
    assert job["spec"]["clusterSelector"]["ray.io/cluster"] == cluster["metadata"]["name"]
    assert "mirror-ray up" in job["spec"]["entrypoint"]
