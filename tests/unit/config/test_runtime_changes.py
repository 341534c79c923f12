"""Keys of a running system's settings changed, and settings written in the native form."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.difference import changed
from mirror_ray.config.native import load_native, native_form
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.model.errors import ConfigError

_FILE = """
version: 1
replicators: 2
clusters:
  A: {bootstrap_servers: "a:1"}
  B: {bootstrap_servers: "b:1", client_rack: near}
flows:
  A->B:
    topics: {include: [orders], map: {orders: dr-orders}}
    fetch: {max_wait_ms: 100}
  B->A: {enabled: false}
"""


def _load(text: str, **environ: str) -> MirrorSettings:
    return load_native(text, environ).settings


def _flow(settings: MirrorSettings) -> FlowSettings:
    return settings.flows[0]


def test_each_kind_of_value() -> None:
    """Lists by commas or as YAML, numbers, booleans, entries of a map, whole sections, and back to the default."""
    before = _load(_FILE)
    after = with_changes(
        before,
        "A->B",
        {
            "topics.include": "orders.*, the.users",
            "topics.exclude": "[]",
            "topics.map.orders": None,
            "topics.map.the.users": "people",
            "topics.sync_acls_enabled": "false",
            "groups.sync_offsets_interval_s": "0.5",
            "trouble": "{policy: skip}",
            "fetch.max_wait_ms": None,
        },
    )
    flow = _flow(after)
    assert (flow.topics.include, flow.topics.exclude) == (("orders.*", "the.users"), ())
    assert flow.topics.map == {"the.users": "people"}
    assert (flow.topics.sync_acls_enabled, flow.groups.sync_offsets_interval_s) == (False, 0.5)
    assert (flow.trouble.policy, flow.fetch.max_wait_ms) == ("skip", 500)
    assert flow.all_names[0].map == {"the.users": "people"}
    assert before == _load(_FILE)


def test_the_system_s_own() -> None:
    """Without a flow the keys are those beside the flows."""
    after = with_changes(_load(_FILE), None, {"replicators": "4", "gateway.port": "9000"})
    assert (after.replicators, after.gateway.port) == (4, 9000)
    assert str(changed(_load(_FILE), after)) == "A->B unchanged, system configured (replicators, gateway.port)"


@pytest.mark.parametrize(
    ("flow", "changes", "text"),
    [
        ("A->C", {"topics.include": "a"}, "there is no flow A->C"),
        ("A->B#route", {"topics.include": "a"}, "set A->B"),
        ("A->B", {"topics.inclde": "a"}, "topics.inclde: unknown key; did you mean include?"),
        ("A->B", {"topics": "a"}, "topics: a section; set one of topics.include"),
        ("A->B", {"fetch.max_wait_ms.x": "1"}, "max_wait_ms has no keys of its own"),
        ("A->B", {"topics.include": "("}, "A->B: topics.include"),
        ("A->B", {"fetch.max_wait_ms": "soon"}, "A->B: fetch.max_wait_ms"),
        ("A->B", {"policy.class_name": "no.such.Policy"}, "A->B: policy.class_name"),
        (None, {"replicators": "0"}, "replicators: "),
        (None, {"replicators": "1000000000"}, "replicators: 1000000000 is too large: at most 1,000, all of which"),
        (None, {"elastic.max_replicators": "1000000000"}, "elastic.max_replicators: 1000000000 is too large"),
        (None, {"alerts.lag_s": "inf"}, "alerts.lag_s: should be a finite number"),
        (None, {"alerts.lag_s": "1e9"}, "alerts.lag_s: 1000000000.0 is too large: at most 31,536,000"),
        ("A->B", {"topics.include": "[" * 5000}, "topics.include: [0][0][0] (line 1): more than 50 levels"),
        ("A->B", {"topics.include": "[&a [*a]]"}, "topics.include: [0][0] (line 1): an alias"),
        ("A->B", {"topics.include": "[2020-99-99"}, "topics.include: not YAML: line "),
        ("A->B", {"trouble": "{? [a] : b}"}, "trouble: the document (line 1): a key is not a plain text"),
        (None, {"clusters.A.bootstrap_servers": "x:1"}, "clusters.A.bootstrap_servers: unknown key"),
    ],
)
def test_what_is_refused(flow: str | None, changes: dict[str, str], text: str) -> None:
    """A sentence that names the key."""
    with pytest.raises(ConfigError) as refused:
        with_changes(_load(_FILE), flow, changes)
    assert text in str(refused.value)


def test_every_mistake_at_once() -> None:
    """A good key beside bad ones changes nothing, and each bad one has its sentence."""
    with pytest.raises(ConfigError) as refused:
        with_changes(_load(_FILE), "A->B", {"topics.include": "users", "nonsense": "1", "fetch.nonsense": "2"})
    assert len(refused.value.problems) == 2


_CHANGES: dict[str, st.SearchStrategy[str | None]] = {
    "topics.include": st.sampled_from(["orders", "orders,b.*", None]),
    "topics.rename": st.sampled_from(["[{match: 'a(.)', to: 'b$1'}]", None]),
    "trouble.source_removed": st.sampled_from(["skip", None]),
    "enabled": st.sampled_from(["true", "false"]),
    "provenance.max_hops": st.sampled_from(["3", None]),
    "topics.sync_configs_policy.retention.ms": st.sampled_from(["target", None]),
}


@given(changes=st.fixed_dictionaries({}, optional=_CHANGES))
def test_what_runs_can_be_written_and_read_again(changes: dict[str, Any]) -> None:
    """The native form of settings, read, is the settings."""
    settings = with_changes(_load(_FILE), "A->B", changes)
    assert _load(yaml.safe_dump(native_form(settings))) == settings


def test_secrets_are_references() -> None:
    """No secret is written: references stay, and of literal ones the variables are named that may stand for them."""
    secured = _FILE.replace(
        'A: {bootstrap_servers: "a:1"}',
        "A: {bootstrap_servers: 'a:1', security: {protocol: SASL_SSL, "
        "sasl: {mechanism: PLAIN, username: me, password: tiger}}}",
    )
    text = yaml.safe_dump(native_form(_load(secured)))
    assert "tiger" not in text
    assert "${env:MIRROR_A_SECURITY_SASL_PASSWORD}" in text
    with_reference = _load(text, MIRROR_A_SECURITY_SASL_PASSWORD="tiger")
    assert _load(yaml.safe_dump(native_form(with_reference)), MIRROR_A_SECURITY_SASL_PASSWORD="x") == with_reference


def test_each_secret_of_a_list_has_a_variable_of_its_own() -> None:
    """Two users' tokens would be one otherwise."""
    users = "[{user: a, token: a-token-0123456789}, {user: b, token: b-token-0123456789}]"
    text = yaml.safe_dump(native_form(_load(f"{_FILE}\ngateway: {{tokens: {users}}}\n")))
    tokens = {
        "MIRROR__GATEWAY_TOKENS_1_TOKEN": "a-token-0123456789",
        "MIRROR__GATEWAY_TOKENS_2_TOKEN": "b-token-0123456789",
    }
    assert "0123456789" not in text
    assert [token.token.reveal(tokens) for token in _load(text, **tokens).gateway.tokens] == list(tokens.values())
