"""Addresses of a node's pods, and the pair of devices by which a pod is reached.

Pods are routed, not bridged: all traffic between them passes the machine's own rules, those of kube-proxy among them.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from pathlib import Path

_GATEWAY = "169.254.1.1"
_GATEWAY_MAC = "ee:ee:ee:ee:ee:ee"


class NetworkError(Exception):
    """A pod's network could not be made."""


class PodAddresses:
    """Which addresses of a node's range are free. The first is left to the node."""

    def __init__(self, cidr: str) -> None:
        self._free = [str(address) for address in list(ipaddress.ip_network(cidr).hosts())[1:]]

    def take(self) -> str:
        """The address that has been free for longest.

        Raises:
            NetworkError: There is none.
        """
        if not self._free:
            raise NetworkError("no address of the node's range is free: delete pods, or give the node a wider range")
        return self._free.pop(0)

    def give_back(self, address: str) -> None:
        """A pod that had it is gone."""
        self._free.append(address)


def device_of(uid: str) -> str:
    """The name of a pod's device on the machine's side; the kernel takes 15 letters."""
    return "pod" + uid.replace("-", "")[:12]


def pod_side(address: str) -> list[str]:
    """What ``ip -batch`` is told in the pod's network."""
    return [
        "link set lo up",
        f"address add {address}/32 dev eth0",
        "link set eth0 up",
        f"route add {_GATEWAY} dev eth0 scope link",
        f"route add default via {_GATEWAY} dev eth0",
        f"neigh replace {_GATEWAY} lladdr {_GATEWAY_MAC} dev eth0 nud permanent",
    ]


def machine_side(uid: str, address: str, node_address: str) -> list[str]:
    """What ``ip -batch`` is told in the machine's network."""
    device = device_of(uid)
    return [
        f"link set {device} address {_GATEWAY_MAC}",
        f"link set {device} up",
        f"route replace {address}/32 dev {device} scope link src {node_address}",
    ]


async def connect(sandbox_pid: int, uid: str, address: str, node_address: str) -> None:
    """Give a pod's sandbox its address, and a route to it. All of it ends with the sandbox.

    Raises:
        NetworkError: One of the commands failed.
    """
    await _run("ip", "link", "add", device_of(uid), "type", "veth", "peer", "name", "eth0", "netns", str(sandbox_pid))
    inside = ("nsenter", "-t", str(sandbox_pid), "-n", "--", "ip", "-batch", "-")
    await _run(*inside, given="\n".join(pod_side(address)))
    await _run("ip", "-batch", "-", given="\n".join(machine_side(uid, address, node_address)))


async def _run(*command: str, given: str = "") -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    printed, _ = await process.communicate(given.encode())
    if process.returncode != 0:
        raise NetworkError(f"{' '.join(command)}: {printed.decode().strip()}")


def resolver(pod: Mapping[str, object], namespace: str, dns_address: str, domain: str) -> str:
    """The ``resolv.conf`` of a pod; without a DNS of the cluster, that of the machine."""
    if not dns_address or pod.get("dnsPolicy") == "Default":
        return Path("/etc/resolv.conf").read_text()
    search = f"{namespace}.svc.{domain} svc.{domain} {domain}"
    return f"search {search}\nnameserver {dns_address}\noptions ndots:5\n"


def hosts(pod: Mapping[str, object], hostname: str, address: str, domain: str, namespace: str) -> str:
    """The ``/etc/hosts`` of a pod."""
    names = hostname
    if pod.get("subdomain"):
        names = f"{hostname}.{pod['subdomain']}.{namespace}.svc.{domain}\t{hostname}"
    lines = ["# Kubernetes-managed hosts file.", "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines.append(f"{address}\t{names}")
    aliases = pod.get("hostAliases")
    if isinstance(aliases, list):
        lines += [f"{alias['ip']}\t{' '.join(alias['hostnames'])}" for alias in aliases]
    return "\n".join(lines) + "\n"
