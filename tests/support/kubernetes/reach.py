"""Which connections NetworkPolicies let through, by the rules of networking.k8s.io/v1."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.kubernetes.manifests import Manifest


@dataclass(frozen=True)
class Place:
    """A pod: its namespace, labels and named ports; or, without a namespace, an address outside of Kubernetes."""

    namespace: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    address: str = "198.51.100.1"


def lets_through(policies: Iterable[Manifest], source: Place, target: Place, port: int, protocol: str = "TCP") -> bool:
    """Whether a connection is let out by what selects its source and in by what selects its target.

    ``policies`` with their namespace in the metadata. A pod that no policy selects for a direction is open in it.
    """
    known = list(policies)
    out = _allows(known, "egress", of=source, other=target, target=target, port=port, protocol=protocol)
    return out and _allows(known, "ingress", of=target, other=source, target=target, port=port, protocol=protocol)


def _allows(
    policies: list[Manifest],
    direction: Literal["ingress", "egress"],
    *,
    of: Place,
    other: Place,
    target: Place,
    port: int,
    protocol: str,
) -> bool:
    selecting = [
        policy
        for policy in policies
        if policy["metadata"]["namespace"] == of.namespace
        and direction.capitalize() in policy["spec"]["policyTypes"]
        and _selects(policy["spec"]["podSelector"], of.labels)
    ]
    peers = "from" if direction == "ingress" else "to"
    return not selecting or any(
        _is_port(rule, target, port, protocol)
        and (peers not in rule or any(_is_peer(peer, other, policy["metadata"]["namespace"]) for peer in rule[peers]))
        for policy in selecting
        for rule in policy["spec"].get(direction, [])
    )


def _is_port(rule: dict[str, Any], target: Place, port: int, protocol: str) -> bool:
    return "ports" not in rule or any(
        entry.get("protocol", "TCP") == protocol and target.ports.get(entry["port"], entry["port"]) == port
        for entry in rule["ports"]
    )


def _is_peer(peer: dict[str, Any], place: Place, namespace: str) -> bool:
    if "ipBlock" in peer:
        return place.namespace is None and ipaddress.ip_address(place.address) in ipaddress.ip_network(
            peer["ipBlock"]["cidr"]
        )
    if place.namespace is None:
        return False
    # A namespace bears its own name as a label, which nobody can give it else.
    of_namespace = {"kubernetes.io/metadata.name": place.namespace}
    in_namespace = (
        _selects(peer["namespaceSelector"], of_namespace)
        if "namespaceSelector" in peer
        else place.namespace == namespace
    )
    return in_namespace and _selects(peer.get("podSelector", {}), place.labels)


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    by_label = selector.get("matchLabels", {}).items() <= labels.items()
    expressions = selector.get("matchExpressions", [])
    assert {expression["operator"] for expression in expressions} <= {"In"}
    return by_label and all(labels.get(expression["key"]) in expression["values"] for expression in expressions)
