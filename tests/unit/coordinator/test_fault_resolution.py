"""The coordinator and partitions in trouble: stopped, skipped, copied anew, and never silently."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mirror_ray.coordinator.ports import TargetLimits
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError
from mirror_ray.model.fault import PartitionFault
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.offset_pair import OffsetPair
from tests.unit.coordinator.fake_kafka import FakeFlowPort
from tests.unit.coordinator.fakes import FLOW, ORDERS, REMOTE, World, eventually, flow, settings, shown, texts

pytestmark = pytest.mark.usefixtures("orders")
REMOVED = PartitionFault(
    kind="source_removed", text="offsets 50 to 80 were removed", source_from=50, source_to=80, resume=OffsetPair(80, 50)
)
LOST = PartitionFault(kind="copy_lost", text="no place fits", target_from=0, target_to=50)


async def begun(world: World, **trouble: str) -> CoordinatorService:
    """A system that has copied 50 records of one partition."""
    coordinator = await world.running(settings(flow(trouble=trouble)))
    await eventually(lambda: ORDERS in world.first.held)
    world.first.copy(ORDERS, 50)
    world.kafka.ends[REMOTE] = 50
    await eventually(lambda: world.record().source_offset == 50)
    return coordinator


def gaps(world: World) -> list[dict[str, Any]]:
    """The recorded gaps."""
    return [document for key, document in world.kafka.states[FLOW].items() if key.startswith("gap/orders/0/")]


async def test_stop_waits_for_an_answer_and_says_which_there_are(world: World) -> None:
    """By default the partition stays stopped; status shows kind and commands, `resolve` carries the answer out once."""
    coordinator = await begun(world)
    world.first.stop_partition(ORDERS, "stopped", REMOVED)
    (line,) = await shown(coordinator.partitions, lambda rows: rows[0].trouble == "source_removed")
    assert line.state == "stopped"
    assert "resolve 'A->B' orders:0 --by skip" in (line.reason or "")
    assert (await coordinator.status()).flows[0].state == "degraded"
    assert world.record().source_offset == 50
    assert await coordinator.resolve("A->B", "orders", 0, "skip") == ("orders-0",)
    await eventually(lambda: world.first.assigned[ORDERS].anchor.source_offset == 80)
    (gap,) = gaps(world)
    assert (gap["kind"], gap["policy"], gap["source_from"], gap["source_to"]) == ("source_removed", "skip", 50, 80)
    (listed,) = await coordinator.gaps("A->B")
    assert (listed.topic, listed.partition, listed.source_to) == ("orders", 0, 80)
    assert "repair/orders/0" not in world.kafka.states[FLOW]


async def test_skip_by_policy_is_recorded_and_reported(world: World) -> None:
    """The partition is taken back, its new pair and the gap are one transaction, and it is handed out anew."""
    coordinator = await begun(world, source_removed="skip")
    before = len(world.kafka.log)
    world.first.stop_partition(ORDERS, "stopped", REMOVED)
    await eventually(lambda: world.first.assigned[ORDERS].anchor.source_offset == 80)
    log = world.kafka.log[before:]
    order = ["write repair/orders/0", f"release {ORDERS}", "write gap/orders/0/", f"assign {ORDERS}"]
    at = [next(index for index, line in enumerate(log) if line.startswith(step)) for step in order]
    assert at == sorted(at)
    assert world.first.assigned[ORDERS].anchor.target_offset == 50
    events = await texts(coordinator)
    assert any("source_removed" in text and "skip by the flow's policy" in text for text in events)
    assert any("goes on at source offset 80" in text for text in events)


async def test_resync_empties_the_target_before_it_copies_anew(world: World) -> None:
    """A copy whose place is lost: DeleteRecords up to the end, a producer of its own, from the source's start."""
    await begun(world, policy="resync")
    world.kafka.source_starts[TopicPartition("orders", 0)] = 20
    world.first.stop_partition(ORDERS, "stopped", LOST)
    await eventually(lambda: world.first.assigned[ORDERS].anchor.source_offset == 20)
    assignment = world.first.assigned[ORDERS]
    assert (assignment.anchor.target_offset, assignment.anchor.sequence) == (50, None)
    assert assignment.producer_id not in (-1, 4242)
    assert world.kafka.log.index("delete A.orders-0 before 50") < world.kafka.log.place("write gap")
    assert len(gaps(world)) == 1


async def test_what_follows_from_an_answer_has_the_name_of_whoever_gave_it(world: World) -> None:
    """What is deleted on the target, and the events, also when another coordinator carries it out."""
    coordinator = await begun(world)
    world.first.stop_partition(ORDERS, "stopped", LOST)
    await shown(coordinator.partitions, lambda rows: rows[0].trouble == "copy_lost")
    await coordinator.act("page alice@10.0.0.7", "resolve", ("A->B", "orders", 0, "resync"))
    await eventually(lambda: "delete A.orders-0 before 50 by page alice@10.0.0.7" in world.kafka.log)
    await eventually(lambda: len(gaps(world)) == 1)
    events = await texts(coordinator)
    assert any(text.endswith("resync as told by page alice@10.0.0.7") for text in events)
    assert any("by resync, as told by page alice@10.0.0.7; recorded" in text for text in events)


async def test_coordinator_that_dies_over_a_decision_leaves_it_to_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after emptying and before the record: the next one empties again and nothing is handed out before."""
    first = await begun(world, policy="resync")

    async def fails(self: FakeFlowPort, before: object, operator: str | None = None) -> None:
        raise ClusterUnreachableError("B can't be reached")

    with monkeypatch.context() as broken:
        broken.setattr(FakeFlowPort, "delete_records", fails)
        world.first.stop_partition(ORDERS, "stopped", LOST)
        await eventually(lambda: "repair/orders/0" in world.kafka.states[FLOW])
        await eventually(lambda: ORDERS not in world.first.held)
        await shown(first.partitions, lambda rows: "resync is under way" in (rows[0].reason or ""))
        await shown(first.partitions, lambda rows: "B can't be reached" in (rows[0].reason or ""))
        world.abandon(first)
    before = len(world.kafka.log)
    await world.another()
    await eventually(lambda: ORDERS in world.first.held)
    log = world.kafka.log[before:]
    assigned = next(index for index, line in enumerate(log) if line.startswith(f"assign {ORDERS}"))
    assert log.index("delete A.orders-0 before 50") < assigned
    assert len(gaps(world)) == 1


async def test_answer_that_can_not_be_given_is_refused(world: World) -> None:
    """Skipping where the place is lost could double; a partition that copies is in no trouble."""
    coordinator = await begun(world)
    with pytest.raises(ConfigError, match="no trouble"):
        await coordinator.resolve("A->B", "orders", 0, "skip")
    world.first.stop_partition(ORDERS, "stopped", LOST)
    await shown(coordinator.partitions, lambda rows: rows[0].trouble == "copy_lost")
    with pytest.raises(ConfigError, match="twice"):
        await coordinator.resolve("A->B", "orders", 0, "skip")


async def test_a_missing_schema_is_shown_and_nobody_is_asked_to_decide(world: World) -> None:
    """Whatever the flow's policy is; it goes on by itself."""
    coordinator = await begun(world, policy="skip")
    world.first.stop_partition(ORDERS, "stopped", PartitionFault(kind="schema_missing", text="waits: id 7"))
    (row,) = await shown(coordinator.partitions, lambda rows: rows[0].trouble == "schema_missing")
    assert row.reason == "schema_missing: waits: id 7"
    report = replace(coordinator.parts.observed.reports[ORDERS], anchor=OffsetPair(51, 51))
    assert coordinator.parts.flows[ORDERS.flow].faults.on_report(report) is False
    with pytest.raises(ConfigError, match="goes on by itself"):
        await coordinator.resolve("A->B", "orders", 0, "skip")
    assert ORDERS in world.first.held


async def test_trouble_that_passes_by_itself_is_forgotten(world: World) -> None:
    """A partition that copies again shows no trouble, and can't be resolved any more."""
    coordinator = await begun(world)
    replicator = world.first
    copying = replicator.held[ORDERS]
    replicator.stop_partition(ORDERS, "stopped", LOST)
    await shown(coordinator.partitions, lambda rows: rows[0].trouble == "copy_lost")
    replicator.held[ORDERS] = copying
    replicator.changed.add(ORDERS)
    await shown(coordinator.partitions, lambda rows: rows[0].trouble is None)
    with pytest.raises(ConfigError, match="no trouble"):
        await coordinator.resolve("A->B", "orders", None, "resync")


async def test_deleted_remote_topic_is_created_again_by_policy(world: World) -> None:
    """Skip goes on at the position in an empty topic, and records what is not there any more."""
    await begun(world, target_missing="skip")
    del world.kafka.sources["B"]["A.orders"]
    world.kafka.ends[REMOTE] = 0
    await eventually(lambda: world.first.assigned[ORDERS].epoch == 2)
    anchor = world.first.assigned[ORDERS].anchor
    assert (anchor.source_offset, anchor.target_offset) == (50, 0)
    assert world.first.assigned[ORDERS].target_topic_id == world.kafka.sources["B"]["A.orders"].topic_id
    assert gaps(world)[0]["kind"] == "target_missing"


async def test_deleted_remote_topic_is_resolved_as_a_whole(world: World) -> None:
    """It is not created again; the refused topic names the commands; one partition alone can't be answered for."""
    coordinator = await begun(world)
    del world.kafka.sources["B"]["A.orders"]
    (row,) = await shown(coordinator.topics, lambda rows: rows[0].state == "refused")
    await eventually(lambda: ORDERS not in world.first.held)
    assert "A.orders" not in world.kafka.sources["B"]
    assert "resolve 'A->B' orders --by resync" in (row.reason or "")
    assert (await coordinator.partitions())[0].trouble == "target_missing"
    with pytest.raises(ConfigError, match="whole topic"):
        await coordinator.resolve("A->B", "orders", 0, "resync")
    world.kafka.ends[REMOTE] = 0
    await coordinator.resolve("A->B", "orders", None, "resync")
    await eventually(lambda: world.first.assigned[ORDERS].anchor.source_offset == 0)


async def test_recreated_remote_topic_with_records_is_never_written_to(world: World) -> None:
    """Whatever the policy says: what nobody accounts for stays as it is, and the topic says why."""
    coordinator = await begun(world, policy="resync")
    world.kafka.add_topic("B", "A.orders")
    world.kafka.ends[REMOTE] = 7
    await shown(coordinator.topics, lambda rows: "nothing accounts for" in (rows[0].reason or ""))
    assert not world.kafka.log.beginning("delete")
    replicator = world.first
    assert ORDERS not in replicator.held
    assert [line.split()[0] for line in replicator.log if str(ORDERS) in line] == ["assign", "release"]


async def test_recreated_source_topic_is_copied_behind_the_old_one(world: World) -> None:
    """Skip records where the new topic begins on the target."""
    await begun(world, source_recreated="skip")
    world.kafka.add_topic("A", "orders")
    new = world.kafka.sources["A"]["orders"].topic_id
    await eventually(lambda: world.first.assigned[ORDERS].source_topic_id == new)
    anchor = world.first.assigned[ORDERS].anchor
    assert (anchor.source_offset, anchor.target_offset) == (0, 50)
    assert gaps(world)[0]["target_from"] == 50


async def test_truncated_target_finds_its_place_before_it_is_emptied(world: World) -> None:
    """Resync hands out the first pair; only if the place is not found from there the target is emptied."""
    await begun(world, policy="resync")
    world.kafka.ends[REMOTE] = 40
    truncated = PartitionFault(kind="target_truncated", text="ends at 40", target_from=40, target_to=50)
    world.first.stop_partition(ORDERS, "stopped", truncated)
    await eventually(lambda: world.first.assigned[ORDERS].anchor.source_offset == 0)
    assert world.first.assigned[ORDERS].anchor.target_offset == 0
    assert not world.kafka.log.beginning("delete")
    world.first.stop_partition(ORDERS, "stopped", LOST)
    await eventually(lambda: "delete A.orders-0 before 40" in world.kafka.log)
    await eventually(lambda: world.first.assigned[ORDERS].anchor.target_offset == 40)


async def test_refused_record_is_left_out(world: World) -> None:
    """Skip puts the range into the assignment, next to those that were left out before."""
    await begun(world, record_refused="skip")
    refused = PartitionFault(kind="record_refused", text="too large", source_from=50, source_to=51)
    world.first.stop_partition(ORDERS, "stopped", refused)
    await eventually(lambda: world.first.assigned[ORDERS].skip == ((50, 51),))
    again = PartitionFault(kind="record_refused", text="too large", source_from=60, source_to=61)
    world.first.stop_partition(ORDERS, "stopped", again)
    await eventually(lambda: world.first.assigned[ORDERS].skip == ((50, 51), (60, 61)))
    assert len(gaps(world)) == 2


async def test_what_is_said_after_a_decision_is_not_decided_again(world: World) -> None:
    """A replicator that goes on about the same trouble until it is released brings about one decision, and one gap."""
    coordinator = await begun(world, source_removed="skip")
    replicator = world.first
    stopped = replace(replicator.held[ORDERS], state="stopped", reason="removed", trouble=REMOVED)
    replicator.stop_partition(ORDERS, "removed", REMOVED)

    async def repeat() -> bool:
        if ORDERS in replicator.held and replicator.held[ORDERS].epoch == stopped.epoch:
            replicator.held[ORDERS] = replace(stopped, records=replicator.held[ORDERS].records + 1)
            replicator.changed.add(ORDERS)
        return replicator.assigned[ORDERS].anchor.source_offset == 80

    await eventually(repeat)
    replicator.copy(ORDERS, 5)
    await eventually(lambda: world.record().source_offset == 85)
    assert len(gaps(world)) == 1
    assert "repair/orders/0" not in world.kafka.states[FLOW]
    assert (await coordinator.partitions())[0].state == "copying"


async def test_raised_limit_lets_a_refused_record_through(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remote topic's config is read again while a record waits for it, and the partition handed out by it."""
    await begun(world)
    refused = PartitionFault(kind="record_refused", text="too large", source_from=50, source_to=51)
    world.first.stop_partition(ORDERS, "stopped", refused)
    await asyncio.sleep(0.05)
    assert world.first.assigned[ORDERS].epoch == 1

    async def raised(self: FakeFlowPort, remote: Sequence[str]) -> dict[str, TargetLimits]:
        return dict.fromkeys(remote, TargetLimits(max_message_bytes=5_000_000, compress_with=None))

    monkeypatch.setattr(FakeFlowPort, "limits", raised)
    await eventually(lambda: world.first.assigned[ORDERS].max_message_bytes == 5_000_000)
    assert world.first.assigned[ORDERS].anchor.source_offset == 50
    assert gaps(world) == []


async def test_answer_stands_where_what_is_before_the_record_is_acknowledged_later(world: World) -> None:
    """The record stopped the partition before the batches in front of it were committed; then they are."""
    coordinator = await begun(world)
    replicator = world.first
    refused = PartitionFault(kind="record_refused", text="too large", source_from=60, source_to=61)
    replicator.stop_partition(ORDERS, "stopped", refused)
    await shown(coordinator.partitions, lambda rows: rows[0].trouble == "record_refused")
    await coordinator.resolve("A->B", "orders", 0, "skip")
    replicator.held[ORDERS] = replace(replicator.held[ORDERS], anchor=OffsetPair(60, 60))
    world.kafka.ends[REMOTE] = 60
    await eventually(lambda: replicator.assigned[ORDERS].skip == ((60, 61),))
    assert replicator.assigned[ORDERS].anchor.source_offset == 60
    assert len(gaps(world)) == 1
