"""NetworkPolicies as rules of nftables."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest

from tests.support.kubernetes.policy_rules import TABLE, script, selects

_NAMESPACES = {"ns": {"kubernetes.io/metadata.name": "ns"}, "far": {"kubernetes.io/metadata.name": "far"}}


def _pod(name: str, address: str, namespace: str = "ns", phase: str = "Running", **ports: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"containers": [{"ports": [{"name": port, "containerPort": ports[port]} for port in ports]}]},
        "status": {"podIP": address, "phase": phase},
    }


def _policy(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"podSelector": {"matchLabels": {"app": "a"}}} | spec}


_PODS = [
    _pod("a", "10.244.0.2", page=8484),
    _pod("b", "10.244.0.3"),
    _pod("b", "10.244.1.2", "far", dns=53),
    _pod("b", "10.244.0.9", phase="Failed"),
]


def _chain(made: str, name: str) -> list[str] | None:
    lines = [line.strip() for line in made.splitlines()]
    if f"chain {name} {{" not in lines:
        return None
    start = lines.index(f"chain {name} {{") + 1
    return lines[start : lines.index("}", start)]


def test_a_pod_that_no_policy_selects_is_open() -> None:
    """And one that is selected only for what comes in may go anywhere."""
    made = script([_policy(ingress=[{}])], _PODS, _NAMESPACES)
    assert _chain(made, "ingress_10_244_0_2") == ["return", "drop"]
    assert _chain(made, "egress_10_244_0_2") is None
    assert _chain(made, "ingress_10_244_0_3") is None
    assert "ip daddr vmap { 10.244.0.2 : jump ingress_10_244_0_2 }" in made


def test_pods_of_the_own_namespace_or_of_a_named_one_are_let_in() -> None:
    """At the ports that the pod has, which may be named; pods that have ended have no address any more."""
    own = {"podSelector": {"matchLabels": {"app": "b"}}}
    far = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "far"}}}
    ports = [{"port": "page"}, {"port": 80, "endPort": 90}, {"port": 53, "protocol": "UDP"}]
    made = script([_policy(ingress=[{"from": [own]}, {"from": [far], "ports": ports}])], _PODS, _NAMESPACES)
    assert _chain(made, "ingress_10_244_0_2") == [
        "ip saddr 10.244.0.3 return",
        "ip saddr 10.244.1.2 tcp dport 8484 return",
        "ip saddr 10.244.1.2 tcp dport 80-90 return",
        "ip saddr 10.244.1.2 udp dport 53 return",
        "drop",
    ]


def test_a_pod_gets_out_to_what_is_named_alone() -> None:
    """A named port is that of the pod at the other end; outside of the cluster there are only numbers."""
    to = [
        {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "b"}}},
        {"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.7/32"]}},
    ]
    egress = [{"to": to, "ports": [{"port": "dns"}, {"port": 9093}]}]
    made = script([_policy(policyTypes=["Egress"], egress=egress)], _PODS, _NAMESPACES)
    assert _chain(made, "egress_10_244_0_2") == [
        "ip daddr 10.244.0.3 tcp dport 9093 return",
        "ip daddr 10.244.1.2 tcp dport 53 return",
        "ip daddr 10.244.1.2 tcp dport 9093 return",
        "ip daddr 203.0.113.0/24 ip daddr != { 203.0.113.7/32 } tcp dport 9093 return",
        "drop",
    ]
    assert _chain(made, "ingress_10_244_0_2") is None
    assert _chain(made, "input") == [
        "type filter hook input priority filter; policy accept;",
        "ct state established,related accept",
        "ip saddr vmap { 10.244.0.2 : jump egress_10_244_0_2 }",
    ]


def test_a_policy_without_rules_lets_nothing_through() -> None:
    """In both directions."""
    made = script([_policy(policyTypes=["Ingress", "Egress"])], _PODS, _NAMESPACES)
    assert _chain(made, "ingress_10_244_0_2") == _chain(made, "egress_10_244_0_2") == ["drop"]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ({"key": "a", "operator": "In", "values": ["1"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "b", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "b", "operator": "DoesNotExist"}, True),
    ],
)
def test_a_selector_may_be_an_expression(expression: dict[str, Any], found: bool) -> None:
    """With each of its operators."""
    assert selects({"matchExpressions": [expression]}, {"a": "1"}) is found


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("nft"), reason="only root asks the kernel, by nft")
def test_the_kernel_takes_the_rules() -> None:
    """In a network namespace of their own; the next ones take their place."""
    egress = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": 1}]}]
    first = script([_policy(ingress=[{}], egress=egress)], _PODS, _NAMESPACES)
    both = first + script([_policy(policyTypes=["Egress"], egress=[{"ports": [{"protocol": "UDP"}]}])], _PODS, {})
    shown = ["unshare", "--net", "sh", "-c", f"nft -f - && nft list table inet {TABLE}"]
    done = subprocess.run(shown, input=both, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ingress_10_244_0_2" not in done.stdout
    assert "meta l4proto udp return" in done.stdout
