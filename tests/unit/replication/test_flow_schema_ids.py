"""The map of a flow's schema ids follows its topic on the target, and wakes the partitions that wait for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from mirror_ray.config.settings import ClusterSettings, FlowSettings, SchemaSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.names import FlowName
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.records.schema_id_records import FieldDecision, IdTranslation, SchemaIdEntry, encode
from mirror_ray.replication import flow_schema_ids
from mirror_ray.replication.flow_transforms import FlowTransforms
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.target_log import TargetLog
from tests.support.factories import assignment, establish, fetched, replication
from tests.support.waiting import wait_until_async
from tests.unit.kafka.log_broker import LogBroker
from tests.unit.replication.recorded_events import RecordedEvents
from tests.unit.replication.test_schema_ids_partition import of_ids

TOPIC = "mm2-ray-schemas.A.internal"
FRAMED = (FieldDecision("orders", "key", False), FieldDecision("orders", "value", True))
ASSIGNMENT = assignment("orders", transforms="schema ids translated")


class Scene(RecordedEvents):
    """A flow that translates, and its topic."""

    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.log = LogBroker(TOPIC)
        self.woken = 0
        self.events: list[str] = []
        source = ClusterSettings(alias="A", bootstrap_servers=("nowhere:1",))
        fields = {"sync_enabled": True, "ids": "translated"} | settings
        self.flow = FlowSettings(name=FlowName("A", "B"), enabled=True, schemas=SchemaSettings.model_validate(fields))
        self.transforms = FlowTransforms(
            self.flow,
            ClusterConnections(source, "test"),
            self.log.as_cluster(),
            events=self,
            wake=self._wake,
            on_event=lambda _, text: self.events.append(text),
        )

    def _wake(self) -> None:
        self.woken += 1

    def write(self, *entries: SchemaIdEntry) -> None:
        """The sync has found these."""
        self.log.append([encode(entry) for entry in entries])

    def copy(self, *numbers: int) -> PartitionReplication:
        """A partition that has fetched records of these schemas."""
        transforms = self.transforms.of(ASSIGNMENT)
        assert transforms is not None
        copy = replication(ASSIGNMENT, transforms=transforms)
        establish(copy, TargetLog(end=0))
        fetched(copy, of_ids(0, *numbers))
        self.transforms.changed(copy)
        return copy

    async def is_read(self) -> None:
        """The topic was read."""
        await until(lambda: self.transforms.not_ready is None, "ready")


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for it."""

    async def holds() -> bool:
        return bool(condition())

    await wait_until_async(holds, 10, what)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Of an empty topic; what fails is tried again at once."""
    monkeypatch.setattr(flow_schema_ids, "_FIRST_RETRY_S", 0.001)
    scene = Scene(wait_ms=200)
    yield scene
    await scene.transforms.close()


async def test_a_flow_that_does_not_translate_reads_nothing() -> None:
    """With ids that stay the same, or where no schemas are mirrored."""
    for settings in ({"ids": "same"}, {"sync_enabled": False}):
        scene = Scene(**settings)
        assert scene.transforms.not_ready is None
        assert scene.transforms.of(ASSIGNMENT) is None
        assert scene.transforms._schema_ids._task is None
        assert scene.transforms._task is None
        await scene.transforms.close()


async def test_partitions_begin_when_the_topic_was_read_once(scene: Scene) -> None:
    """All of it, whatever its size; a topic that is not there is an empty one."""
    assert f"topic {TOPIC} on B" in (scene.transforms.not_ready or "")
    assert scene.transforms.problem(ASSIGNMENT) is None
    scene.log.most = 1
    scene.write(*FRAMED, *(IdTranslation(number, 100 + number) for number in range(1, 30)))
    await scene.is_read()
    assert scene.woken == 1
    copy = scene.copy(*range(1, 30))
    assert copy.pipeline.ready[0].count == 29
    missing = Scene()
    missing.log.exists = False
    await missing.is_read()
    await missing.transforms.close()


async def test_what_is_waited_for_is_told_until_it_is_there(scene: Scene) -> None:
    """As needs for the sync, each once; the partition goes on by itself."""
    scene.write(*FRAMED, IdTranslation(1, 11))
    await scene.is_read()
    copy = scene.copy(1, 2, 3, 2)
    need = SchemaNeed(FlowName("A", "B"), "orders", "value", 2)
    assert scene.transforms.schema_needs == {need, SchemaNeed(FlowName("A", "B"), "orders", "value", 3)}
    await until(lambda: copy.fault, "overdue")
    assert copy.report().state == "stopped"
    scene.write(IdTranslation(3, 13))
    scene.write(IdTranslation(2, 12))
    await until(lambda: copy.state.fetches, "goes on")
    scene.transforms.changed(copy)
    assert (copy.report().state, scene.transforms.schema_needs) == ("copying", set())
    fetched(copy, of_ids(0, 1, 2, 3, 2))
    assert sum(sent.count for sent in copy.pipeline.ready) == 4


async def test_a_partition_that_is_forgotten_needs_nothing(scene: Scene) -> None:
    """Somebody else has it."""
    await scene.is_read()
    copy = scene.copy(2)
    assert scene.transforms.schema_needs
    scene.transforms.forget(copy)
    assert not scene.transforms.schema_needs


async def test_a_topic_that_was_created_anew_is_read_anew(scene: Scene) -> None:
    """What was known before counts no more; nothing is told to be needed while it is read."""
    scene.write(*FRAMED, IdTranslation(1, 11))
    await scene.is_read()
    known = scene.transforms._schema_ids.known
    assert known is not None
    scene.log.create_anew(epoch=2)
    scene.log.elect()
    scene.write(*FRAMED, IdTranslation(2, 12))
    await until(lambda: known.ids == {2: 12}, "read anew")
    assert any("created anew" in event for event in scene.events)
    assert scene.copy(1).state is CopyState.AWAITING_SCHEMA_IDS
    await until(lambda: scene.transforms.schema_needs, "needs")


async def test_what_can_t_be_read_is_read_again_from_the_start(scene: Scene) -> None:
    """Nothing of it may be missed; the status says why nothing begins."""
    scene.write(*FRAMED)
    scene.log.append([(b"[17", b"{}")])
    await until(lambda: "can't be read: key" in (scene.transforms.not_ready or ""), "told")
    assert len([event for event in scene.events if "no new schema ids are learned" in event]) == 1
    waiting = scene.copy(5)
    assert waiting.state is CopyState.AWAITING_SCHEMA_IDS
    # It may be known: nothing is asked of the schema sync meanwhile.
    assert not scene.transforms.schema_needs
    scene.transforms.forget(waiting)
    scene.log.log[2:] = []
    scene.log.high_watermark = 2
    scene.write(IdTranslation(1, 11))
    await scene.is_read()
    assert scene.copy(1).pipeline.ready[0].count == 1
