"""Checks of resolved settings beyond the types of their fields, for both forms of file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel

from mirror_ray.config.addresses import illegal_separator
from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.loaded import ConfigNote
from mirror_ray.config.offset_checks import check_offsets
from mirror_ray.config.schema_checks import check_schemas
from mirror_ray.config.secrets import secrets_in
from mirror_ray.config.settings import FlowSettings, SecuritySettings, with_all_names
from mirror_ray.config.token_endpoint import token_endpoint_problem
from mirror_ray.config.topic_name_checks import check_long_ring, check_named_flows, check_names
from mirror_ray.config.transforms import check_transforms
from mirror_ray.model.config_policy import NUMBERS
from mirror_ray.model.filters import literal_topic
from mirror_ray.model.names import FlowName
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.model.policy import load_policy
from mirror_ray.model.replication_paths import duplicate_paths
from mirror_ray.model.rules import ReplicationRules
from mirror_ray.model.start import start_rules

_IN_CLEAR_TEXT: Final = (
    "lies in clear text in this file and in Ray's storage; write ${file:PATH:KEY}, ${dir:PATH:FILE} or ${env:NAME}, "
    "and it is looked up where it is used (docs/configuration.md)"
)

#: Ten clusters with flows in both directions between any two of them have a million rings.
_MOST_RINGS: Final = 5_000

#: From a field such as ``topics.include`` to the key that the user wrote.
FieldName = Callable[[str], str]


def check_flow(flow: FlowSettings, field_name: FieldName) -> Iterator[str]:
    """Yield a sentence for each pattern or policy that can't be used."""
    checks: dict[str, Callable[[], object]] = {
        "topics.include": partial(compile_patterns, flow.topics.include),
        "topics.exclude": partial(compile_patterns, flow.topics.exclude),
        "topics.shared_remote": partial(compile_patterns, flow.topics.shared_remote),
        "topics.config_properties_exclude": partial(compile_patterns, flow.topics.config_properties_exclude),
        "groups.include": partial(compile_patterns, flow.groups.include),
        "groups.exclude": partial(compile_patterns, flow.groups.exclude),
        "topics.start": partial(start_rules, flow.topics.start or "earliest", ()),
        "topics.start_overrides": partial(start_rules, "earliest", flow.topics.start_overrides),
    }
    for field, check in checks.items():
        try:
            check()
        except ValueError as error:
            yield f"{field_name(field)}: {error}"
    for key, policy in flow.topics.sync_configs_policy.items():
        if policy in ("floor", "ceiling") and key not in NUMBERS:
            yield (
                f"{field_name('topics.sync_configs_policy')}: {policy} is for numbers, and {key} is none of those "
                f"known ({', '.join(sorted(NUMBERS))}); write {key}:source or {key}:target"
            )
    try:
        load_policy(flow.policy, flow.name.source)
    except ValueError as error:
        field = "policy.separator" if not flow.policy.separator else "policy.class_name"
        yield f"{field_name(field)}: {error}"
        return
    if (illegal := illegal_separator(flow.policy.separator, flow.name.source)) is not None:
        yield f"{field_name('policy.separator')}: {illegal}"
        return
    for field, problem in check_transforms(flow):
        yield f"{field_name(field)}: {problem}"
    for field, problem in check_offsets(flow):
        yield f"{field_name(field)}: {problem}"
    for field, problem in check_schemas(flow):
        yield f"{field_name(field)}: {problem}"
    yield from check_names(flow, field_name)


def apply_offset_reset(flow: dict[str, Any]) -> None:
    """Skip source records that retention removed where the file sets ``auto.offset.reset``, as MM2 does.

    ``flow``: the values that the file gives, by section; a ``trouble.policy`` among them takes precedence.
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
        url = sasl.token_endpoint_url or ""
        has_client = url and sasl.client_id and sasl.client_secret
        if not has_client and sasl.unsecured_subject is None:
            yield (
                f"{field_name('security.sasl')}: OAUTHBEARER needs a token endpoint URL, client id and client secret "
                "(or, for development, an unsecured subject)"
            )
        elif has_client and (problem := token_endpoint_problem(url, allow_http=sasl.token_endpoint_allow_http)):
            yield f"{field_name('security.sasl.token_endpoint_url')}: it {problem}"
    elif sasl.username is None or sasl.password is None:
        yield f"{field_name('security.sasl')}: {sasl.mechanism} needs a username and a password"


def secret_notes(section: BaseModel, field_name: FieldName) -> Iterator[ConfigNote]:
    """Yield a note for each secret below a section that is written down in clear text."""
    for path, secret in secrets_in(section):
        if secret.is_literal:
            yield ConfigNote(kind="secret", key=field_name(path), text=_IN_CLEAR_TEXT)


def check_loops(flows: Sequence[FlowSettings]) -> Iterator[str]:
    """Yield a sentence for each ring of flows that would copy a topic in circles, or a record to one cluster twice.

    A flow that keeps names hides where a topic came from, so that no flow of its ring can distinguish a copy from an
    original, unless the records have provenance headers. A ring is accepted when its flows list topics by plain names
    and no topic is in all of the lists.
    """
    enabled = [flow for flow in with_all_names(flows) if flow.enabled]
    rules = {flow.name: rules for flow in enabled if (rules := _rules(flow)) is not None}
    usable = [flow for flow in enabled if flow.name in rules]
    yield from check_named_flows(usable, {flow.name: _literals(flow) for flow in usable})
    keeps = {name: of_flow.remote_topic("topic") == "topic" for name, of_flow in rules.items()}
    # A route has the clusters of its flow.
    live = [flow for flow in usable if flow.name.is_live]
    harmless = all(flow.provenance.enabled and keeps[flow.name] for flow in live) or not any(keeps.values())
    rings = _rings(live) if not harmless or any(flow.topics.rename for flow in live) else iter(())
    for ring in islice(rings, _MOST_RINGS):
        if (hidden := check_long_ring(ring)) is not None:
            yield hidden
        names = [flow.name for flow in ring]
        distinguished = all(flow.provenance.enabled and keeps[flow.name] for flow in ring)
        if distinguished or not any(keeps[name] for name in names) or not _may_share_topics(ring, rules):
            continue
        listed = " and ".join(str(name) for name in names)
        keeping = ", ".join(str(name) for name in names if keeps[name])
        yield (
            f"{listed}: together they would copy topics round and round, because topics keep their names on {keeping} "
            "(identity policy). Use the DefaultReplicationPolicy, or let the records say where they are from "
            "(provenance.headers.enabled = true on each, all keeping names), or disable one of the flows, or list "
            "topics by plain names so that no topic is in every flow's list"
        )
    if next(rings, None) is not None:
        yield (
            f"more than {_MOST_RINGS:,} rings of flows, too many to see whether topics would go round in one of them: "
            "disable flows, or run several systems"
        )
    yield from _check_doubles(
        [flow for flow in usable if flow.provenance.enabled and keeps[flow.name] and flow.name.is_live]
    )


def _check_doubles(flows: Sequence[FlowSettings]) -> Iterator[str]:
    by_name = {flow.name: flow for flow in flows}
    for (origin, end), several in duplicate_paths({flow.name: flow.provenance.max_hops for flow in flows}).items():
        if not _share_names([by_name[name] for path in several for name in path]):
            continue
        named = " and by ".join(" ".join(str(name) for name in path) for path in several[:2])
        longest = max(several, key=len)
        yield (
            f"records written on {origin} would come to {end} by {named}, and stand there twice: bound the longer way, "
            f"for example {longest[-1]}.provenance.max.hops = {len(longest) - 1}, or disable one of the flows"
        )


def _rules(flow: FlowSettings) -> ReplicationRules | None:
    try:
        return replication_rules(flow)
    except ValueError:
        return None


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


def _literals(flow: FlowSettings) -> list[str]:
    """The topics that the flow's filter lists by plain names."""
    return [name for pattern in flow.topics.include if (name := literal_topic(pattern)) is not None]


def _share_names(flows: Sequence[FlowSettings]) -> bool:
    """Whether a topic of one name may be in every flow."""
    if any(len(_literals(flow)) < len(flow.topics.include) for flow in flows):
        return True
    return bool(set.intersection(*(set(_literals(flow)) for flow in flows)))


def _may_share_topics(ring: Sequence[FlowSettings], rules: Mapping[FlowName, ReplicationRules]) -> bool:
    """Whether a topic may come back to its first cluster, and be copied on."""
    if any(len(_literals(flow)) < len(flow.topics.include) for flow in ring):
        return True
    return any(
        _comes_round([rules[flow.name] for flow in (*ring[first:], *ring[: first + 1])], topic)
        for first, flow in enumerate(ring)
        for topic in _literals(flow)
    )


def _comes_round(path: Sequence[ReplicationRules], topic: str) -> bool:
    for rules in path:
        if not rules.should_replicate_topic(topic):
            return False
        topic = rules.remote_topic(topic)
    return True
