"""The network of a Kubernetes cluster on one machine: a network namespace with an address for each node.

All runs in one namespace: the control plane, the nodes, and what is outside the cluster. Each pod has one of its own.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.support.kubernetes.binaries import Binaries

CONTROL_PLANE = "10.250.0.1"
NODES = {"node-1": "10.250.0.11", "node-2": "10.250.0.12", "node-3": "10.250.0.13"}
#: Addresses outside the cluster, where brokers are.
OUTSIDE = ("203.0.113.10", "203.0.113.20")
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
DOMAIN = "cluster.local"
API_URL = f"https://{CONTROL_PLANE}:6443"

_DEVICE = "machine0"


def make_network(programs: Binaries, directory: Path) -> None:
    """Give this network namespace the addresses of all machines. Exits where it is the machine's own."""
    others = {name for _, name in socket.if_nameindex()} - {"lo"}
    if others - {_DEVICE}:
        sys.exit(
            f"this would change the machine's own network ({', '.join(sorted(others))} are there):"
            " run it below `unshare --net --mount`, as `make kubernetes` does"
        )
    ip = programs.path("ip")
    _run(ip, "link", "set", "lo", "up")
    if _DEVICE in others:
        return
    # A bridge without ports: a device that every kernel has.
    _run(ip, "link", "add", _DEVICE, "type", "bridge")
    for address in (CONTROL_PLANE, *NODES.values(), *OUTSIDE):
        _run(ip, "address", "add", f"{address}/32", "dev", _DEVICE)
    _run(ip, "link", "set", _DEVICE, "up")
    # A service's address is nobody's: packets to it need a route, so that they come as far as kube-proxy's rules.
    _run(ip, "route", "add", "default", "dev", _DEVICE)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # The DNS of the machine is out of reach here, and brokers look up who connects: nobody answers, at once.
    nowhere = directory / "resolv.conf"
    nowhere.write_text("nameserver 127.0.0.1\n")
    _run(programs.path("mount"), "--bind", str(nowhere), "/etc/resolv.conf")


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
