"""Patterns that take years elsewhere, in each place where a configuration has patterns, by file and by ``set``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from mirror_ray.config.flow_rules import config_filter, replication_rules
from mirror_ray.config.providers import ProviderSpec, build_providers, resolve
from mirror_ray.config.runtime_changes import with_changes
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.config.transforms import flow_chains
from mirror_ray.coordinator.limit_rules import FlowLimits
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.filters import GroupFilter
from mirror_ray.topics.discovery_rules import rules_of
from mirror_ray.transforms import Record

_FILE: Final = """
A->B.topics = (a+)+b
A->B.topics.exclude = (a+)+c
A->B.groups = (a+)+d
A->B.groups.exclude = (a+)+e
A->B.config.properties.exclude = (a+)+f
A->B.shared.remote.topics = (a+)+g
A->B.topics.rename = (a+)+h:x.$1
A->B.topics.start.overrides = (a+)+i=latest
A->B.limits.topics = (a+)+j=1
A->B.limits.priorities = (a+)+k=1
A->B.transforms = drop, route
A->B.transforms.drop.type = mirror_ray.transforms:FilterByKey
A->B.transforms.drop.topics = (a+)+l, .*
A->B.transforms.drop.pattern = (a+)+m
A->B.transforms.drop.drop = true
A->B.transforms.route.type = mirror_ray.transforms:Route
A->B.transforms.route.to = (a+)+n=elsewhere
"""
_STEPS: Final = (
    '[{type: "mirror_ray.transforms:FilterByKey", topics: ["(a+)+l", ".*"], options: {pattern: "(a+)+m", drop: true}},'
    ' {type: "mirror_ray.transforms:Route", options: {to: {"(a+)+n": elsewhere}}}]'
)
_CHANGES: Final = {
    "topics.include": "(a+)+b",
    "topics.exclude": "(a+)+c",
    "groups.include": "(a+)+d",
    "groups.exclude": "(a+)+e",
    "topics.config_properties_exclude": "(a+)+f",
    "topics.shared_remote": "(a+)+g",
    "topics.rename": '[{match: "(a+)+h", to: "x.$1"}]',
    "topics.start_overrides": "(a+)+i=latest",
    "limits.topics": "(a+)+j=1",
    "limits.priorities": "(a+)+k=1",
    "transforms.steps": _STEPS,
}


def _answers(flow: FlowSettings, name: str) -> Iterator[object]:
    """What each place says of a name that none of its patterns fits."""
    rules, limits, groups = replication_rules(flow), FlowLimits(flow.limits), flow.groups
    yield rules.should_replicate_topic(name)
    yield rules.topic_filter.should_replicate_topic(name)
    yield rules.remote_topic(name) != f"A.{name}"
    yield rules.is_remote_topic(name)
    yield rules.is_declared_shared(name)
    yield GroupFilter(groups.include, groups.exclude).should_replicate_group(name)
    yield not config_filter(flow).should_replicate_config_property(name)
    yield rules_of(flow).of(name).kind == "latest"
    yield limits.topic_rate(name)
    yield limits.priority(name)
    chain = flow_chains(flow, lambda: ("a", "b")).chain(name)
    assert chain is not None
    for key in (name.encode(), b"\xff" + name.encode()):
        record = Record(key, b"", (), 7, name, 0, 41)
        for step in chain.steps:
            yield step.transform([record]) != [record]


def _look(flow: FlowSettings) -> None:
    for length in (40, 40_000):
        begun = time.process_time()
        assert not any(_answers(flow, "a" * length))
        # Some fifteen matches and what is around them: each by itself takes less than a millisecond.
        assert time.process_time() - begun < 0.05


def test_no_pattern_of_a_file_takes_long(load: Any) -> None:
    """Forty a's and a pattern like that once stopped the coordinator for good."""
    _look(load(_FILE).settings.flows[0])


def test_no_pattern_that_is_set_takes_long(load: Any) -> None:
    """Who has the page's token could do it."""
    settings: MirrorSettings = with_changes(load("").settings, "A->B", _CHANGES)
    _look(settings.flows[0])


def test_nor_does_one_of_a_provider() -> None:
    """``allowlist.pattern``."""
    providers = build_providers({"env": ProviderSpec(kind="env", allowlist_pattern="(a+)+b")}, {})
    begun = time.process_time()
    with pytest.raises(LookupError, match=r"allowlist\.pattern does not let"):
        resolve(f"${{env:{'a' * 40_000}}}", providers)
    assert time.process_time() - begun < 0.05


_MISTAKES: Final = {
    "(" * 3000: "missing )",
    "a{99999999999}": "at most 1000 repeats",
    "a{1,99999999999}": "a comma in a list begins the next pattern",
    "(a)(?!test-).*": "no look-around",
}


@pytest.mark.parametrize("pattern", _MISTAKES, ids=_MISTAKES.values())
def test_each_place_names_what_can_not_be_used(load: Any, pattern: str) -> None:
    """By its key, in a sentence; names are looked at once topics can be selected, limits by themselves."""
    lines = [line for line in _FILE.splitlines() if "+)+" in line and ".rename" not in line and ".limits." not in line]
    with pytest.raises(ConfigError) as error:
        load("\n".join(line.replace("(a+)+", pattern) for line in lines))
    message = "\n".join(error.value.problems)
    keys = [line.partition(" = ")[0] for line in lines if ".transforms." not in line]
    assert [key for key in keys if key not in message] == []
    assert len(message) < 5000


@pytest.mark.parametrize("pattern", _MISTAKES, ids=_MISTAKES.values())
@pytest.mark.parametrize("key", ["topics.include", "topics.rename", "limits.topics", "transforms.steps"])
def test_so_does_set(load: Any, key: str, pattern: str) -> None:
    """Nothing ends in a traceback."""
    with pytest.raises(ConfigError) as error:
        with_changes(load("").settings, "A->B", {key: _CHANGES[key].replace("(a+)+", pattern, 1)})
    message = "\n".join(error.value.problems)
    assert key in message
    assert _MISTAKES[pattern] in message or "," in pattern
    assert len(message) < 2000
