"""What the coordinator does with many partitions: how often, not how long, so that it is the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mirror_ray.coordinator.assignment_rules import assign
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.observed import ObservedState
from mirror_ray.model.assignment import PartitionReport
from mirror_ray.model.names import FlowName, FlowPartition, TopicId
from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.state.partition_record import PartitionRecord
from mirror_ray.state.schema import PARTITION
from tests.support.factories import replicator_report
from tests.unit.coordinator.fakes import World, eventually, flow, settings

PARTITIONS = 300
FLOW = FlowName("A", "B")


class LookedAt:
    """A ``PartitionWeight`` that counts how often partitions are put in order, which begins with the broker."""

    times = 0
    load = 0.0

    @property
    def broker(self) -> int:
        LookedAt.times += 1
        return 1


class NeverIterated(dict[Any, Any]):
    """Looked up by keys alone."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all partitions were looked at")

    values = items = keys = __iter__  # type: ignore[assignment]


class NeverCopied(set[Any]):
    """Asked for members alone."""

    def __or__(self, other: Any) -> Any:
        raise AssertionError("all partitions were copied")

    __ror__ = __or__


def _report(number: int, *, source: int, end: int, epoch: int = 1) -> PartitionReport:
    return PartitionReport(
        partition=FlowPartition(FLOW, "orders", number),
        epoch=epoch,
        state="copying",
        reason=None,
        anchor=OffsetPair(source, source),
        source_end=end,
        high_watermark=end,
        records=source,
        bytes=source,
        last_timestamp_ms=1,
    )


def test_partitions_that_stay_are_not_put_in_order() -> None:
    """Of 300 the ten of a replicator that has gone are."""
    wanted: Any = {FlowPartition(FLOW, "orders", number): LookedAt() for number in range(PARTITIONS)}
    replicators = [f"r{number}" for number in range(30)]
    owners = assign(wanted, replicators, {})
    LookedAt.times = 0
    assert assign(wanted, replicators, owners) == owners
    assert LookedAt.times == 0
    after = assign(wanted, replicators[1:], owners)
    assert sum(after[partition] != owner for partition, owner in owners.items()) == 10
    assert LookedAt.times <= 10


def test_lags_are_known_without_a_look_at_every_partition() -> None:
    """They follow each report: a sum of what the newest ones say, whatever came before, and however they left."""
    observed = ObservedState()
    for number in range(20):
        observed.take(_report(number, source=5, end=5 + number))
    observed.take(_report(3, source=8, end=8))
    observed.take(_report(4, source=-1, end=-1))
    observed.take(_report(5, source=9, end=20, epoch=2))
    expected = sum(report.source_end - report.position for report in observed.reports.values())
    reports, observed.reports = observed.reports, NeverIterated(observed.reports)
    assert observed.lags() == {FLOW: expected}
    observed.reports = reports
    observed.forget(lambda partition: partition.partition >= 2)
    assert observed.lags() == {FLOW: 1}
    observed.forget(lambda _: True)
    assert observed.lags() == {}


async def test_a_flow_that_has_not_changed_is_not_asked_what_it_wants(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replicator dies and comes again: both flows are placed anew, and neither has to say its partitions again."""
    world.kafka.add_topic("A", "orders", 8)
    coordinator = await world.running(settings(flow("A->B"), flow("A->C")))
    await eventually(lambda: len(world.first.held) == 16)
    asked: list[FlowName] = []
    wanted = FlowController.wanted

    def asking(self: FlowController) -> Any:
        asked.append(self.name)
        return wanted(self)

    monkeypatch.setattr(FlowController, "wanted", asking)
    await eventually(lambda: coordinator.parts.assigner._settled is not None)
    world.first.alive = False
    await eventually(lambda: world.first.alive and len(world.first.held) == 16)
    assert asked == []
    await coordinator.pause("A->B")
    await eventually(lambda: len(world.first.held) == 8)
    assert set(asked) == {FLOW}


async def test_a_full_report_copies_no_set_of_partitions(world: World) -> None:
    """What it does not name is let go; each partition is looked up, and no set is made for each of them."""
    coordinator = await world.copying("orders", partitions=8)
    assigner = coordinator.parts.assigner
    assigner._busy = NeverCopied()
    kept = [world.first.held[partition] for partition in list(world.first.held)[:3]]
    report = replicator_report(replicator=world.first.id, partitions=tuple(kept), assigned=3)
    assigner.on_report(world.first.id, report, full=True)
    assert len(assigner.owners) == 3
    assigner._busy = set()


def test_a_partition_is_written_as_before() -> None:
    """The document has every field, and reads back as the same record."""
    record = PartitionRecord(
        source_topic_id=TopicId("a"),
        target_topic="A.orders",
        target_topic_id=TopicId("b"),
        source_offset=1,
        target_offset=2,
        skip=((3, 4),),
    )
    document = PARTITION.write(record)
    assert document["skip"] == ((3, 4),)
    assert PARTITION.read(document) == record
    assert PARTITION.read({name: value for name, value in document.items() if name not in ("skip", "aligned_at")}) == (
        PARTITION.read({**document, "skip": []})
    )
