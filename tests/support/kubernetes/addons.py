"""What a cluster has before anything of ours is in it: its DNS (CoreDNS), and the KubeRay operator with its manifests.

Both are pods: their images are root file systems with one program.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.kubernetes import machine
from tests.support.kubernetes.binaries import Binaries
from tests.support.kubernetes.kubectl import Kubectl
from tests.support.kubernetes.manifests import Manifest

KUBERAY_NAMESPACE = "kuberay-system"
_DNS_IMAGE = "coredns"
_DNS = {"k8s-app": "kube-dns"}


def images(programs: Binaries, directory: Path) -> Mapping[str, Path]:
    """The root file systems of both, by the names of their images."""
    operator = f"quay.io/kuberay/operator:{programs.versions['kuberay']}"
    return {
        _DNS_IMAGE: _image(directory / "coredns", programs.path("coredns"), "/coredns", {"Entrypoint": ["/coredns"]}),
        # The user is that of the operator's Dockerfile.
        operator: _image(directory / "kuberay", programs.path("ray-operator"), "/manager", {"User": "65532:65532"}),
    }


def install_dns(kubectl: Kubectl, hosts: Mapping[str, str]) -> None:
    """CoreDNS; ``hosts`` are names outside the cluster, with their addresses."""
    kubectl.within("kube-system").apply(*_dns(hosts))


def install_kuberay(kubectl: Kubectl, programs: Binaries, directory: Path) -> None:
    """The definitions of its resources, its rights, and its Deployment, as its module has them."""
    config = directory / "kuberay"
    shutil.copytree(programs.kuberay / "config", config, copy_function=shutil.copyfile)
    for path in [config, *config.rglob("*/")]:
        path.chmod(0o755)
    overlay = {"namespace": KUBERAY_NAMESPACE, "resources": ["default"]}
    (config / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    kubectl("create", "namespace", KUBERAY_NAMESPACE)
    kubectl.within(KUBERAY_NAMESPACE)("apply", "--server-side", "-k", str(config))


def install_prometheus_definitions(kubectl: Kubectl, programs: Binaries) -> None:
    """Of the resources of the Prometheus operator; it itself is not there."""
    definitions = programs.prometheus / "example" / "prometheus-operator-crd"
    for name in ("podmonitors", "prometheusrules"):
        kubectl("apply", "--server-side", "-f", str(definitions / f"monitoring.coreos.com_{name}.yaml"))


def _image(directory: Path, program: str, path: str, config: Mapping[str, Any]) -> Path:
    root = directory / "rootfs"
    root.mkdir(parents=True)
    try:
        os.link(program, root / path.lstrip("/"))
    except OSError:
        shutil.copy2(program, root / path.lstrip("/"))
    root.with_name("rootfs.json").write_text(json.dumps(config))
    return root


def _dns(hosts: Mapping[str, str]) -> list[Manifest]:
    rights = [
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    name = {"name": "coredns", "namespace": "kube-system"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": name},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": rights,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", **name}],
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"Corefile": _corefile(hosts)}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": name,
            "spec": {"selector": {"matchLabels": _DNS}, "template": {"metadata": {"labels": _DNS}, "spec": _dns_pod()}},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": _DNS},
            "spec": {
                "clusterIP": machine.DNS_SERVICE,
                "selector": _DNS,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                ],
            },
        },
    ]


def _corefile(hosts: Mapping[str, str]) -> str:
    outside = "".join(f"        {address} {name}\n" for name, address in hosts.items())
    return (
        f".:53 {{\n    errors\n    ready\n    hosts {{\n{outside}        fallthrough\n    }}\n"
        f"    kubernetes {machine.DOMAIN}\n}}\n"
    )


def _dns_pod() -> dict[str, Any]:
    return {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "containers": [
            {
                "name": "coredns",
                "image": _DNS_IMAGE,
                "args": ["-conf", "/etc/coredns/Corefile"],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 2},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
