"""The Kubernetes manifests are valid, belong together, and name what mirror-ray has."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import mirror_ray
from mirror_ray.cli.app import app
from mirror_ray.config.gateway import GATEWAY_PORT, token_text
from mirror_ray.config.load import load_settings
from mirror_ray.lab.devcluster.certificates import CertificateAuthority
from tests.support.kubernetes.manifests import DEPLOY, KUBERNETES, Manifest, kustomize, read, spoiled
from tests.support.kubernetes.validation import mistakes

_ROOT = DEPLOY.parent
_EXAMPLE = KUBERNETES / "overlays/example"
_FILES = sorted(path for path in DEPLOY.rglob("*.yaml") if read(path))
_SECRETS = "/etc/mirror-ray-secrets"


@pytest.fixture(scope="module")
def applied() -> dict[tuple[str, str], Manifest]:
    """What the example overlay applies, by kind and name."""
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in kustomize(_EXAMPLE)}


@pytest.fixture
def cluster() -> Manifest:
    """The RayCluster of the base."""
    [result] = read(_ROOT / "ray-cluster.yaml")
    return result


def _groups(cluster: Manifest) -> list[dict[str, Any]]:
    return [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]


def _container(group: dict[str, Any]) -> dict[str, Any]:
    [container] = group["template"]["spec"]["containers"]
    result: dict[str, Any] = container
    return result


def _port(cluster: Manifest, name: str) -> int:
    ports = _container(cluster["spec"]["headGroupSpec"])["ports"]
    return next(int(port["containerPort"]) for port in ports if port["name"] == name)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_each_file_is_valid(path: Path) -> None:
    """By the schemas of Kubernetes, KubeRay and the Prometheus operator; unknown fields are refused."""
    for manifest in read(path):
        assert mistakes(manifest) == []


def test_there_is_something_to_validate() -> None:
    """Every kind that we ship was found."""
    kinds = {manifest["kind"] for path in _FILES for manifest in read(path)}
    assert kinds == {
        *("NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "RayCluster", "RayJob", "Service")
    }


def test_what_the_example_applies_is_valid(applied: dict[tuple[str, str], Manifest]) -> None:
    """With every component: patched, in one namespace, with the image's name replaced everywhere."""
    assert {("RayCluster", "mirror-ray"), ("ConfigMap", "mirror-ray"), ("ConfigMap", "mirror-ray-dashboards")} <= set(
        applied
    )
    for manifest in applied.values():
        assert mistakes(manifest) == []
        assert manifest["metadata"]["namespace"] == "mirror-ray"
    cluster = applied["RayCluster", "mirror-ray"]
    assert {_container(group)["image"] for group in _groups(cluster)} == {"registry.example.com/mirror-ray:0.1.0"}
    assert [group["groupName"] for group in cluster["spec"]["workerGroupSpecs"]] == ["replicators", "spark"]


def test_without_the_head_nobody_may_drain_it_with_it_they_may(applied: dict[tuple[str, str], Manifest]) -> None:
    """The base keeps the head where it is; with the head's state in Redis its budget, which stays, lets it go."""
    [budget] = read(KUBERNETES / "base/disruption-budget.yaml")
    assert (budget["metadata"]["name"], budget["spec"]["minAvailable"]) == ("mirror-ray-head", 1)
    assert applied["PodDisruptionBudget", "mirror-ray-head"]["spec"]["minAvailable"] == 0
    assert "gcsFaultToleranceOptions" in applied["RayCluster", "mirror-ray"]["spec"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec/enableInTreeAutoscalin", True),
        ("spec/workerGroupSpecs/0/replicas", "1"),
        ("spec/workerGroupSpecs/0/maxReplicas", 0),
        ("spec/headGroupSpec/template/spec/containers/0/readinessProbe/httpGet/paht", "/"),
    ],
    ids=["misspelt", "of another type", "below its minimum", "deep"],
)
def test_a_mistake_is_found(cluster: Manifest, path: str, value: Any) -> None:
    """Else the other tests would say nothing."""
    assert len(mistakes(spoiled(cluster, path, value))) == 1


def test_the_root_has_the_cluster() -> None:
    """`kubectl apply -f ray-cluster.yaml` is the base's own."""
    assert (_ROOT / "ray-cluster.yaml").resolve() == KUBERNETES / "base/ray-cluster.yaml"


def test_the_head_takes_no_replicators(cluster: Manifest) -> None:
    """Its logical CPUs are none."""
    assert cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_replicators_scale(cluster: Manifest) -> None:
    """One worker group, from a few to many, by Ray's own autoscaler."""
    spec = cluster["spec"]
    assert spec["enableInTreeAutoscaling"] is True
    assert spec["autoscalerOptions"]["version"] == "v2"
    [group] = spec["workerGroupSpecs"]
    assert group["groupName"] == "replicators"
    assert 0 < group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    # Ray takes a pod's CPU limit, or its request where there is none, as its logical CPUs; a replicator asks for one.
    assert _container(group)["resources"]["requests"]["cpu"] == "1"


def test_every_container_is_ours_and_bounded(cluster: Manifest) -> None:
    """One image for all, memory requested in full; test_confinement has what they may do."""
    for group in _groups(cluster):
        container = _container(group)
        assert container["image"] == f"mirror-ray:{mirror_ray.__version__}"
        assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]


def test_the_job_uses_that_cluster_and_a_command_that_there_is(cluster: Manifest) -> None:
    """It selects the cluster by the name that it has, and the command line takes its arguments."""
    [job] = read(KUBERNETES / "base/ray-job.yaml")
    assert job["spec"]["clusterSelector"]["ray.io/cluster"] == cluster["metadata"]["name"]
    program, command, *arguments = shlex.split(job["spec"]["entrypoint"])
    assert program == "mirror-ray"
    context = typer.main.get_command(app).commands[command].make_context(command, arguments)  # type: ignore[attr-defined]
    mounts = {
        entry["name"]: entry["mountPath"] for entry in _container(cluster["spec"]["headGroupSpec"])["volumeMounts"]
    }
    [generated] = yaml.safe_load((_EXAMPLE / "kustomization.yaml").read_text())["configMapGenerator"]
    assert str(context.params["config"]) == f"{mounts['configuration']}/{generated['files'][0]}"
    assert context.params["detach"] is True


def test_the_gateway_is_where_all_look_for_it(cluster: Manifest) -> None:
    """Service, pod monitors and network policy name ports that the pods have, and the gateway's is the default one."""
    assert _port(cluster, "gateway") == GATEWAY_PORT
    [service] = read(KUBERNETES / "base/service.yaml")
    assert service["spec"]["ports"] == [{"name": "gateway", "port": GATEWAY_PORT, "targetPort": "gateway"}]
    ports = {entry["name"] for group in _groups(cluster) for entry in _container(group)["ports"]}
    [policy] = read(KUBERNETES / "base/network-policy.yaml")
    assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule.get("ports", [])} <= ports
    monitors = read(KUBERNETES / "components/monitoring/pod-monitors.yaml")
    # By TLS, as the example's configuration has it, under the service's name, by the certificate that the head mounts.
    endpoints = [endpoint for monitor in monitors for endpoint in monitor["spec"]["podMetricsEndpoints"]]
    [scraped] = [endpoint for endpoint in endpoints if endpoint["port"] == "gateway"]
    assert scraped["scheme"] == "https"
    assert scraped["tlsConfig"]["serverName"] == f"{service['metadata']['name']}.mirror-ray.svc"
    volumes = cluster["spec"]["headGroupSpec"]["template"]["spec"]["volumes"]
    secrets = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    assert scraped["tlsConfig"]["ca"]["secret"]["name"] in secrets
    for endpoint in endpoints:
        assert endpoint["port"] in ports
        assert endpoint.get("path", "/metrics") == "/metrics"


def test_all_select_pods_of_that_cluster(cluster: Manifest) -> None:
    """Every selector names the cluster by the label that KubeRay gives its pods."""
    label = {"ray.io/cluster": cluster["metadata"]["name"]}
    for manifest in (manifest for path in _FILES for manifest in read(path)):
        spec = manifest["spec"]
        match manifest["kind"]:
            case "NetworkPolicy":
                assert label.items() <= spec["podSelector"]["matchLabels"].items()
            case "PodDisruptionBudget" | "PodMonitor":
                assert label.items() <= spec["selector"]["matchLabels"].items()
            case "Service":
                assert label.items() <= spec["selector"].items()


def test_the_examples_configuration_is_one(cluster: Manifest, tmp_path: Path) -> None:
    """Its secrets are where the pods mount them, its gateway is reachable, its bounds are within the autoscaler's."""
    mounted = {entry["mountPath"] for entry in _container(cluster["spec"]["headGroupSpec"])["volumeMounts"]}
    kept = ("credentials/east-password", "credentials/west-password", "gateway/alice")
    authority = CertificateAuthority(tmp_path / "authority")
    pair = authority.keystore("gateway", "PEM").read_text()
    files = {
        **{secret: f"what-{Path(secret).name}-holds\n" for secret in kept},
        **{f"tls/{name}-ca.crt": authority.certificate_path.read_text() for name in ("east", "west")},
        **{f"gateway-tls/tls.{name}": pair for name in ("crt", "key")},
    }
    assert {f"{_SECRETS}/{file.partition('/')[0]}" for file in files} <= mounted
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    path = tmp_path / "mirror.yaml"
    path.write_text((_EXAMPLE / "mirror.yaml").read_text().replace(_SECRETS, str(tmp_path)))
    settings = load_settings(path).settings
    assert settings.gateway.host == "0.0.0.0"  # noqa: S104 - compared, not listened on
    assert settings.gateway.port == GATEWAY_PORT
    assert settings.gateway.tls is not None
    [alice] = settings.gateway.tokens
    assert (alice.user, alice.may, token_text(alice.token)) == ("alice", "act", "what-alice-holds")
    group = cluster["spec"]["workerGroupSpecs"][0]
    assert settings.elastic.max_replicators is not None
    assert settings.elastic.max_replicators <= group["maxReplicas"]
