"""Which flows mirror schemas: those that are not paused as a whole, as soon as that is known."""

from __future__ import annotations

from mirror_ray.config.settings import MirrorSettings, RegistrySettings
from mirror_ray.model.errors import MirrorError
from mirror_ray.observe.schemas import FlowSchemas
from tests.support.factories import flow_schemas
from tests.unit.coordinator.fakes import FLOW, World, eventually, flow, settings


def with_registries() -> MirrorSettings:
    """A->B, whose clusters have registries."""
    found = settings(flow(schemas={"sync_enabled": True}))
    registry = RegistrySettings(urls=("http://registry:8081",))
    clusters = {alias: one.model_copy(update={"registry": registry}) for alias, one in found.clusters.items()}
    return found.model_copy(update={"clusters": clusters})


async def test_a_flow_that_is_paused_mirrors_no_schemas(world: World) -> None:
    """Once the command has returned, and in the next life; a pause of a topic changes nothing."""
    coordinator, told = await world.copying("orders", wanted=with_registries()), world.schemas.running
    await eventually(lambda: told and list(told[-1]) == [FLOW])
    await coordinator.pause(str(FLOW), "orders")
    assert list(told[-1]) == [FLOW]
    await coordinator.pause(str(FLOW))
    assert not told[-1]
    count = len(told)
    later = await world.another(coordinator)
    await eventually(lambda: later.parts.flows[FLOW].opened)
    await later.parts.schemas.follow()
    assert not any(told[count:])
    await later.resume(str(FLOW))
    assert list(told[-1]) == [FLOW]


async def test_how_schemas_are_mirrored_is_in_the_status(world: World) -> None:
    """With what keeps the registries apart as problems of a kind of their own; of a sync that has died nothing."""
    coordinator = await world.copying("orders", wanted=with_registries())
    failing = flow_schemas(ids="same", problem="registry B does not answer", problems=("orders-value differs",))
    world.schemas.flows = {str(FLOW): failing}

    async def shown() -> FlowSchemas | None:
        return (await coordinator.status()).flows[0].schemas

    await eventually(lambda: coordinator.parts.schemas.flows)
    assert await shown() == failing
    status = await coordinator.status()
    assert "schemas are not mirrored: registry B does not answer" in status.flows[0].problems
    assert [problem.kind for problem in status.problems] == ["schemas_failing", "schemas_failing"]
    world.schemas.error = MirrorError("the schema sync has ended")
    await eventually(lambda: not coordinator.parts.schemas.flows)
    assert await shown() is None
    world.schemas.error = None
    await eventually(lambda: coordinator.parts.schemas.flows)


async def test_other_settings_hold_at_once(world: World) -> None:
    """What mirrors by the old ones has stopped when they have been applied."""
    coordinator = await world.copying("orders", wanted=with_registries())
    await eventually(lambda: world.schemas.running)
    count = len(world.schemas.running)
    await coordinator.apply(with_registries().model_copy(update={"replicators": 2}))
    assert len(world.schemas.running) > count
