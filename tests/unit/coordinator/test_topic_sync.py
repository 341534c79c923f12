"""Configs and ACLs kept in step by a coordinator, with everything around it in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator.service import CoordinatorService
from mirror_ray.model.topics import ConfigValue
from tests.support.factories import acl
from tests.unit.coordinator.fakes import FLOW, World, eventually, flow, settings, texts

_INTERVAL_S = 0.02


def _flow(**topics: object) -> FlowSettings:
    return flow(
        topics={
            "refresh_interval_s": 0.005,
            "sync_configs_interval_s": _INTERVAL_S,
            "sync_acls_interval_s": _INTERVAL_S,
            **topics,
        }
    )


def _retention(value: str, *, default: bool = False) -> Mapping[str, ConfigValue]:
    source = "DEFAULT_CONFIG" if default else "DYNAMIC_TOPIC_CONFIG"
    return {"retention.ms": ConfigValue(value=value, source=source)}  # type: ignore[arg-type]  # one of its values


async def _begin(world: World, **topics: object) -> CoordinatorService:
    """The flow with a topic that is copied."""
    world.kafka.add_topic("A", "orders")
    return await world.running(settings(_flow(**topics)))


async def _rounds(world: World, what: str, number: int) -> None:
    """Wait for so many rounds more."""
    before = world.topics.rounds[what]
    await eventually(lambda: world.topics.rounds[what] >= before + number)


async def test_only_what_differs_is_altered(world: World) -> None:
    """Once; later rounds look and send nothing. What was done is an event with its why."""
    world.topics.source["orders"] = _retention("1")
    world.topics.target["A.orders"] = _retention("2")
    coordinator = await _begin(world)
    await _rounds(world, "configs", 4)
    assert world.topics.altered == [{"A.orders": {"retention.ms": "1"}}]
    events = await texts(coordinator)
    assert "A.orders: altered retention.ms: 2 -> 1 (set on the source)" in events


async def test_a_change_on_either_side_is_followed(world: World) -> None:
    """Taken away on the source, or altered on the target by somebody else."""
    world.topics.source["orders"] = _retention("1")
    world.topics.target["A.orders"] = _retention("1")
    await _begin(world)
    await _rounds(world, "configs", 2)
    world.topics.target["A.orders"] = _retention("7")
    await eventually(lambda: world.topics.target["A.orders"] == _retention("1"))
    world.topics.source["orders"] = _retention("9", default=True)
    await eventually(lambda: world.topics.altered[1:] == [{"A.orders": {"retention.ms": None}}])


async def test_a_refusal_is_reported_once_and_does_not_stop_the_others(world: World) -> None:
    """And is forgotten once it works."""
    for topic in ("bad", "orders"):
        world.kafka.add_topic("A", topic)
        world.topics.source[topic] = _retention("1")
        world.topics.target[f"A.{topic}"] = _retention("2")
    world.topics.refused.add("A.bad")
    coordinator = await world.running(settings(_flow()))
    await _rounds(world, "configs", 3)
    assert world.topics.target["A.orders"] == _retention("1")
    warnings = [event.text for event in await coordinator.events() if event.level == "warning"]
    assert warnings.count("A.bad is refused") == 1
    world.topics.refused.clear()
    await eventually(lambda: world.topics.target["A.bad"] == _retention("1"))


async def test_a_paused_flow_leaves_the_target_alone(world: World) -> None:
    """Until it is resumed: after a failover its remote topics belong to whoever writes them now."""
    world.topics.source["orders"] = world.topics.target["A.orders"] = _retention("1")
    coordinator = await _begin(world)
    await _rounds(world, "configs", 1)
    await coordinator.pause(str(FLOW))
    world.topics.target["A.orders"] = _retention("7")
    before = world.topics.rounds["configs"]
    await asyncio.sleep(5 * _INTERVAL_S)
    assert world.topics.rounds["configs"] <= before + 1
    assert not world.topics.altered
    await coordinator.resume(str(FLOW))
    await eventually(lambda: world.topics.target["A.orders"] == _retention("1"))


async def test_off_is_off(world: World) -> None:
    """Neither is asked for."""
    world.topics.source_acls = {acl("orders")}
    await _begin(world, sync_configs_enabled=False, sync_acls_enabled=False)
    await eventually(lambda: "write partition/orders/0" in world.kafka.log)
    await asyncio.sleep(3 * _INTERVAL_S)
    assert not world.topics.rounds


async def test_rights_are_given_once(world: World) -> None:
    """They are in the flow's state before they are on the target; a second round sends nothing."""
    world.topics.source_acls = {acl("orders"), acl("orders", "WRITE"), acl("orders", "ALL", principal="User:bob")}
    await _begin(world)
    await _rounds(world, "ACLs", 4)
    given = {acl("A.orders"), acl("A.orders", "READ", principal="User:bob")}
    assert world.topics.target_acls == given
    assert len(world.topics.changed) == 1
    assert sum(key.startswith("acl/") for key in world.kafka.states[FLOW]) == len(given)


async def test_only_rights_that_the_flow_gave_are_taken_back(world: World) -> None:
    """Also by a coordinator that did not give them, and only where that is asked for."""
    local = acl("A.orders", principal="User:local")
    world.topics.source_acls, world.topics.target_acls = {acl("orders")}, {local}
    first = await _begin(world)
    await _rounds(world, "ACLs", 2)
    world.topics.source_acls = set()
    await _rounds(world, "ACLs", 2)
    assert world.topics.target_acls == {local, acl("A.orders")}
    world.abandon(first)
    await world.running(settings(_flow(sync_acls_revocations=True)))
    await eventually(lambda: world.topics.target_acls == {local})
    await eventually(lambda: not any(key.startswith("acl/") for key in world.kafka.states[FLOW]))


async def test_without_an_authorizer_nothing_is_done(world: World) -> None:
    """Said once, and no problem (MM2: testNoBrokerAclAuthorizer)."""
    coordinator = await _begin(world)
    await _rounds(world, "ACLs", 3)
    assert not world.topics.changed
    said = [event.text for event in await coordinator.events() if "authorizer" in event.text]
    assert said == ["cluster A has no authorizer: there are no ACLs to keep in step"]
    assert (await coordinator.status()).problems == ()


async def test_groups_that_are_carried_over_get_their_rights(world: World) -> None:
    """Literal ones, and with patterns those that exist."""
    world.topics.source_acls = {acl("app", resource="GROUP", pattern="PREFIXED")}
    world.topics.groups = {"app-1", "other", "connect-app"}
    await _begin(world, sync_acls_patterns=True, sync_acls_groups=True)
    await eventually(lambda: {given.name for given in world.topics.target_acls} == {"app-1"})
