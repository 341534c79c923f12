"""A flow's transforms in a replicator: none for whom there are none, the right ones for the others, dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.config.settings import ClusterSettings, FlowSettings, TransformSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.names import FlowName
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.replication import flow_transforms
from mirror_ray.replication.flow_transforms import FlowTransforms
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_transforms import WaitingDeadLetters
from mirror_ray.replication.target_log import TargetLog
from mirror_ray.transforms.loading import TransformChains
from tests.support.batches import batch
from tests.support.factories import assignment, establish, fetched, replication
from tests.support.transforms import suffix, transforms
from tests.unit.replication.recorded_events import RecordedEvents

FLOW = FlowName("A", "B")
ASSIGNMENT = assignment("orders")


class Writer:
    """A dead letter topic that can't be written at first."""

    topic = "letters"

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.records: list[DecodedRecord] = []

    async def append_decoded(self, records: Sequence[DecodedRecord]) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("no leader")
        self.records += records


class Scene(RecordedEvents):
    """A flow's transforms, and what they reported."""

    def __init__(self, settings: TransformSettings) -> None:
        super().__init__()
        self.went_on = asyncio.Event()
        self.events: list[str] = []
        self.transforms = FlowTransforms(
            FlowSettings(name=FLOW, enabled=True, transforms=settings),
            *(
                ClusterConnections(ClusterSettings(alias=alias, bootstrap_servers=("nowhere:1",)), "test")
                for alias in "AB"
            ),
            events=self,
            wake=lambda: None,
            on_event=lambda level, text: self.events.append(text),
        )

    def dead_letters_written(self, copy: PartitionReplication, letters: WaitingDeadLetters) -> None:
        super().dead_letters_written(copy, letters)
        self.went_on.set()

    def copy(self, *values: bytes) -> PartitionReplication:
        """A copy that has fetched these."""
        copy = replication(ASSIGNMENT, transforms=self.transforms.of(ASSIGNMENT))
        establish(copy, TargetLog(end=0))
        fetched(copy, batch(0, list(enumerate(values))))
        return copy


@pytest.fixture
async def scenes() -> AsyncIterator[list[Scene]]:
    """Those that are to be closed."""
    made: list[Scene] = []
    yield made
    for scene in made:
        await scene.transforms.close()


async def test_a_flow_without_transforms_has_nothing_of_them(
    scenes: list[Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task, no state of a copy; its batches are passed on in the very buffer that they were fetched into."""
    scenes.append(Scene(TransformSettings()))

    def never(*_: Any) -> None:
        raise AssertionError("a record was decoded")

    monkeypatch.setattr("mirror_ray.replication.partition_transforms.columns_of", never)
    monkeypatch.setattr("mirror_ray.records.repack.records_from", never)
    copy = scenes[0].copy(b"a", b"b")
    assert scenes[0].transforms._task is None
    assert copy.transforms is None
    assert scenes[0].transforms.problem(ASSIGNMENT) is None
    (outgoing,) = copy.pipeline.ready
    assert outgoing.count == 2


async def test_other_transforms_than_those_that_it_is_to_be_copied_by(scenes: list[Scene]) -> None:
    """Nothing is copied by them: those of the node, or of the configuration, are not what the coordinator has."""
    settings = transforms(suffix())
    scenes += [Scene(settings), Scene(transforms(("tests.support.transforms:Missing", {})))]
    right = replace(ASSIGNMENT, transforms=TransformChains(settings.steps).identity("orders"))
    ready, missing = (scene.transforms for scene in scenes)
    assert ready.problem(right) is None
    assert "to be copied by no transforms" in (ready.problem(ASSIGNMENT) or "")
    assert "can't be loaded on this node" in (missing.problem(right) or "")


async def test_dead_letters_are_tried_again_until_they_are_written(
    scenes: list[Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy waits, and says why; then it goes on, and an event tells where they are."""
    monkeypatch.setattr(flow_transforms, "_RETRY_S", 0.01)
    scene = Scene(transforms(suffix(), errors="dead_letter"))
    scenes.append(scene)
    writer = Writer(failures=2)
    vars(scene.transforms)["_writer"] = writer
    copy = scene.copy(b"a", b"bad", b"b")
    scene.transforms.changed(copy)
    async with asyncio.timeout(5):
        await scene.went_on.wait()
    assert scene.reasons == ["records that a transform failed on can't be set aside: no leader"] * 2
    assert [record.value for record in writer.records] == [b"bad"]
    assert copy.state.fetches
    fetched(copy, batch(0, list(enumerate((b"a", b"bad", b"b")))))
    scene.transforms.changed(copy)
    scene.transforms.changed(copy)
    assert [outgoing.runs for outgoing in copy.pipeline.ready] == [((0, 1), (2, 1))]
    (event,) = scene.events
    assert "records left out: 1, they are in letters;" in event
    assert "offset 1" in event
