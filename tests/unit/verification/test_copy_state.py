"""Who writes a shared remote topic, by the states of all flows to its cluster."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.offsets.map import OffsetMapStore
from mirror_ray.state import schema
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.records import FlowRecord
from mirror_ray.state.schema import Document
from mirror_ray.verification import copy_state
from mirror_ray.verification.copy_state import FlowCopyState
from mirror_ray.verification.job import CompareJob
from tests.support.factories import partition_record

WHERE, REMOTE = TopicPartition("t", 0), TopicPartition("all", 0)
RECORD = partition_record(target_topic="all", producer_id=7, shared=True)
JOB = CompareJob(
    source=WHERE, target=REMOTE, source_topic_id=RECORD.source_topic_id, target_topic_id=RECORD.target_topic_id
)
OTHER = FlowRecord(
    producer_id=8, producer_epoch=0, source_cluster_id="x", target_cluster_id="b", selection="", starts=""
)


class Target:
    """A cluster with the states of A->B and of three other flows."""

    settings = SimpleNamespace(alias="B")

    async def refresh(self, _topics: object) -> Any:
        names = ["mm2-ray-state.A.internal", "orders", *(schema.state_topic(alias) for alias in "CDE")]
        return SimpleNamespace(topics={name: SimpleNamespace(error_code=0) for name in names})


async def state_of(
    monkeypatch: pytest.MonkeyPatch, error: Exception, record: PartitionRecord = RECORD
) -> FlowCopyState:
    """That of A->B; the state of D raises, and that of E is not written by us."""

    def read(_: object, topic: str) -> dict[str, Document]:
        if topic == schema.state_topic("D"):
            raise error
        if topic == schema.state_topic("A"):
            return {schema.PARTITION.key(WHERE): schema.PARTITION.write(record)}
        return {schema.FLOW.key(""): schema.FLOW.write(OTHER) if topic == schema.state_topic("C") else {"x": 1}}

    monkeypatch.setattr(copy_state, "read_state", read)
    flow = FlowSettings(name=FlowName("A", "B"), enabled=True)
    state = FlowCopyState(flow, cast(ClusterConnections, Target()), OffsetMapStore())
    await state.read()
    await state.read_other_flows()
    return state


async def test_a_state_that_can_not_be_read_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that can be are read all the same; of a remote topic that nobody shares there is nothing to say."""
    error = MirrorError("offset 2: not written by mirror-ray")
    state = await state_of(monkeypatch, error)
    assert state.owners(JOB).flows == {7, 8}
    notes = state.notes(JOB)
    assert [note.split(",")[1] for note in notes] == [" mm2-ray-state.D.internal", " mm2-ray-state.E.internal"]
    assert "offset 2: not written by mirror-ray" in notes[0]
    assert "'producer_id' is missing" in notes[1]
    alone = await state_of(monkeypatch, error, replace(RECORD, shared=False))
    assert (alone.notes(JOB), alone.owners(JOB).unsure) == ((), False)


async def test_a_state_without_a_leader_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster has just answered: its other partitions are compared."""
    state = await state_of(monkeypatch, ClusterUnreachableError("B: no leader"))
    assert "B: no leader" in state.notes(JOB)[0]
    assert state.owners(JOB).unsure
