"""Who writes a shared remote topic, by the states of all flows to its cluster."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror_ray.config.settings import FlowSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.model.names import FlowName, TopicId, TopicPartition
from mirror_ray.offsets.map_store import OffsetMapStore
from mirror_ray.state import schema
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import Document, FlowRecord, FlowStateRecords
from mirror_ray.verification import writers
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.writers import PartitionWriters

WHERE, REMOTE = TopicPartition("t", 0), TopicPartition("all", 0)
RECORD = PartitionRecord(
    source_topic_id=TopicId("s1"),
    target_topic="all",
    target_topic_id=TopicId("t1"),
    source_offset=0,
    target_offset=0,
    producer_id=7,
    shared=True,
)
MEMORY = FlowStateRecords(partitions={WHERE: RECORD})
OTHER = FlowRecord(
    producer_id=8, producer_epoch=0, source_cluster_id="x", target_cluster_id="b", selection="", starts=""
)


class Target:
    """A cluster with the states of three other flows."""

    settings = SimpleNamespace(alias="B")

    async def refresh(self, topics: object) -> Any:
        return SimpleNamespace(topics=["mm2-ray-state.A.internal", "orders", *(schema.state_topic(x) for x in "CDE")])


def writing_of(monkeypatch: pytest.MonkeyPatch, garbage: Exception) -> PartitionWriters:
    """Of A->B; the state of D raises, and that of E is not written by us."""

    def read(_: object, topic: str) -> dict[str, Document]:
        if topic == schema.state_topic("D"):
            raise garbage
        return {schema.FLOW_KEY: schema.encode(OTHER) if topic == schema.state_topic("C") else {"x": 1}}

    monkeypatch.setattr(writers, "read_state", read)
    return PartitionWriters(
        FlowSettings(name=FlowName("A", "B"), enabled=True), cast(ClusterConnections, Target()), OffsetMapStore()
    )


async def test_a_state_that_can_not_be_read_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that can be are read all the same; of a remote topic that nobody shares there is nothing to say."""
    found = writing_of(monkeypatch, MirrorError("offset 2: not written by mirror-ray"))
    await found.read(MEMORY)
    job = CompareJob(source=WHERE, target=REMOTE)
    assert found.writers(job, RECORD).flows == {7, 8}
    notes = found.notes(RECORD)
    assert [note.split(",")[1] for note in notes] == [" mm2-ray-state.D.internal", " mm2-ray-state.E.internal"]
    assert "offset 2: not written by mirror-ray" in notes[0]
    assert "'producer_id' is missing" in notes[1]
    assert found.notes(None) == ()


async def test_a_state_without_a_leader_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster has just answered: its other partitions are compared."""
    found = writing_of(monkeypatch, ClusterUnreachableError("B: no leader"))
    await found.read(MEMORY)
    assert "B: no leader" in found.notes(RECORD)[0]
    job = CompareJob(source=WHERE, target=REMOTE)
    assert found.writers(job, RECORD).unsure
    assert not found.writers(job, replace(RECORD, shared=False)).unsure
