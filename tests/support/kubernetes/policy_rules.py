"""NetworkPolicies as rules of nftables: by the rules of networking.k8s.io/v1, for the addresses that pods have now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

Object = dict[str, Any]
Direction = Literal["ingress", "egress"]
#: The labels of namespaces by their names.
Namespaces = Mapping[str, Mapping[str, str]]

TABLE = "mirror-ray-policies"


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Whether a selector finds what bears these labels."""
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    for expression in selector.get("matchExpressions", []):
        value = labels.get(expression["key"])
        holds = {
            "In": value in expression.get("values", []),
            "NotIn": value not in expression.get("values", []),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not holds[expression["operator"]]:
            return False
    return True


def script(policies: Iterable[Object], pods: Iterable[Object], namespaces: Namespaces) -> str:
    """What ``nft -f`` is told: all rules anew, at one moment."""
    known = list(policies)
    there = [pod for pod in pods if _address(pod) and pod["status"].get("phase") not in {"Succeeded", "Failed"}]
    chains: dict[Direction, dict[str, list[str]]] = {"ingress": {}, "egress": {}}
    for pod in there:
        for direction, made in chains.items():
            selecting = [policy for policy in known if _is_for(policy, pod, direction)]
            if selecting:
                made[_address(pod)] = list(_lines(selecting, pod, direction, there, namespaces))
    lines = [f"table inet {TABLE}", f"delete table inet {TABLE}", f"table inet {TABLE} {{"]
    for direction, made in chains.items():
        for address, rules in made.items():
            lines += [f"  chain {_chain(direction, address)} {{", *(f"    {rule}" for rule in rules), "  }"]
    out, into = (_jumps(direction, chains[direction]) for direction in ("egress", "ingress"))
    lines += _hook("forward", [*out, *into]) + _hook("input", out)
    return "\n".join([*lines, "}", ""])


def _hook(hook: str, jumps: list[str]) -> list[str]:
    head = f"    type filter hook {hook} priority filter; policy accept;"
    return [f"  chain {hook} {{", head, "    ct state established,related accept", *jumps, "  }"]


def _jumps(direction: Direction, made: Mapping[str, object]) -> list[str]:
    if not made:
        return []
    side = "saddr" if direction == "egress" else "daddr"
    entries = ", ".join(f"{address} : jump {_chain(direction, address)}" for address in made)
    return [f"    ip {side} vmap {{ {entries} }}"]


def _chain(direction: Direction, address: str) -> str:
    return f"{direction}_{address.replace('.', '_')}"


def _address(pod: Object) -> str:
    return str(pod.get("status", {}).get("podIP", ""))


def _is_for(policy: Object, pod: Object, direction: Direction) -> bool:
    spec, metadata = policy["spec"], pod["metadata"]
    kinds = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    return (
        policy["metadata"]["namespace"] == metadata["namespace"]
        and direction.capitalize() in kinds
        and selects(spec.get("podSelector", {}), metadata.get("labels", {}))
    )


def _lines(
    policies: list[Object], pod: Object, direction: Direction, pods: list[Object], namespaces: Namespaces
) -> Iterator[str]:
    """What a pod's chain lets through: it returns from it, and the rest is dropped."""
    for policy in policies:
        for rule in policy["spec"].get(direction, []):
            for addresses, target in _peers(rule, policy, pod, direction, pods, namespaces):
                for port in _ports(rule, target):
                    yield " ".join(part for part in (addresses, port, "return") if part)
    yield "drop"


def _peers(
    rule: Object, policy: Object, pod: Object, direction: Direction, pods: list[Object], namespaces: Namespaces
) -> Iterator[tuple[str, Object | None]]:
    """A match of addresses for each peer, with the pod whose ports may be named: none, outside of the cluster."""
    key, side = ("from", "saddr") if direction == "ingress" else ("to", "daddr")
    own = pod if direction == "ingress" else None
    if not rule.get(key):
        yield "", own
        return
    for peer in rule[key]:
        if "ipBlock" in peer:
            block = peer["ipBlock"]
            kept_out = f" ip {side} != {{ {', '.join(block['except'])} }}" if block.get("except") else ""
            yield f"ip {side} {block['cidr']}{kept_out}", own
            continue
        for other in pods:
            if _is_peer(peer, other, policy["metadata"]["namespace"], namespaces):
                yield f"ip {side} {_address(other)}", own or other


def _is_peer(peer: Object, pod: Object, namespace: str, namespaces: Namespaces) -> bool:
    metadata = pod["metadata"]
    if "namespaceSelector" in peer:
        is_there = selects(peer["namespaceSelector"], namespaces.get(metadata["namespace"], {}))
    else:
        is_there = metadata["namespace"] == namespace
    return is_there and selects(peer.get("podSelector", {}), metadata.get("labels", {}))


def _ports(rule: Object, target: Object | None) -> Iterator[str]:
    """A match for each port; of none, where a rule names none, one of all."""
    if not rule.get("ports"):
        yield ""
        return
    for entry in rule["ports"]:
        protocol, port = entry.get("protocol", "TCP").lower(), entry.get("port")
        if port is None:
            yield f"meta l4proto {protocol}"
        elif isinstance(port, int):
            yield f"{protocol} dport {port}" + (f"-{entry['endPort']}" if "endPort" in entry else "")
        elif target is not None:
            for container in target["spec"]["containers"]:
                for one in container.get("ports", []):
                    if one.get("name") == port and one.get("protocol", "TCP").lower() == protocol:
                        yield f"{protocol} dport {one['containerPort']}"
