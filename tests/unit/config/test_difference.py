"""What a change of settings touches."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.difference import changed, data_path, effect_of
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings, SecuritySettings, SslSettings
from mirror_ray.model.names import FlowName

_FLOW = FlowName("A", "B")


def _settings(*flows: FlowSettings, **system: Any) -> MirrorSettings:
    clusters = {alias: ClusterSettings(alias=alias, bootstrap_servers=(f"{alias}:1",)) for alias in "ABC"}
    return MirrorSettings(**{"clusters": clusters, "flows": flows, **system})


def _flow(name: str = "A->B", **values: Any) -> FlowSettings:
    return FlowSettings.model_validate({"name": FlowName.parse(name), "enabled": True, **values})


_SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "topics": st.fixed_dictionaries(
            {},
            optional={
                "include": st.sampled_from([("orders",), ("users",)]),
                "map": st.sampled_from([{}, {"orders": "o"}]),
                "shared_remote": st.sampled_from([(), ("o",)]),
                "sync_acls_enabled": st.booleans(),
            },
        ),
        "groups": st.fixed_dictionaries({"include": st.sampled_from([("a",), ("b",)])}),
        "heartbeats": st.fixed_dictionaries({"replication_enabled": st.booleans()}),
        "trouble": st.fixed_dictionaries({"policy": st.sampled_from(["stop", "skip"])}),
        "offsets": st.fixed_dictionaries(
            {}, optional={"mode": st.sampled_from(["translate", "preserve"]), "prefix_max": st.sampled_from([0, 9])}
        ),
        "schemas": st.fixed_dictionaries(
            {},
            optional={
                "sync_enabled": st.sampled_from([None, False]),
                "ids": st.sampled_from(["auto", "same", "translated"]),
                "topics_exclude": st.sampled_from([(), ("logs",)]),
                "subjects": st.sampled_from([(".*",), ("a",)]),
                "contexts_map": st.sampled_from([{}, {".a": ".b"}]),
                "wait_ms": st.sampled_from([0, 9]),
            },
        ),
        "fetch": st.fixed_dictionaries({"max_wait_ms": st.sampled_from([100, 500])}),
        "produce": st.fixed_dictionaries({"compression_type": st.sampled_from([None, "zstd"])}),
        "provenance": st.fixed_dictionaries({"enabled": st.booleans()}),
    },
)


@given(before=_SECTIONS, after=_SECTIONS, others=st.lists(_SECTIONS, max_size=1))
def test_a_flow_is_begun_anew_exactly_where_a_key_says_so(
    before: dict[str, Any], after: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    """The keys that are named have the effect that the data path has; another flow that comes has none."""
    coming = [_flow("B->C", **options) for options in others]
    old, new = _settings(_flow(**before)), _settings(_flow(**after), *coming)
    found = {flow.flow: flow for flow in changed(old, new).flows}
    own = found["A->B"]
    restarts = any(key.effect == "restart" for key in own.keys)
    assert restarts is (data_path(old, _FLOW) != data_path(new, _FLOW))
    assert (own.verdict == "restarted") is restarts
    assert (own.verdict == "unchanged") is (_flow(**before) == _flow(**after))
    assert [flow.verdict for name, flow in found.items() if name != "A->B"] == ["started"] * len(coming)


@given(before=_SECTIONS, after=_SECTIONS)
def test_there_and_back_names_the_same_keys(before: dict[str, Any], after: dict[str, Any]) -> None:
    """What a change names with before and after, the change back names the other way round; none to itself."""
    old, new = _settings(_flow(**before)), _settings(_flow(**after))
    there, back = changed(old, new).flows[0].keys, changed(new, old).flows[0].keys
    assert {(change.key, change.before, change.after) for change in there} == {
        (change.key, change.after, change.before) for change in back
    }
    assert changed(old, old).nothing


def test_how_it_reads() -> None:
    """Each flow with what has become of it, by sections, and the system's own keys."""
    before = _settings(_flow(), _flow("A->C"), _flow("B->A"))
    after = _settings(_flow(topics={"include": ("orders",)}), _flow("B->A"), _flow("B->C"), replicators=3)
    assert str(changed(before, after)) == (
        "A->B configured (topics), A->C ended, B->A unchanged, B->C started, system configured (replicators)"
    )
    assert str(changed(before, after).flows[0].keys[0]) == "topics.include: .* -> orders"
    assert str(changed(None, before)) == "A->B started, A->C started, B->A started"


def test_no_secret_is_shown() -> None:
    """A cluster's password is named, begins its flows anew, and is not told."""

    def settings(password: str) -> MirrorSettings:
        security = SecuritySettings(ssl=SslSettings.model_validate({"key_password": password}))
        made = _settings(_flow(), _flow("B->C"))
        secured = ClusterSettings(alias="A", bootstrap_servers=("A:1",), security=security)
        return made.model_copy(update={"clusters": made.clusters | {"A": secured}})

    found = changed(settings("tiger"), settings("lion"))
    assert str(found) == "A->B restarted (clusters), B->C unchanged"
    (key,) = found.flows[0].keys
    assert str(key) == "clusters.A.security.ssl.key_password: (secret) -> (secret)"
    assert "tiger" not in repr(found)


def test_what_is_not_known_to_be_harmless_begins_the_flow_anew() -> None:
    """A section that nobody has thought about here can't be changed under a copy that runs."""
    assert effect_of("topics.include") == "topics"
    assert effect_of("topics.sync_configs_interval_s") == "beside"
    assert effect_of("topics.shared_remote") == "restart"
    assert effect_of("never.heard.of") == "restart"
