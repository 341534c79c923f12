"""A flow that has begun is never turned to other clusters, whoever asks, and whatever the settings say."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError
from tests.unit.coordinator.fakes import ORDERS, World, eventually, flow, settings, shown


def _between(clusters: dict[str, str], *flows: FlowSettings) -> MirrorSettings:
    """Settings with these bootstrap servers, by alias."""
    made = settings(*flows)
    others = {alias: ClusterSettings(alias=alias, bootstrap_servers=(server,)) for alias, server in clusters.items()}
    return made.model_copy(update={"clusters": {**made.clusters, **others}})


async def _begun(world: World) -> CoordinatorService:
    """A->B copies orders; elsewhere:9092 is the address of another cluster, moved:9092 of the same as before."""
    world.kafka.cluster_ids["elsewhere:9092"] = "cluster-E"
    return await world.copying("orders")


@pytest.mark.parametrize("aliases", ["A", "B", "AB"])
async def test_up_with_another_cluster_is_refused_and_changes_nothing(world: World, aliases: str) -> None:
    """By either side; the refusal names both ids and the ways, and the flow copies on between its own."""
    coordinator = await _begun(world)
    before, log = coordinator.parts.settings, len(world.kafka.log)
    other = _between(dict.fromkeys(aliases, "elsewhere:9092"))
    for dry_run in (True, False):
        with pytest.raises(ConfigError) as refused:
            await coordinator.apply(other, None, dry_run)
        (said, nothing) = refused.value.problems
        for alias in aliases:
            assert (
                f"cluster {alias} now has the cluster id cluster-E, and the flow has begun with cluster-{alias}" in said
            )
        assert ("--name OTHER" in said and "mirror-ray down" in said) is ("B" in aliases)
        assert ("alias of its own" in said) is ("B" not in aliases)
        assert nothing == "nothing has been changed"
    assert coordinator.parts.settings is before
    assert world.kafka.log[log:] == []
    assert ORDERS in world.first.held


async def test_the_same_cluster_at_another_address_is_taken(world: World) -> None:
    """What counts is the id."""
    coordinator = await _begun(world)
    found = await coordinator.apply(_between({"B": "moved:9092"}))
    assert "restarted" in str(found)
    await eventually(lambda: world.first.assigned[ORDERS].epoch == 2)


async def test_a_dry_run_changes_nothing(world: World) -> None:
    """It says what `up` would do."""
    coordinator = await _begun(world)
    before = coordinator.parts.settings
    found = await coordinator.act("ann@desk", "apply", (settings(flow(fetch={"max_wait_ms": 100})), None, True))
    assert str(found) == "A->B restarted (fetch)"
    assert coordinator.parts.settings is before
    assert world.kept == [] or all("dry" not in str(entry) for entry in world.kept)


async def test_another_cluster_is_not_taken_unseen(world: World) -> None:
    """One that has other settings now and does not answer may be another; with its old ones it is waited for."""
    coordinator = await _begun(world)
    world.kafka.unreachable.add("moved:9092")
    with pytest.raises(ClusterUnreachableError, match=r"cluster B can't be reached; nothing has been changed"):
        await coordinator.apply(_between({"B": "moved:9092"}))
    world.kafka.unreachable.add("B")
    await coordinator.apply(settings(flow(fetch={"max_wait_ms": 100})))
    await shown(coordinator.status, lambda status: status.flows[0].state == "unreachable")
    world.kafka.unreachable.discard("B")
    await world.until_held(ORDERS)


@pytest.mark.parametrize("change", [{"fetch.max_wait_ms": "100"}, {"enabled": "false"}])
async def test_another_cluster_behind_the_same_address_is_noticed_before_its_state_is_opened(
    world: World, change: dict[str, Any]
) -> None:
    """`set` begins a flow anew, at once or after it was off; its target's name has come to mean another cluster."""
    coordinator = await _begun(world)
    world.kafka.unreachable.add("B")
    await coordinator.set("A->B", change)
    if "enabled" in change:
        await coordinator.set("A->B", {"enabled": "true"})
    opened = world.kafka.owners.copy()
    world.kafka.cluster_ids["B"] = "cluster-E"
    world.kafka.unreachable.discard("B")
    status = await shown(coordinator.status, lambda status: "cluster-E" in " ".join(status.flows[0].problems))
    assert "cluster-B" in " ".join(status.flows[0].problems)
    assert world.kafka.owners == opened
    assert ORDERS not in world.first.held


async def test_set_is_refused_as_well(world: World) -> None:
    """Where the cluster behind the address is seen at once."""
    coordinator = await _begun(world)
    world.kafka.cluster_ids["B"] = "cluster-E"
    with pytest.raises(ConfigError, match="cluster-E"):
        await coordinator.set("A->B", {"fetch.max_wait_ms": "100"})


async def test_a_flow_that_was_dropped_is_not_turned_either(world: World) -> None:
    """The system remembers it: dropping a flow and giving it back is no way around."""
    coordinator = await _begun(world)
    await coordinator.apply(settings(flow("B->C")))
    with pytest.raises(ConfigError, match="cluster-E"):
        await coordinator.apply(_between({"B": "elsewhere:9092"}))


async def test_a_restarted_coordinator_remembers(world: World) -> None:
    """Also where the target, which keeps it as well, can't be reached."""
    first = await _begun(world)
    await eventually(lambda: world.memory.blob is not None and b"cluster-B" in world.memory.blob)
    world.abandon(first)
    world.kafka.unreachable.add("B")
    second = await world.another()
    with pytest.raises(ConfigError, match="begun with cluster-B"):
        await second.apply(_between({"B": "elsewhere:9092"}))


async def test_down_and_up_is_a_way(world: World) -> None:
    """On another target the copy begins anew; the first target still keeps its own progress."""
    coordinator = await _begun(world)
    world.first.copy(ORDERS, 50)
    assert await coordinator.down(1.0)
    world.kafka.states.clear()
    await world.running(_between({"B": "elsewhere:9092"}))
    assert (await world.assigned()).anchor.source_offset == 0
