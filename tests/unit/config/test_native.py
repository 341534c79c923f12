"""The native YAML form."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

import mirror_ray.config
from mirror_ray.config.load import load_settings
from mirror_ray.config.native import json_schema
from mirror_ray.config.settings import TopicSettings, TransformSettings, TransformStep
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName
from tests.unit.config.conftest import Load, Problems

_ROOM = Path(mirror_ray.config.__file__).parent
_BASE = """
version: 1
clusters:
  A: {bootstrap_servers: "a:1, a:2"}
  B: {bootstrap_servers: [b:1]}
"""
_FLOWS = _BASE + "flows:\n  A->B: {}\n"


def test_flows_inherit_defaults_section_by_section(load: Load) -> None:
    """A flow's value replaces that of defaults, the rest of the section stays."""
    text = """
defaults: {topics: {exclude: [x], replication_factor: 3}}
flows:
  A->B: {topics: {include: [orders], exclude: []}}
  B->A: {enabled: false}
"""
    settings = load(text, _BASE, ".yaml").settings
    forth, back = settings.flows
    assert forth.topics == TopicSettings(include=("orders",), exclude=(), replication_factor=3)
    assert (forth.enabled, back.enabled, back.topics.exclude) == (True, False, ("x",))
    assert settings.clusters["A"].bootstrap_servers == ("a:1", "a:2")
    assert settings.flow(FlowName("A", "B")) is forth


def test_offset_reset_that_the_file_gives_skips_removed_records(load: Load) -> None:
    """In defaults or in a flow; a policy says it otherwise, in defaults too."""

    def policy(text: str) -> str:
        return load(text, _BASE, ".yaml").settings.flows[0].trouble.policy_for("source_removed")

    reset = "fetch: {auto_offset_reset: earliest}"
    assert policy("flows:\n  A->B: {}\n") == "stop"
    assert policy(f"flows:\n  A->B: {{{reset}}}\n") == "skip"
    assert policy(f"defaults: {{{reset}}}\nflows:\n  A->B: {{}}\n") == "skip"
    assert policy(f"defaults: {{trouble: {{policy: stop}}}}\nflows:\n  A->B: {{{reset}}}\n") == "stop"


_STEPS = """
defaults:
  transforms: {errors: skip, steps: [{type: "tests.support.transforms:Suffix"}]}
flows:
  A->B:
    transforms: {steps: [{type: "%s", options: {suffix: x}, topics: [orders]}]}
"""


def test_transforms(load: Load) -> None:
    """A flow's steps replace those of defaults; one that is not pure is noted, one that is not there is a mistake."""
    loaded = load(_STEPS % "tests.support.transforms:Suffix", _BASE, ".yaml")
    transforms = loaded.settings.flows[0].transforms
    assert transforms == TransformSettings(
        steps=(TransformStep(type="tests.support.transforms:Suffix", options={"suffix": "x"}, topics=("orders",)),),
        errors="skip",
    )
    assert not [note for note in loaded.notes if note.kind == "guarantee"]
    (note,) = load(_STEPS % "tests.support.transforms:Impure", _BASE, ".yaml").notes
    assert "Impure is not declared pure: the topics that it is for (orders) are copied at least once" in note.text
    with pytest.raises(ConfigError, match=r"flows\.A->B\.transforms\.steps\[0\]: .*Missing can't be imported"):
        load(_STEPS % "tests.support.transforms:Missing", _BASE, ".yaml")


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".conf", ""])
def test_form_is_told_by_suffix_or_content(load: Load, suffix: str) -> None:
    """Any other suffix: a mapping of clusters is the native form."""
    assert load("", _FLOWS, suffix).settings.flows
    if suffix in (".conf", ""):
        assert load("", "clusters = A\nA.bootstrap.servers: a:1", suffix).settings.clusters


def test_references(load: Load) -> None:
    """Providers need no declaration."""
    text = _BASE.replace("[b:1]", "['${env:B}']")
    assert load("flows: {}", text, ".yaml", B="b:9").settings.clusters["B"].bootstrap_servers == ("b:9",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("replicatrs: 2", ["replicatrs: unknown key; did you mean replicators?"]),
        ("defaults: {topics: {inclde: [x]}}", ["defaults.topics.inclde: unknown key; did you mean include?"]),
        ("replicators: 0", ["replicators: 0 is too small: at least 1"]),
        ("defaults: {topics: {include: [1]}}", ["defaults.topics.include[0]: should be a valid string"]),
        ("defaults: {topics: {include: ['(']}}", ["flows.A->B.topics.include: '(' is not a regular expression"]),
        ("replicators: ${env:N}", ["replicators: the environment variable N is not set"]),
        ("version: 1", ["the key 'version' is given twice"]),
        ("defaults: {policy: {class_name: com.x.Y}}", ["flows.A->B.policy.class_name: com.x.Y is a Java class"]),
        ("defaults: {policy: {separator: _}}\nreplicators: x", ["replicators: should be a valid integer"]),
    ],
)
def test_mistake_is_named_by_its_path(problems: Problems, text: str, says: list[str]) -> None:
    """With the nearest known key."""
    found = problems(text, _FLOWS, ".yaml")
    assert len(found) == len(says)
    assert all(expected in problem for expected, problem in zip(says, found, strict=True)), found


@pytest.mark.parametrize(
    ("flows", "says"),
    [
        ("A->C: {}", "flows.A->C: 'C' is not one of the clusters (A, B)"),
        ("A-B: {}", "flows.A-B: 'A-B' is not a flow: write SOURCE->TARGET"),
        ("A->A: {}", "flows.A->A: a flow from A to itself"),
        ("A->B->A: {}", "flows.A->B->A: 'A->B->A' is not a flow: write SOURCE->TARGET"),
        ("A->B: {topics: {includ: []}}", "flows.A->B.topics.includ: unknown key; did you mean include?"),
    ],
)
def test_flow_that_cannot_be_is_named(problems: Problems, flows: str, says: str) -> None:
    """Aliases must be clusters."""
    assert problems(f"flows:\n  {flows}\n", _BASE, ".yaml")[0].startswith(says)


def test_loops_and_credentials_are_checked_as_in_the_other_form(problems: Problems) -> None:
    """The same rules hold."""
    text = (
        "defaults: {policy: {class_name: org.apache.kafka.connect.mirror.IdentityReplicationPolicy}}\n"
        "flows: {A->B: {}, B->A: {}}"
    )
    assert problems(text, _BASE, ".yaml")[0].startswith("flows: A->B and B->A: together")
    base = _FLOWS.replace("[b:1]", "b:1, security: {protocol: SASL_SSL}")
    assert problems("", base, ".yaml")[0].startswith("clusters.B.security.sasl: SASL_SSL needs")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    """Not in errors about the value beside them, and not in the repr."""
    path = tmp_path / "c.yaml"
    sasl = "security: {protocol: SASL_SSL, sasl: {mechanism: %s, username: u, password: hunter2}}"
    path.write_text(_FLOWS.replace("[b:1]", f"b:1, {sasl % 'MAGIC'}"))
    with pytest.raises(ConfigError) as error:
        load_settings(path)
    assert "hunter2" not in str(error.value)
    path.write_text(_FLOWS.replace("[b:1]", f"b:1, {sasl % 'PLAIN'}"))
    assert "hunter2" not in repr(load_settings(path))


def test_schema_is_current() -> None:
    """``python -m mirror_ray.config.reference`` writes it."""
    assert json.loads((_ROOM / "schema.json").read_text()) == json_schema()


@pytest.mark.parametrize(
    ("offsets", "fits"),
    [
        ("preserve", True),
        ("translate", True),
        ("{mode: preserve, topics: [orders], gap_markers: 3, prefix_max: 0}", True),
        ("keep", False),
        ("{mode: keep}", False),
        ("{mode: preserve, gap.markers: 3}", False),
        ("{prefix_max: -1}", False),
        ("[preserve]", False),
    ],
)
def test_schema_has_both_forms_of_offsets(offsets: str, fits: bool, load: Load) -> None:
    """The word and the section, in a flow and in defaults: what the schema takes is what is loaded."""
    validator = Draft202012Validator(json_schema())
    for section in (
        f"flows:\n  A->B: {{offsets: {offsets}}}\n",
        f"defaults: {{offsets: {offsets}}}\nflows: {{A->B: {{}}}}\n",
    ):
        document = yaml.safe_load(_BASE.replace('"a:1, a:2"', "[a:1]") + section)
        assert validator.is_valid(document) is fits
        if fits:
            load(section, _BASE, ".yaml")
        else:
            with pytest.raises(ConfigError, match="offsets"):
                load(section, _BASE, ".yaml")


def test_example_of_the_docs_loads(tmp_path: Path) -> None:
    """The YAML in docs/configuration.md."""
    docs = (_ROOM.parents[1] / "docs" / "configuration.md").read_text()
    example = re.search(r"<!-- example: loaded by a test -->\n```yaml\n(.*?)```", docs, re.DOTALL)
    assert example is not None
    path = tmp_path / "mirror.yaml"
    path.write_text(example[1])
    loaded = load_settings(path, {"KAFKA_PASSWORD": "x"})
    assert [str(flow.name) for flow in loaded.settings.flows] == ["A->B", "B->A"]
