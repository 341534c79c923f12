"""The nodes of a cluster: for each the stand-in for its kubelet, a process; and what holds pods to network policies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from mirror_ray.lab.devcluster.process import GuardedProcess
from tests.support.kubernetes import machine
from tests.support.kubernetes.control_plane import ControlPlane

_PROJECT = Path(__file__).parents[3]
_STOP_S = 90.0


class Nodes:
    """A context manager that starts a node of each name, with images by their names, and stops it."""

    def __init__(
        self, control_plane: ControlPlane, images: Mapping[str, Path], *, cpus: int = 4, memory: str = "12Gi"
    ) -> None:
        self._processes: dict[str, GuardedProcess] = {}
        self._commands: dict[str, list[str]] = {}
        for number, (node, address) in enumerate(machine.NODES.items(), start=1):
            directory = control_plane.directory / node
            directory.mkdir(exist_ok=True)
            identity = control_plane.node_identity(node)
            self._processes[node] = GuardedProcess(node, directory / "kubelet.log")
            self._commands[node] = [
                *(sys.executable, "-m", "tests.support.kubernetes.kubelet"),
                *("--kubeconfig", str(control_plane.node_kubeconfig(node, identity))),
                *("--node", node, "--address", address, "--zone", f"zone-{number}"),
                *("--cpu", str(cpus), "--memory", memory),
                *("--cluster-dns", machine.DNS_SERVICE, "--state", str(directory)),
                *("--serving-cert", str(identity.certificate), "--serving-key", str(identity.key)),
                *(argument for name, root in images.items() for argument in ("--rootfs", f"{root}={name}")),
            ]
        self._policies = GuardedProcess("network policies", control_plane.directory / "network-policy.log")
        self._kubeconfig = control_plane.admin_kubeconfig

    def __enter__(self) -> Self:
        try:
            command = [sys.executable, "-m", "tests.support.kubernetes.network_policy"]
            self._policies.run([*command, "--kubeconfig", str(self._kubeconfig)], directory=_PROJECT)
            for node in self._processes:
                self.start(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait_stopped(_STOP_S)
        self._policies.stop()

    def start(self, node: str) -> None:
        """Start a node's kubelet, which makes the node known."""
        self._processes[node].run(self._commands[node], directory=_PROJECT)

    def lose(self, node: str) -> None:
        """End a node with all of its pods, at once and without a word."""
        self._processes[node].kill()

    def running(self) -> Sequence[str]:
        """The nodes whose kubelets run."""
        return [node for node, process in self._processes.items() if process.running]
