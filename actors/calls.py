"""Calls of actors, and actors that are brought up again when they have died."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayError, RayTaskError

from actors.connection import first_line
from mirror_ray.coordinator.ports import ReplicatorGoneError, ReplicatorSilentError
from mirror_ray.model.errors import MirrorError
from mirror_ray.state.actor_names import NAMESPACE

_STOP_S = 5.0


async def call(ref: Any) -> Any:
    """Await a call of an actor; Ray's errors become ours.

    Raises:
        ReplicatorGoneError: The process is dead for sure. ReplicatorSilentError: It can't be reached just now.
        MirrorError: The method raised.
    """
    try:
        return await ref
    except ActorDiedError as error:
        raise ReplicatorGoneError(first_line(error)) from error
    except ActorUnavailableError as error:
        raise ReplicatorSilentError(first_line(error)) from error
    except RayActorError as error:
        raise ReplicatorGoneError(first_line(error)) from error
    except RayTaskError as error:
        cause = error.cause
        raise cause if isinstance(cause, MirrorError) else MirrorError(f"{type(cause).__name__}: {cause}") from error
    except RayError as error:
        raise ReplicatorSilentError(first_line(error)) from error


def named_actor(name: str) -> ActorHandle[Any] | None:
    """The actor of that name; None: there is none, or it has ended. Blocks."""
    found: ActorHandle[Any] | None = None
    with contextlib.suppress(ValueError):
        found = ray.get_actor(name, namespace=NAMESPACE)
    return found


def named_actors(number_of: Callable[[str], int | None]) -> dict[int, ActorHandle[Any]]:
    """Living actors by number; ``number_of`` reads it from a name, None: the actor is another one. Blocks."""
    found: dict[int, ActorHandle[Any]] = {}
    for actor in ray.util.list_named_actors(all_namespaces=True):
        name = str(actor["name"])
        number = number_of(name) if actor["namespace"] == NAMESPACE else None
        handle = named_actor(name) if number is not None else None
        if number is not None and handle is not None:
            found[number] = handle
    return found


async def stop_actor(handle: ActorHandle[Any]) -> None:
    """Have an actor stop, then end it, whether or not it has answered within some seconds."""
    with contextlib.suppress(TimeoutError, MirrorError):
        await asyncio.wait_for(call(handle.stop.remote()), _STOP_S)
    await asyncio.to_thread(ray.kill, handle)


class SupervisedActor:
    """One named actor: brought up when it is first called, and again when it has died."""

    def __init__(self, name: str, spawn: Callable[[], ActorHandle[Any]], settings: object | None = None) -> None:
        """Nothing is started yet; ``spawn`` creates the actor, or finds it, and blocks.

        ``settings``: given to its method ``configure`` each time that it was spawned; None: it is not called.
        """
        self._name, self._spawn, self._settings = name, spawn, settings
        self._handle: ActorHandle[Any] | None = None
        self._starting = asyncio.Lock()

    async def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of it. Raises as ``call`` does: of an actor that died, the next call starts another one."""
        try:
            async with self._starting:
                if self._handle is None:
                    handle = await asyncio.to_thread(self._spawn)
                    if self._settings is not None:
                        await call(handle.configure.remote(self._settings))
                    self._handle = handle
                handle = self._handle
            return await call(getattr(handle, method).remote(*args, **options))
        except ReplicatorGoneError:
            self._handle = None
            raise

    async def stop(self) -> None:
        """End it, also where another coordinator has started it."""
        handle = await asyncio.to_thread(named_actor, self._name)
        if handle is not None:
            await stop_actor(handle)
