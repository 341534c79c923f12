"""What the demo may say at its end."""

from __future__ import annotations

from mirror_ray.cli.demo_check import DemoPartition, demo_partitions, summarize, takeover_signs
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.model.names import FlowName, TopicPartition

_FLOW = FlowName("A", "B")
_ZERO, _ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def _settings(*flows: str, **servers: str) -> MirrorSettings:
    clusters = {
        alias: ClusterSettings(alias=alias, bootstrap_servers=(servers.get(alias, f"{alias}:9092"),)) for alias in "AB"
    }
    return MirrorSettings(
        clusters=clusters, flows=tuple(FlowSettings(name=FlowName.parse(flow), enabled=True) for flow in flows)
    )


def _partitions(position: int | None = 50, remote: int = 50, end: int = 50) -> list[DemoPartition]:
    positions = {_ZERO: 100} | ({} if position is None else {_ONE: position})
    return demo_partitions(
        _FLOW,
        {_ZERO: 100, _ONE: 50},
        {_ZERO: (0, 100), _ONE: (0, end)},
        {_ZERO: (0, 100), _ONE: (0, remote)},
        positions,
    )


def test_all_is_well_only_where_all_of_it_is_there() -> None:
    """By the ends of its own clusters' logs: the system's word alone is not enough, nor are the ends alone."""
    said = summarize(_partitions(), [])
    assert said.holds
    assert said.lines == ["150 records produced, all of them copied: every partition's lag is 0"]


def test_what_is_missing_is_said() -> None:
    """Behind, not copied any more, or said to be copied and not there."""
    for position, remote, end in ((40, 40, 50), (None, 40, 50), (50, 40, 50), (50, 50, 60)):
        said = summarize(_partitions(position, remote, end), [])
        assert (said.holds, said.final) == (False, False)
        assert said.lines[0] == f"of 150 records produced, {100 + remote} are copied"
        assert "A->B orders-1: 50 produced" in said.lines[1]
        assert not any("all of them copied" in line for line in said.lines)


def test_a_system_that_was_taken_is_said_even_where_all_is_copied() -> None:
    """Its flows gone, its aliases pointing elsewhere, stopped; settings that a user plays with are his."""
    own = _settings("A->B", "B->A")
    assert takeover_signs(own, own.model_copy(update={"replicators": 7})) == []
    assert takeover_signs(own, None) == ["it was stopped by another command"]
    assert takeover_signs(own, _settings("A->B")) == ["flow B->A was ended"]
    assert takeover_signs(own, _settings("A->B", "B->A", B="other:9092")) == ["B was B:9092 and is other:9092 now"]
    for position, final in ((50, True), (None, True), (40, False)):
        assert summarize(_partitions(position), ["it was stopped by another command"]).final is final
    said = summarize(_partitions(), ["flow B->A was ended"])
    assert not said.holds
    assert "the demo's system is no longer its own: flow B->A was ended" in said.lines
