"""Who reaches the pods, and where they go: by the policies as they are applied."""

from __future__ import annotations

import copy

import pytest

from tests.support.kubernetes.manifests import KUBERNETES, Manifest, kustomize
from tests.support.kubernetes.pods import pods
from tests.support.kubernetes.reach import Place, lets_through

_NAMESPACE = "mirror-ray"
_PORTS = {"gcs": 6379, "dashboard": 8265, "metrics": 8080, "gateway": 8484}
_CLUSTER = {"ray.io/cluster": "mirror-ray"}

_HEAD = Place(_NAMESPACE, {**_CLUSTER, "ray.io/node-type": "head"}, _PORTS)
_WORKER = Place(_NAMESPACE, {**_CLUSTER, "ray.io/node-type": "worker"}, {"metrics": 8080})
_NEIGHBOUR = Place(_NAMESPACE, {"app": "else"})
_OTHER_RAY = Place("elsewhere", _CLUSTER)
_OPERATOR = Place("kuberay-system", {"app.kubernetes.io/name": "kuberay-operator"})
_PROMETHEUS = Place("monitoring", {"app.kubernetes.io/name": "prometheus"})
_INGRESS = Place("ingress-nginx", {"app.kubernetes.io/name": "ingress-nginx"})
_DNS = Place("kube-system", {"k8s-app": "kube-dns"})
_REDIS = Place(_NAMESPACE, {"app.kubernetes.io/name": "redis"})
_BROKER = Place("kafka", {"strimzi.io/kind": "Kafka"})
_FAR_BROKER = Place(address="203.0.113.7")
_KUBERNETES = Place(address="192.0.2.1")
_INTERNET = Place(address="8.8.8.8")

#: Any pod may give itself any label; its namespace's name it may not.
_SAYS_PROMETHEUS = Place("elsewhere", _PROMETHEUS.labels)
_SAYS_OPERATOR = Place("elsewhere", _OPERATOR.labels)
_SAYS_INGRESS = Place("elsewhere", _INGRESS.labels)
_SAYS_PROMETHEUS_BESIDE = Place(_NAMESPACE, _PROMETHEUS.labels)
_OTHER_IN_MONITORING = Place("monitoring", {"app": "grafana"})

_LET_THROUGH = [
    *(
        (source, target, port)
        for source in (_HEAD, _WORKER)
        for target in (_HEAD, _WORKER)
        for port in (6379, 8265, 31234)
    ),
    (_OPERATOR, _HEAD, 8265),
    (_PROMETHEUS, _HEAD, 8484),
    (_PROMETHEUS, _HEAD, 8080),
    (_PROMETHEUS, _WORKER, 8080),
    (_INGRESS, _HEAD, 8484),
    *((source, broker, 9093) for source in (_HEAD, _WORKER) for broker in (_BROKER, _FAR_BROKER)),
    (_HEAD, _REDIS, 6379),
    (_HEAD, _KUBERNETES, 6443),
]
_KEPT_OUT = [
    *(
        (who, _HEAD, port)
        for who in (_NEIGHBOUR, _OTHER_RAY, _INTERNET, _OTHER_IN_MONITORING)
        for port in (*_PORTS.values(), 31234)
    ),
    *((_SAYS_PROMETHEUS, _HEAD, port) for port in _PORTS.values()),
    *((_SAYS_PROMETHEUS_BESIDE, _HEAD, port) for port in _PORTS.values()),
    *((_SAYS_OPERATOR, _HEAD, port) for port in _PORTS.values()),
    (_SAYS_INGRESS, _HEAD, 8484),
    *((_PROMETHEUS, _HEAD, port) for port in (6379, 8265, 31234)),
    *((_OPERATOR, _HEAD, port) for port in (6379, 8080, 8484, 31234)),
    *((_INGRESS, _HEAD, port) for port in (6379, 8265, 8080)),
]
_KEPT_IN = [
    *((source, _INTERNET, port) for source in (_HEAD, _WORKER) for port in (80, 443, 9093)),
    (_WORKER, _KUBERNETES, 6443),
    (_WORKER, _REDIS, 6379),
    (_HEAD, _NEIGHBOUR, 80),
    (_HEAD, _BROKER, 22),
    (_HEAD, _DNS, 443),
]


@pytest.fixture(scope="module")
def applied() -> list[Manifest]:
    """Everything that the example overlay applies."""
    return kustomize(KUBERNETES / "overlays/example")


@pytest.fixture
def policies(applied: list[Manifest]) -> list[Manifest]:
    """Its network policies."""
    return [manifest for manifest in applied if manifest["kind"] == "NetworkPolicy"]


def _let_through(policies: list[Manifest], ways: list[tuple[Place, Place, int]]) -> list[tuple[Place, Place, int]]:
    return [way for way in ways if lets_through(policies, *way)]


def test_what_is_needed_is_let_through(policies: list[Manifest]) -> None:
    """Ray's pods to each other, KubeRay, Prometheus, an ingress controller; to brokers, Redis, Kubernetes, DNS."""
    assert _let_through(policies, _LET_THROUGH) == _LET_THROUGH
    assert all(
        lets_through(policies, pod, _DNS, 53, protocol) for pod in (_HEAD, _WORKER) for protocol in ("UDP", "TCP")
    )


def test_who_only_bears_a_label_is_kept_out(policies: list[Manifest]) -> None:
    """A pod of any namespace that called itself prometheus reached the gateway, with kuberay the dashboard."""
    assert _let_through(policies, _KEPT_OUT) == []


def test_what_runs_in_a_pod_gets_nowhere_else(policies: list[Manifest]) -> None:
    """Not to the internet, not to its neighbours; Redis and the Kubernetes API are the head's."""
    assert _let_through(policies, _KEPT_IN) == []


def test_the_base_alone_lets_nobody_out(policies: list[Manifest]) -> None:
    """Brokers are named by who deploys."""
    base = [
        {**manifest, "metadata": {**manifest["metadata"], "namespace": _NAMESPACE}}
        for manifest in kustomize(KUBERNETES / "base")
    ]
    alone = [manifest for manifest in base if manifest["kind"] == "NetworkPolicy"]
    assert len(alone) < len(policies)
    outside = (_BROKER, _FAR_BROKER, _REDIS, _KUBERNETES, _INTERNET)
    assert _let_through(alone, [(pod, target, 9093) for pod in (_HEAD, _WORKER) for target in outside]) == []


def test_each_rule_is_needed(policies: list[Manifest]) -> None:
    """Without any one of them something that is needed fails: there is none too many."""
    needed = [*_LET_THROUGH, (_HEAD, _DNS, 53)]
    for number, policy in enumerate(policies):
        for direction in ("ingress", "egress"):
            for rule in range(len(policy["spec"].get(direction, []))):
                fewer = copy.deepcopy(policies)
                del fewer[number]["spec"][direction][rule]
                assert _let_through(fewer, needed) != needed


def test_the_ports_are_the_heads(applied: list[Manifest]) -> None:
    """Policies name them; else they would let in nobody."""
    [cluster] = [manifest for manifest in applied if manifest["kind"] == "RayCluster"]
    assert {port["name"]: port["containerPort"] for port in pods(cluster)["head"]["containers"][0]["ports"]} == _PORTS
