"""What must hold of resolved settings beyond the types of their fields; the same for both forms of file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mirror_ray.config.settings import FlowSettings, SecuritySettings
from mirror_ray.model.filters import compile_patterns
from mirror_ray.model.policy import ReplicationPolicy, load_policy

#: Maps a field such as ``topics.include`` to the name that the user knows it by.
FieldName = Callable[[str], str]

#: A pattern that stands for one topic only.
_LITERAL = re.compile(r"(?:[A-Za-z0-9_-]|\\\.)+")


def check_flow(flow: FlowSettings, field_name: FieldName) -> Iterator[str]:
    """Yield a sentence for each pattern or policy that can't be used."""
    patterns = {
        "topics.include": flow.topics.include,
        "topics.exclude": flow.topics.exclude,
        "topics.shared_remote": flow.topics.shared_remote,
        "topics.config_properties_exclude": flow.topics.config_properties_exclude,
        "groups.include": flow.groups.include,
        "groups.exclude": flow.groups.exclude,
    }
    for field, values in patterns.items():
        try:
            compile_patterns(values)
        except ValueError as error:
            yield f"{field_name(field)}: {error}"
    try:
        load_policy(flow.policy, flow.name.source)
    except ValueError as error:
        field = "policy.separator" if not flow.policy.separator else "policy.class_name"
        yield f"{field_name(field)}: {error}"


def heed_offset_reset(flow: dict[str, Any]) -> None:
    """Take an ``auto.offset.reset`` that the file gives as MM2's answer to records that are gone: go on behind them.

    ``flow``: the values that the file gives, by section; a ``trouble.policy`` among them says it otherwise.
    """
    if "auto_offset_reset" in flow.get("fetch", {}) and "policy" not in flow.get("trouble", {}):
        flow.setdefault("trouble", {}).setdefault("source_removed", "skip")


def check_security(security: SecuritySettings, field_name: FieldName) -> Iterator[str]:
    """Yield a sentence for each credential that is missing."""
    sasl = security.sasl
    if not security.protocol.startswith("SASL_"):
        return
    if sasl is None:
        yield (
            f"{field_name('security.sasl')}: {security.protocol} needs a SASL mechanism and credentials "
            "(Kafka's default, Kerberos, is not offered); set PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
        )
    elif sasl.mechanism == "OAUTHBEARER":
        has_client = sasl.token_endpoint_url and sasl.client_id and sasl.client_secret
        if not has_client and sasl.unsecured_subject is None:
            yield (
                f"{field_name('security.sasl')}: OAUTHBEARER needs a token endpoint URL, client id and client secret "
                "(or, for development, an unsecured subject)"
            )
    elif sasl.username is None or sasl.password is None:
        yield f"{field_name('security.sasl')}: {sasl.mechanism} needs a username and a password"


def check_loops(flows: Sequence[FlowSettings]) -> Iterator[str]:
    """Yield a sentence for each ring of flows that would copy a topic round and round.

    A flow that keeps names hides where a topic came from, so that no flow of its ring can tell a copy from an original.
    A ring is let through when its flows list topics by plain names and no topic is in all of the lists.
    """
    enabled = [flow for flow in flows if flow.enabled]
    keeps = {flow.name: _keeps_names(flow) for flow in enabled}
    for ring in _rings(enabled):
        names = [flow.name for flow in ring]
        if not any(keeps[name] for name in names) or not _may_share_topics(ring):
            continue
        listed = " and ".join(str(name) for name in names)
        keeping = ", ".join(str(name) for name in names if keeps[name])
        yield (
            f"{listed}: together they would copy topics round and round, because topics keep their names on {keeping} "
            "(identity policy). Use the DefaultReplicationPolicy, or disable one of the flows, or list topics by plain "
            "names so that no topic is in every flow's list"
        )


def _keeps_names(flow: FlowSettings) -> bool:
    try:
        policy: ReplicationPolicy = load_policy(flow.policy, flow.name.source)
    except ValueError:
        return False
    return policy.format_remote_topic(flow.name.source, "topic") == "topic"


def _rings(flows: Sequence[FlowSettings]) -> Iterator[list[FlowSettings]]:
    """Yield each simple ring once, beginning at its alphabetically first cluster."""

    def walk(path: list[FlowSettings]) -> Iterator[list[FlowSettings]]:
        start, here = path[0].name.source, path[-1].name.target
        if here == start:
            yield path
            return
        visited = {flow.name.source for flow in path}
        for flow in flows:
            if flow.name.source == here and here > start and here not in visited:
                yield from walk([*path, flow])

    for flow in flows:
        yield from walk([flow])


def _may_share_topics(ring: Sequence[FlowSettings]) -> bool:
    lists = [flow.topics.include for flow in ring]
    if not all(_LITERAL.fullmatch(pattern) for patterns in lists for pattern in patterns):
        return True
    return bool(set.intersection(*(set(patterns) for patterns in lists)))
