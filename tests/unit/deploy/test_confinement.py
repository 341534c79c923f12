"""Pods can do no more than they need: what Kubernetes takes from them is in the manifests as they are applied."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kubernetes.manifests import KUBERNETES, Manifest, kustomize, spoiled
from tests.support.kubernetes.pods import can_ask_kubernetes, openings, pods


def _cluster(directory: str) -> Manifest:
    [cluster] = [manifest for manifest in kustomize(KUBERNETES / directory) if manifest["kind"] == "RayCluster"]
    return cluster


@pytest.fixture(scope="module")
def example() -> Manifest:
    """The RayCluster with every component, as it is applied."""
    return _cluster("overlays/example")


@pytest.mark.parametrize("directory", ["base", "overlays/example"])
def test_every_pod_is_confined(directory: str) -> None:
    """No root, privilege, capability, writable root or account; seccomp; without its secrets it doesn't begin.

    So is the container that KubeRay adds to the head for the autoscaler.
    """
    made = pods(_cluster(directory))
    assert {"head", "replicators"} <= set(made)
    assert {name: openings(pod) for name, pod in made.items()} == {name: [] for name in made}


def test_the_autoscaler_alone_can_ask_kubernetes(example: Manifest) -> None:
    """Neither the coordinator beside it nor a worker sees the token of the account."""
    made = pods(example)
    assert {name: can_ask_kubernetes(pod) for name, pod in made.items()} == {
        name: {"autoscaler"} if name == "head" else set() for name in made
    }
    [api] = [volume for volume in made["head"]["volumes"] if volume["name"] == "kubernetes-api"]
    sources = {key: source[key] for source in api["projected"]["sources"] for key in source}
    assert sources["serviceAccountToken"]["path"] == "token"
    assert sources["configMap"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]


def test_what_is_the_gateways_is_on_the_head_alone(example: Manifest) -> None:
    """A worker has the passwords of clusters, and neither tokens of the page, nor its key, nor what leads to Redis."""
    secrets = {
        name: {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        for name, pod in pods(example).items()
    }
    of_clusters = {"mirror-ray-credentials", "mirror-ray-tls"}
    of_the_head = {"mirror-ray-gateway", "mirror-ray-gateway-tls", "mirror-ray-redis"}
    assert secrets == {"head": of_clusters | of_the_head, "replicators": of_clusters, "spark": of_clusters}


def test_a_container_writes_to_what_is_gone_with_its_pod(example: Manifest) -> None:
    """What is not read-only is an empty directory."""
    for pod in pods(example).values():
        empty = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
        for container in pod["containers"]:
            writable = {
                mount["name"]: mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")
            }
            assert set(writable) <= empty
            assert set(writable.values()) <= {"/tmp", "/home/ray"}  # noqa: S108 - compared, not written to


def test_redis_is_reached_by_tls_and_password(example: Manifest) -> None:
    """What Ray keeps lies there in clear text; the certificate's authority is a mounted file that Ray is told of."""
    options = example["spec"]["gcsFaultToleranceOptions"]
    assert options["redisAddress"].startswith("rediss://")
    assert options["redisPassword"]["valueFrom"]["secretKeyRef"] == {
        "name": "mirror-ray-redis",
        "key": "password",
        "optional": False,
    }
    ray = pods(example)["head"]["containers"][0]
    [authority] = [entry["value"] for entry in ray["env"] if entry["name"] == "RAY_REDIS_CA_CERT"]
    [mounted] = [entry["mountPath"] for entry in ray["volumeMounts"] if entry["name"] == "redis"]
    assert authority == f"{mounted}/ca.crt"


def test_no_password_is_in_a_variable_of_ours(example: Manifest) -> None:
    """Files can change without a new pod, and a process's variables are shown by more than by itself."""
    for pod in pods(example).values():
        for container in pod["containers"]:
            assert [entry for entry in container.get("env", []) if "valueFrom" in entry] == []
            assert "envFrom" not in container


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("securityContext/runAsNonRoot", None),
        ("securityContext/runAsUser", 0),
        ("securityContext/seccompProfile", None),
        ("automountServiceAccountToken", None),
        ("hostNetwork", True),
        ("volumes/1/secret/optional", True),
        ("volumes/1/secret/optional", None),
        ("volumes/1/secret/defaultMode", 0o444),
        ("volumes/1/hostPath", {"path": "/"}),
        ("containers/0/securityContext", None),
        ("containers/0/securityContext/readOnlyRootFilesystem", None),
        ("containers/0/securityContext/allowPrivilegeEscalation", None),
        ("containers/0/securityContext/capabilities", None),
        ("containers/0/securityContext/capabilities/add", ["NET_RAW"]),
        ("containers/0/securityContext/runAsUser", 0),
        ("containers/1/securityContext/readOnlyRootFilesystem", None),
        ("containers/1/securityContext/allowPrivilegeEscalation", None),
        ("containers/1/securityContext/capabilities", None),
    ],
)
def test_each_part_of_it_is_noticed_when_it_goes(example: Manifest, path: str, value: Any) -> None:
    """Else the tests above would say nothing."""
    assert openings(spoiled(pods(example)["head"], path, value)) != []
