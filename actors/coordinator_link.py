"""A coordinator's actor as a ``CoordinatorLink``: for commands, for Python's shell and for the gateway."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from actors.connection import disconnect, find_coordinator
from mirror_ray import own_ray
from mirror_ray.model.errors import MirrorError, NoAnswerError, NotRunningError
from mirror_ray.own_ray import OwnRay
from mirror_ray.state.actor_names import NAMESPACE, is_actor_of

#: How often a coordinator that restarts is asked again.
_RETRY_S = 0.5


class RayCoordinatorLink:
    """Finds the coordinator by its system's name, and again when it has been restarted."""

    def __init__(
        self, name: str, coordinator: Any | None = None, *, own: OwnRay | None = None, connected: bool = False
    ) -> None:
        """Find the coordinator when it is first asked, unless its handle is given.

        ``own``: the system's own Ray, if it has one; ``connected``: this process was connected to Ray for this link,
        which disconnects it at the end.
        """
        self._name, self._coordinator, self._own, self._connected = name, coordinator, own, connected

    async def ask(self, method: str, *args: object, timeout_s: float) -> Any:
        """Call a method of the coordinator; wait for one that restarts."""
        from ray.exceptions import RayActorError, RayTaskError

        until_s = time.monotonic() + timeout_s
        coordinator = self._coordinator or await self._find()
        while True:
            try:
                answer = getattr(coordinator, method).remote(*args)
                return await asyncio.wait_for(answer, max(0.0, until_s - time.monotonic()))
            except RayTaskError as error:
                raise raised_by(error, method) from error
            except TimeoutError:
                raise NoAnswerError(
                    f"the coordinator of {self._name!r} did not answer {method} within {timeout_s:g} s: its log is in"
                    " Ray's session directory; if it hangs, `mirror-ray down --deadline 0` ends the system"
                ) from None
            except RayActorError:
                coordinator = await self._find(late=time.monotonic() > until_s)
                await asyncio.sleep(_RETRY_S)

    async def _find(self, *, late: bool = False) -> Any:
        self._coordinator = None if late else await asyncio.to_thread(find_coordinator, self._name)
        if self._coordinator is None:
            raise NotRunningError(f"the system {self._name!r} has ended: `mirror-ray up CONFIG` starts it") from None
        return self._coordinator

    def end(self) -> None:
        """End every actor, the coordinator first: it would replace the others."""
        import ray

        if self._coordinator is not None:
            ray.kill(self._coordinator)
        for actor in ray.util.list_named_actors(all_namespaces=True):
            if actor["namespace"] == NAMESPACE and is_actor_of(self._name, str(actor["name"])):
                try:
                    ray.kill(ray.get_actor(str(actor["name"]), namespace=NAMESPACE))
                except ValueError:  # it has ended by itself
                    continue
        if self._own is not None and self._own.detached:
            disconnect()
            own_ray.stop(self._own)

    def close(self) -> None:
        """Disconnect from Ray, unless somebody else has made the connection."""
        if self._connected:
            disconnect()


def raised_by(error: Any, method: str) -> MirrorError:
    """What a method of the coordinator raised, as an error for people. ``error``: Ray's RayTaskError."""
    if isinstance(error.cause, MirrorError):
        return error.cause
    return MirrorError(f"the coordinator failed in {method}: {error.cause!r}")
