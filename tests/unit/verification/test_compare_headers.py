"""What compare makes of headers: drift, or not known; what could not be told never exits with 0."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.state.records import FlowRecord, Pause
from mirror_ray.state.schema import FlowStateRecords
from mirror_ray.topics import flow_comparison
from mirror_ray.topics.cluster_snapshot import ClusterSnapshot, NoAuthorizer
from mirror_ray.topics.comparison import ComparedTopic, FlowComparison, PartitionFacts, SideFacts
from mirror_ray.topics.flow_comparison import compare_flow
from mirror_ray.verification.cluster_queries import no_system
from mirror_ray.verification.difference import Difference
from mirror_ray.verification.report import BatchHeaders, Halt, UncomparedAccount
from tests.unit.verification.test_cluster_queries import line

WHERE = TopicPartition("t", 0)
BEGUN = FlowStateRecords(
    flow=FlowRecord(producer_id=1, producer_epoch=0, source_cluster_id="a", target_cluster_id="b", selection="")
)


def headers_of(**changes: Any) -> BatchHeaders:
    """Of a partition that is as it should be."""
    return BatchHeaders(**{"source": WHERE, "differences": (), "account": UncomparedAccount(), "halt": None, **changes})


def compared(
    monkeypatch: pytest.MonkeyPatch,
    headers: BatchHeaders | MirrorError,
    *,
    state: FlowStateRecords | None = None,
    running: Sequence[PartitionStatus] = (),
    refused: Collection[str] = (),
) -> FlowComparison:
    """Of one topic that is equal in all else, and that the state tells nothing of."""
    side = {0: PartitionFacts(leader=1, replication_factor=1)}
    pair = ComparedTopic(
        topic="t",
        remote_topic="A.t",
        source=SideFacts(topic="t", partitions=side, configs={}),
        remote=SideFacts(topic="A.t", partitions=side, configs={}),
    )

    async def seen(*_: object) -> ClusterSnapshot:
        known = BEGUN if state is None else state
        return ClusterSnapshot(pairs=[pair], remotes={"t": "A.t"}, brokers=1, state=known, state_problem=None)

    async def acls(*_: object) -> NoAuthorizer:
        return NoAuthorizer("B")

    async def read(*asked: Any) -> dict[TopicPartition, BatchHeaders]:
        assert asked[2] == ["t"]
        if isinstance(headers, MirrorError):
            raise headers
        return {WHERE: headers}

    async def ask() -> Sequence[PartitionStatus]:
        return running

    monkeypatch.setattr(flow_comparison, "take_snapshot", seen)
    monkeypatch.setattr(flow_comparison, "read_acls", acls)
    monkeypatch.setattr(flow_comparison, "read_headers", read)
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True)
    clusters = {alias: ClusterSettings(alias=alias, bootstrap_servers=("x:1",)) for alias in "AB"}
    settings = MirrorSettings(clusters=clusters, flows=(flow,))
    return compare_flow(settings, flow, (), {"t": "occupied"}, ask if running else no_system, refused=refused)


def test_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal, or drift."""
    equal = compared(monkeypatch, headers_of())
    assert (equal.drifted, equal.headers_known, equal.topics[0].state, equal.notes) == (False, True, "equal", ())
    foreign = compared(monkeypatch, headers_of(differences=[Difference("extra", 0, 5)]))
    assert (foreign.drifted, foreign.topics[0].state) == (True, "differs")


def test_a_reason_is_no_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is unknown; what was counted is kept, and what was not is not shown as 0."""
    for counted in (True, False):
        found = compared(monkeypatch, headers_of(reason="a leader does not answer: X", counted=counted))
        assert (found.drifted, found.headers_known, found.topics[0].state) == (False, False, "unknown")
        assert found.notes == ("whose records the copy of t-0 holds is not known: a leader does not answer: X",)
        assert bool(found.topics[0].headers) == counted
    halt_of = compared(monkeypatch, headers_of(reason="why", halt=Halt("paused", "by Ann")))
    assert (halt_of.drifted, halt_of.topics[0].state) == (True, "differs")


def test_a_topic_that_is_refused_is_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the running system's reason, though the state knows nothing of it."""
    found = compared(monkeypatch, headers_of(reason="A.t-0 holds records"), refused={"t"})
    assert found.topics[0].drift == ("partition 0 is stopped: occupied",)


def test_headers_that_can_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of whose records there are; what is known of partitions that do not go on is said."""
    error = MirrorError("the segments topic is unreadable")
    found = compared(monkeypatch, error)
    assert (found.drifted, found.headers_known, found.topics[0].state) == (False, False, "unknown")
    assert "the segments topic is unreadable" in found.notes[0]
    assert found.topics[0].headers == {}
    paused = compared(monkeypatch, error, state=FlowStateRecords(paused={Pause("t")}))
    stopped = compared(monkeypatch, error, running=[line("stopped", "why")])
    refused = compared(monkeypatch, error, refused={"t"})
    for comparison, text in (
        (paused, "partition 0 is paused: an operator paused the topic"),
        (stopped, "partition 0 is stopped: why"),
        (refused, "partition 0 is stopped: occupied"),
    ):
        assert (comparison.drifted, comparison.topics[0].drift) == (True, (text,))
        assert f"t: {text}" in comparison.notes


def test_a_flow_that_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there, MirrorMaker 2 has copied, say: it is not looked at, which is said; a refused topic is drift."""
    found = compared(monkeypatch, headers_of(reason="nothing was copied of it yet"), state=FlowStateRecords())
    assert (found.drifted, found.headers_known, found.topics[0].state) == (False, True, "equal")
    assert found.notes == ("A->B has copied nothing yet: whose records its remote topics hold was not checked",)
    refused = compared(monkeypatch, headers_of(reason="nothing was copied"), state=FlowStateRecords(), refused=["t"])
    assert refused.drifted
