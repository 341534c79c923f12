"""Finds the scope of a key of ``mm2.properties``: the file, a cluster, one of its clients, a worker, or a flow."""

from __future__ import annotations

from collections.abc import Sequence

from mirror_ray.config import keys as table
from mirror_ray.config.keys import ConfigKey, KeyUse, find_key, nearest

_CLIENT_SCOPES = {"consumer.": table.CONSUMER_KEYS, "producer.": table.PRODUCER_KEYS, "admin.": table.ADMIN_KEYS}
#: Prefixes of client keys within a flow whose keys take effect.
_FLOW_CLIENT_SCOPES = {
    "consumer.": table.CONSUMER_KEYS,
    "source.consumer.": table.CONSUMER_KEYS,
    "producer.override.": table.PRODUCER_KEYS,
}
_CLUSTER_ROWS = (*table.CLUSTER_KEYS, *table.REGISTRY_KEYS)
_CONNECTION_IN_FLOW = ConfigKey(
    "", KeyUse.REFUSED, "connections belong to a cluster: write ALIAS.KEY, or give the cluster a second alias"
)


def place_key(full: str, aliases: Sequence[str]) -> ConfigKey | str:
    """Find the row of a key as it is written in the file.

    Returns:
        The row; for an unknown key a sentence with the mistake.
    """
    exact = find_key((*table.DRIVER_KEYS, *table.FLOW_KEYS, *_CLUSTER_ROWS), full)
    if exact is not None and exact.name == full:
        return exact
    if "->" in full:
        return _place_in_flow(full, aliases)
    alias = max((a for a in aliases if full.startswith(f"{a}.")), key=len, default=None)
    if alias is not None:
        return _place_in_cluster(alias, full.removeprefix(f"{alias}."))
    row = exact or find_key(table.WORKER_KEYS, full)
    if row is not None:
        return row
    return _unknown_at_top(full, aliases)


def _place_in_flow(full: str, aliases: Sequence[str]) -> ConfigKey | str:
    flows = [f"{source}->{target}" for source in aliases for target in aliases if source != target]
    flow = max((f for f in flows if full.startswith(f"{f}.")), key=len, default=None)
    if flow is None:
        return _unknown_flow(full, aliases)
    rest = full.removeprefix(f"{flow}.")
    for prefix, rows in _FLOW_CLIENT_SCOPES.items():
        if rest.startswith(prefix):
            name = rest.removeprefix(prefix)
            if find_key(table.CLUSTER_KEYS, name) is not None:
                return _CONNECTION_IN_FLOW
            return _place(name, rows, f"{flow}.{prefix}")
    row = find_key(table.FLOW_KEYS, rest)
    if row is not None:
        return row
    if find_key(_CLUSTER_ROWS, rest) is not None:
        return _CONNECTION_IN_FLOW
    worker = find_key(table.WORKER_KEYS, rest)
    return worker if worker is not None else _place(rest, table.FLOW_KEYS, f"{flow}.")


def _place_in_cluster(alias: str, rest: str) -> ConfigKey | str:
    for prefix, rows in _CLIENT_SCOPES.items():
        if rest.startswith(prefix):
            return _place(rest.removeprefix(prefix), rows, f"{alias}.{prefix}")
    row = find_key((*_CLUSTER_ROWS, *table.WORKER_KEYS), rest)
    if row is not None:
        return row
    if find_key(table.FLOW_KEYS, rest) is not None:
        return f"{rest} is a key of flows, not of a cluster: write {alias}->TARGET.{rest} or SOURCE->{alias}.{rest}"
    for prefix, rows in _CLIENT_SCOPES.items():
        if find_key(rows, rest) is not None:
            return f"{rest} is a key of clients: write {alias}.{prefix}{rest}"
    client_keys = (f"{prefix}{key.name}" for prefix, rows in _CLIENT_SCOPES.items() for key in rows)
    names = (*(key.name for key in (*_CLUSTER_ROWS, *table.WORKER_KEYS)), *client_keys)
    return "unknown key" + nearest(f"{alias}.{rest}", (f"{alias}.{name}" for name in names))


def _place(name: str, rows: tuple[ConfigKey, ...], prefix: str) -> ConfigKey | str:
    row = find_key(rows, name)
    if row is not None:
        return row
    return "unknown key" + nearest(f"{prefix}{name}", (f"{prefix}{key.name}" for key in rows))


def _unknown_flow(full: str, aliases: Sequence[str]) -> str:
    source, _, rest = full.partition("->")
    target = next((a for a in sorted(aliases, key=len, reverse=True) if rest.startswith(f"{a}.")), rest.split(".")[0])
    if source == target and source in aliases:
        return f"a flow from {source} to itself; write SOURCE->TARGET with two aliases"
    unknown = [alias for alias in (source, target) if alias not in aliases]
    return "; ".join(_not_a_cluster(alias, aliases) for alias in unknown)


def _not_a_cluster(alias: str, aliases: Sequence[str]) -> str:
    return f"{alias!r} is not one of the clusters ({', '.join(aliases)}){nearest(alias, aliases)}"


def _unknown_at_top(full: str, aliases: Sequence[str]) -> str:
    first, dot, rest = full.partition(".")
    is_cluster_key = find_key((*_CLUSTER_ROWS, *table.WORKER_KEYS), rest) is not None
    if dot and (is_cluster_key or rest.startswith(tuple(_CLIENT_SCOPES))):
        return _not_a_cluster(first, aliases)
    names = (key.name for key in (*table.DRIVER_KEYS, *table.FLOW_KEYS, *_CLUSTER_ROWS))
    for prefix, rows in _CLIENT_SCOPES.items():
        if find_key(rows, full) is not None:
            return f"a client key without an alias: write ALIAS.{prefix}{full}"
    return "unknown key" + nearest(full, names)
