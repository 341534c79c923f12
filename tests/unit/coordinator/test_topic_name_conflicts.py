"""Topics that fall together, as a flow finds them when their topics are there."""

from __future__ import annotations

from typing import Any, cast

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings, RenamePattern, TopicSettings, with_all_names
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.remote_topic_writers import RemoteTopicWriters, TopicNameConflicts
from mirror_ray.model.names import FlowName


class Ledger:
    """Knows which topics were copied before."""

    def __init__(self, *copied: str) -> None:
        self.copied = copied

    def by_topic(self) -> dict[str, Any]:
        return {topic: {} for topic in self.copied}


def flow(name: str, **topics: Any) -> FlowSettings:
    """An enabled flow that renames x-... to ..."""
    rename = (RenamePattern(match="x-(.*)", to="$1-y"),)
    return FlowSettings(
        name=FlowName.parse(name), enabled=True, topics=TopicSettings(rename=rename, map={"a": "all"}, **topics)
    )


def unfit(
    settings: FlowSettings, claims: RemoteTopicWriters, *topics: str, copied: tuple[str, ...] = ()
) -> dict[str, str]:
    """What is said of the source's topics."""
    rules = replication_rules(settings)
    book = TopicNameConflicts(settings, cast("FlowState", Ledger(*copied)), claims)
    return book.unfit({topic: rules.remote_topic(topic) for topic in topics}, "target-id")


def claims() -> RemoteTopicWriters:
    """Nobody writes anything."""
    return RemoteTopicWriters(lambda: None)


def test_flows_without_names_cost_nothing() -> None:
    """No rule is applied, whatever the topics are."""
    plain = FlowSettings(name=FlowName("A", "B"), enabled=True)
    book = TopicNameConflicts(plain, cast("FlowState", None), claims())
    assert book.unfit({"a": "same", "b": "same"}, "id") == {}


def test_topics_that_fall_together() -> None:
    """Both are refused; where one is copied already, it goes on; where it is declared, both do."""
    (one,) = with_all_names([flow("A->B")])
    both = unfit(one, claims(), "all", "x-1", "a", "A.b")
    assert both == {}
    clash = ("a", "x-al", "b")
    (one,) = with_all_names(
        [
            flow("A->B").model_copy(
                update={"topics": TopicSettings(map={"a": "all"}, rename=(RenamePattern(match="x-(.*)", to="$1l"),))}
            )
        ]
    )
    assert set(unfit(one, claims(), *clash)) == {"a", "x-al"}
    assert set(unfit(one, claims(), *clash, copied=("a",))) == {"x-al"}
    (declared,) = with_all_names(
        [one.model_copy(update={"topics": one.topics.model_copy(update={"shared_remote": ("al+",)})})]
    )
    assert unfit(declared, claims(), *clash) == {}


def test_flows_that_fall_together() -> None:
    """Who comes later gives way, until the other one has ended."""
    one, other = with_all_names([flow("A->C"), flow("B->C")])
    register = claims()
    assert unfit(one, register, "a", "x-1") == {}
    late = unfit(other, register, "a", "x-1")
    assert set(late) == {"x-1"}
    assert "A->C" in late["x-1"]
    # At the next refresh nobody has changed places.
    assert unfit(one, register, "a", "x-1") == {}
    # Its topic is gone from the source, or the flow has ended.
    assert unfit(one, register, "a") == {}
    assert unfit(other, register, "a", "x-1") == {}
    register.remove(other.name)
    assert unfit(one, register, "a", "x-1") == {}


def test_a_name_that_kafka_does_not_take() -> None:
    """Only that topic is refused."""
    (one,) = with_all_names([flow("A->B")])
    long = f"x-{'n' * 248}"
    (refused,) = unfit(one, claims(), "a", "x-1", long).items()
    assert refused[0] == long
    assert "has 250 characters" in refused[1]
