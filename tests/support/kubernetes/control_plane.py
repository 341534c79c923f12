"""A Kubernetes control plane: etcd, API server, controller manager, scheduler and kube-proxy, with RBAC and admission.

    unshare --net --mount -- python -m tests.support.kubernetes.control_plane --directory DIR

runs it until SIGTERM; `nsenter -t $(cat DIR/pid) -n -m` enters its network.
"""

from __future__ import annotations

import argparse
import os
import signal
import ssl
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import yaml

from mirror_ray.lab.devcluster.process import START_S, GuardedProcess
from tests.support.kubernetes import machine
from tests.support.kubernetes.binaries import Binaries, binaries
from tests.support.kubernetes.pki import ClusterPki, Identity

_ETCD_URL = "http://127.0.0.1:2379"
_ISSUER = f"https://kubernetes.default.svc.{machine.DOMAIN}"


class ControlPlane:
    """A context manager that starts and stops it; its files are below ``directory``, logs included."""

    def __init__(self, programs: Binaries, directory: Path) -> None:
        self._programs, self.directory = programs, directory.absolute()
        self._running: list[GuardedProcess] = []
        self.directory.mkdir(parents=True, exist_ok=True)
        #: Who signs all certificates of the cluster.
        self.pki = ClusterPki(self.directory / "pki")
        #: Of a user who may do everything.
        self.admin_kubeconfig = self._kubeconfig("admin", "kubernetes-admin", "system:masters")

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._stop)
            machine.make_network(self._programs, self.directory)
            self._start()
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def node_identity(self, node: str) -> Identity:
        """The certificate of a node's kubelet, as a client and as a server."""
        return self.pki.issue(node, f"system:node:{node}", groups=["system:nodes"], hosts=[node, machine.NODES[node]])

    def node_kubeconfig(self, node: str, identity: Identity) -> Path:
        """The file by which a node's kubelet reaches the API."""
        return self.pki.kubeconfig(self.directory / f"kubelet-{node}.kubeconfig", identity, machine.API_URL)

    def _start(self) -> None:
        tokens = self.pki.key_pair("service-accounts")
        self._run("etcd", *_etcd(self.directory / "etcd"))
        self._run("kube-apiserver", *self._api_server(tokens)).wait_ready(self._api_is_ready, START_S)
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self._kubeconfig('controller-manager', 'system:kube-controller-manager')}",
            f"--root-ca-file={self.pki.authority}",
            f"--service-account-private-key-file={tokens.key}",
            "--use-service-account-credentials",
            "--allocate-node-cidrs",
            f"--cluster-cidr={machine.POD_CIDR}",
            f"--service-cluster-ip-range={machine.SERVICE_CIDR}",
            "--leader-elect=false",
        )
        self._run(
            "kube-scheduler",
            f"--kubeconfig={self._kubeconfig('scheduler', 'system:kube-scheduler')}",
            "--leader-elect=false",
        )
        self._run("kube-proxy", f"--config={self._proxy_configuration()}")
        for node in machine.NODES:
            self.node_kubeconfig(node, self.node_identity(node))

    def _api_server(self, tokens: Identity) -> list[str]:
        hosts = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1"]
        serving = self.pki.issue(
            "kube-apiserver", "kube-apiserver", hosts=[*hosts, machine.CONTROL_PLANE, machine.API_SERVICE]
        )
        # The API server asks kubelets for logs and commands.
        asking = self.pki.issue("kubelet-client", "kube-apiserver-kubelet-client", groups=["system:masters"])
        return [
            f"--etcd-servers={_ETCD_URL}",
            f"--bind-address={machine.CONTROL_PLANE}",
            f"--advertise-address={machine.CONTROL_PLANE}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.pki.authority}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={tokens.certificate}",
            f"--service-account-signing-key-file={tokens.key}",
            f"--service-cluster-ip-range={machine.SERVICE_CIDR}",
            f"--kubelet-client-certificate={asking.certificate}",
            f"--kubelet-client-key={asking.key}",
            f"--kubelet-certificate-authority={self.pki.authority}",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _proxy_configuration(self) -> Path:
        """Of one kube-proxy, which serves all nodes: they share the namespace in which its rules are."""
        path = self.directory / "kube-proxy.yaml"
        configuration = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": str(self._kubeconfig("kube-proxy", "system:kube-proxy"))},
            "clusterCIDR": machine.POD_CIDR,
            "hostnameOverride": next(iter(machine.NODES)),
            "bindAddress": machine.CONTROL_PLANE,
            # The kernel's own: a network namespace may not change them.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
        path.write_text(yaml.safe_dump(configuration))
        return path

    def _kubeconfig(self, file_name: str, user: str, *groups: str) -> Path:
        identity = self.pki.issue(file_name, user, groups=groups)
        return self.pki.kubeconfig(self.directory / f"{file_name}.kubeconfig", identity, machine.API_URL)

    def _run(self, name: str, *arguments: str) -> GuardedProcess:
        process = GuardedProcess(name, self.directory / f"{name}.log")
        process.run([self._programs.path(name), *arguments])
        self._running.append(process)
        return process

    def _api_is_ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.pki.authority))
        try:
            with urllib.request.urlopen(f"{machine.API_URL}/readyz", context=context, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _stop(self) -> None:
        while self._running:
            self._running.pop().stop()


def _etcd(data: Path) -> list[str]:
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={_ETCD_URL}",
        f"--advertise-client-urls={_ETCD_URL}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        # The tests' data need not survive a power cut.
        "--unsafe-no-fsync",
    ]


def _main() -> None:
    parser = argparse.ArgumentParser(description="Run a Kubernetes control plane until SIGTERM.")
    parser.add_argument("--directory", type=Path, required=True)
    directory = parser.parse_args().directory
    stops = {signal.SIGTERM, signal.SIGINT}
    with ControlPlane(binaries(), directory) as control_plane:
        signal.pthread_sigmask(signal.SIG_BLOCK, stops)
        (directory / "pid").write_text(str(os.getpid()))
        sys.stdout.write(f"kubectl --kubeconfig {control_plane.admin_kubeconfig}\n")
        sys.stdout.flush()
        signal.sigwait(stops)


if __name__ == "__main__":
    _main()
