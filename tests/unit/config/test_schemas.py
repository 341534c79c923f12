"""What a flow does with schemas, in both forms of file and in a running system."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.difference import changed
from mirror_ray.config.native import load_native, native_form
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.config.schema_names import context_pairs, subject_name, subject_pairs
from mirror_ray.config.settings import (
    FlowSettings,
    MirrorSettings,
    SchemaSettings,
    backfill_settings,
    reversed_settings,
)
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName
from tests.unit.config.conftest import Load, Problems

_ONE = "A.schema.registry.url = https://a\n"
_BOTH = f"{_ONE}B.schema.registry.url = https://b\n"
_NATIVE = """version: 1
clusters:
  A: {bootstrap_servers: 'a:9092', registry: {urls: 'https://a'}}
  B: {bootstrap_servers: 'b:9092', registry: {urls: 'https://b'}}
"""


def _flow(settings: MirrorSettings) -> FlowSettings:
    return settings.flow(FlowName("A", "B"))


def test_every_key(load: Load) -> None:
    """For all flows or one; the same in YAML."""
    text = """
sync.schemas.interval.seconds = 2
A->B.schemas.full.interval.seconds = 60
sync.schemas.global.enabled = true
schemas.ids = Translated
schemas.subjects = orders-.*, :\\\\.c:.*
schemas.subjects.exclude = tmp-.*
schemas.subjects.map = orders-value:dr-orders-value, :.c:a:b, c::.d:e, :.c:f::.d:g
schemas.subjects.follow.topics = false
schemas.contexts.map = .c=.k, .=.d
schemas.topics = orders, a.*
schemas.topics.exclude = logs
schemas.wait.ms = 5
"""
    expected = SchemaSettings(
        sync_interval_s=2,
        full_interval_s=60,
        sync_globals=True,
        ids="translated",
        subjects=("orders-.*", r":\.c:.*"),
        subjects_exclude=("tmp-.*",),
        subjects_map={"orders-value": "dr-orders-value", ":.c:a": "b", "c": ":.d:e", ":.c:f": ":.d:g"},
        follow_topics=False,
        contexts_map={".c": ".k", ".": ".d"},
        topics=("orders", "a.*"),
        topics_exclude=("logs",),
        wait_ms=5,
    )
    assert _flow(load(text).settings).schemas == expected
    native = f"flows: {{A->B: {{schemas: {expected.model_dump_json(exclude_unset=True)}}}}}"
    assert _flow(load(native, _NATIVE, ".yaml").settings).schemas == expected


@pytest.mark.parametrize(
    ("text", "syncs"),
    [
        ("", False),
        (_ONE, False),
        (_BOTH, True),
        ("schema.registry.url = https://all\n", True),
        (f"{_BOTH}sync.schemas.enabled = false\n", False),
        (f"{_BOTH}A->B.sync.schemas.enabled = true\n", True),
        (f"{_BOTH}sync.schemas.interval.seconds = -1\n", False),
    ],
)
def test_schemas_are_mirrored_where_both_clusters_have_a_registry(load: Load, text: str, syncs: bool) -> None:
    """Unless the file says otherwise; what follows from a flow does as the flow does."""
    settings = load(text).settings
    flow = _flow(settings)
    assert flow.syncs_schemas is syncs
    assert backfill_settings(flow, "b1").syncs_schemas is syncs
    assert reversed_settings(settings, flow.name, {}).flow(flow.name.back).syncs_schemas is syncs


def test_a_flow_that_is_reversed_names_subjects_the_other_way_round(load: Load) -> None:
    """And contexts."""
    settings = load(f"{_BOTH}schemas.subjects.map = a:b\nschemas.contexts.map = .c=.k\n").settings
    schemas = reversed_settings(settings, FlowName("A", "B"), {}).flow(FlowName("B", "A")).schemas
    assert (schemas.subjects_map, schemas.contexts_map) == ({"b": "a"}, {".k": ".c"})


def test_routes_are_of_their_flow(load: Load) -> None:
    """Ids in records that are routed are those of the flow's topic."""
    route = "transforms = r\ntransforms.r.type = mirror_ray.transforms:Route\ntransforms.r.to = a.*=big\n"
    flows = load(f"{_BOTH}{route}")
    routes = [flow for flow in flows.settings.flows if flow.route is not None]
    assert [flow.syncs_schemas for flow in routes] == [True]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            f"{_ONE}sync.schemas.enabled = true",
            "sync.schemas.enabled: schemas can't be mirrored, B has no schema registry: write schema.registry.url",
        ),
        ("A->B.sync.schemas.enabled = true", "A->B.sync.schemas.enabled: schemas can't be mirrored, A and B have no"),
        ("schemas.subjects = (", "schemas.subjects: "),
        ("schemas.subjects.exclude = a(?!b)", "schemas.subjects.exclude: "),
        ("schemas.topics = a++", "schemas.topics: "),
        ("schemas.topics.exclude = [", "schemas.topics.exclude: "),
        ("schemas.ids = both", "schemas.ids: should be 'auto', 'same' or 'translated'"),
        ("schemas.wait.ms = -1", "schemas.wait.ms: -1 is too small: at least 0"),
        ("schemas.full.interval.seconds = 0", "schemas.full.interval.seconds: 0 is not above 0"),
        ("sync.schemas.interval.seconds = 0", "0 is no interval"),
        (
            "schemas.contexts.map = a=.b",
            "schemas.contexts.map: 'a' can't be a context: its name begins with a dot, wri",
        ),
        ("schemas.contexts.map = .a=b", "write '.b'"),
        ("schemas.contexts.map = .a=.b:c", "'.b:c' can't be a context: a colon ends its name"),
        ("schemas.contexts.map = .a:.b", "'.a:.b' is no pair: write .CONTEXT=.NAME"),
        ("schemas.contexts.map = .a=.b,.a=.c", "context '.a' has two names, '.b' and '.c': leave one of them"),
        ("schemas.subjects.map = a", "'a' is no pair: write SUBJECT:NAME"),
        ("schemas.subjects.map = a:", "'a:' is no pair"),
        ("schemas.subjects.map = :.c:a", "':.c:a' is no pair"),
        ("schemas.subjects.map = a:b, a:c", "subject 'a' has two names, 'b' and 'c': leave one of them"),
        ("schemas.subjects.map = a::.c:", "schemas.subjects.map: ':.c:' names no subject: write SUBJECT, or :.CONT"),
        ("schemas.subjects.map = a\\u0007:b", "can't be a subject: it has characters that can't be printed"),
        ("schemas.subjects.map = a:c, b:c", "schemas.subjects.map: a and b would both be c: give them different names"),
        (
            "schemas.contexts.map = .x=.\nschemas.subjects.map = :.x:a:c, b:c",
            "schemas.subjects.map: :.x:a and b would both be c",
        ),
        (
            "schemas.subjects.exclude = tmp-.*\nschemas.subjects.map = tmp-a:b",
            "schemas.subjects.map: tmp-a is not mirrored by A->B: take it out of schemas.subjects.exclude, or out of",
        ),
        ("schemas.subject = a", "schemas.subject: unknown key; did you mean schemas.subjects?"),
    ],
)
def test_mistake_is_named(problems: Problems, text: str, says: str) -> None:
    """The key, the thing and what to write."""
    (found,) = problems(text)
    assert says in found


@pytest.mark.parametrize(
    ("schemas", "says"),
    [
        ("{contexts_map: {a: .b}}", "flows.A->B.schemas.contexts_map: 'a' can't be a context"),
        ("{subjects_map: {a: ''}}", "flows.A->B.schemas.subjects_map: '' names no subject"),
        ("{subjects_map: {':.c': a}}", "flows.A->B.schemas.subjects_map: ':.c' names no subject"),
        ("{full_interval_s: 0}", "flows.A->B.schemas.full_interval_s: 0"),
        ("{sync: true}", "flows.A->B.schemas.sync: unknown key"),
    ],
)
def test_mistake_in_yaml_is_named(problems: Problems, schemas: str, says: str) -> None:
    """By its path."""
    (found,) = problems(f"flows: {{A->B: {{schemas: {schemas}}}}}", _NATIVE, ".yaml")
    assert says in found


def test_no_registry_in_yaml(problems: Problems) -> None:
    """The path of the key that asks for what can't be; a flow that is off may ask for it."""
    without = _NATIVE.replace(", registry: {urls: 'https://b'}", "")
    flows = "flows: {A->B: {schemas: {sync_enabled: true}}, B->A: {enabled: false, schemas: {sync_enabled: true}}}"
    (found,) = problems(flows, without, ".yaml")
    assert found.startswith("flows.A->B.schemas.sync_enabled: schemas can't be mirrored, B has no schema registry")


def test_while_it_runs() -> None:
    """What records become begins the flow anew; all else changes beside the copying."""
    before = load_native(f"{_NATIVE}flows: {{A->B: {{}}}}", {}).settings
    after = with_changes(before, "A->B", {"schemas.contexts_map..a": ".b", "schemas.wait_ms": "9"})
    assert _flow(after).syncs_schemas
    assert _flow(after).schemas.contexts_map == {".a": ".b"}
    assert str(changed(before, after)) == "A->B configured (schemas)"
    for key, value in (("ids", "same"), ("topics", "orders"), ("topics_exclude", "logs"), ("sync_enabled", "false")):
        after = with_changes(before, "A->B", {f"schemas.{key}": value})
        assert str(changed(before, after)) == "A->B restarted (schemas)"
        assert with_changes(after, "A->B", {f"schemas.{key}": None}) == before
    (change,) = changed(before, with_changes(before, "A->B", {"schemas.ids": "same"})).flows[0].keys
    assert str(change) == "schemas.ids: auto -> same"


def test_what_is_refused_while_it_runs() -> None:
    """As in a file."""
    without = _NATIVE.replace(", registry: {urls: 'https://b'}", "")
    settings = load_native(f"{without}flows: {{A->B: {{}}}}", {}).settings
    with pytest.raises(ConfigError, match=r"A->B: schemas\.sync_enabled: schemas can't be mirrored, B has no"):
        with_changes(settings, "A->B", {"schemas.sync_enabled": "true"})
    with pytest.raises(ConfigError, match=r"A->B: schemas\.contexts_map: 'a' can't be a context"):
        with_changes(settings, "A->B", {"schemas.contexts_map": "{a: .b}"})


def test_a_registry_that_comes_begins_the_flow_anew() -> None:
    """Records have to wait for ids from then on; what is not said in the file is not written into one."""
    without = _NATIVE.replace(", registry: {urls: 'https://b'}", "")
    before, after = (load_native(f"{text}flows: {{A->B: {{}}}}", {}).settings for text in (without, _NATIVE))
    assert str(changed(before, after)) == "A->B restarted (clusters)"
    assert native_form(after)["flows"] == {"A->B": {}}
    assert load_native(str(native_form(after)), {}).settings == after


_NAME = st.text(st.sampled_from("ab-_./"), min_size=1).filter(lambda name: not name.startswith("."))
_CONTEXT = st.text(st.sampled_from("ab-_."), max_size=4).map(lambda name: f".{name}")
_SUBJECT = st.one_of(_NAME, st.builds(":{}:{}".format, _CONTEXT, _NAME))


@given(pairs=st.dictionaries(_SUBJECT, _SUBJECT, max_size=4), contexts=st.dictionaries(_CONTEXT, _CONTEXT, max_size=4))
def test_pairs_that_are_written_are_read(pairs: dict[str, str], contexts: dict[str, str]) -> None:
    """Whichever sides of a pair name a context."""
    assert subject_pairs(" , ".join(f"{name}:{to}" for name, to in pairs.items())) == pairs
    assert context_pairs(",".join(f"{name} = {to}" for name, to in contexts.items())) == contexts


@given(subject=_SUBJECT, context=_CONTEXT)
def test_a_subject_reads_as_it_is_written(subject: str, context: str) -> None:
    """Its own context counts."""
    found = subject_name(subject, context)
    assert found.context == (context if not subject.startswith(":") else subject[1:].partition(":")[0])
    assert subject_name(str(found)) == found
