"""Ray's key-value store as the place where a restarted coordinator finds its settings."""

from __future__ import annotations

import asyncio

from ray.experimental import internal_kv

from mirror_ray.state.actor_names import NAMESPACE, coordinator_name

_NAMESPACE = NAMESPACE.encode()


class RaySettingsStore:
    """Keeps a system's settings for as long as Ray's head lives.

    Ray keeps the arguments of its actors there too, so nothing is in it that would not be anyway. It has no public
    interface to it.
    """

    def __init__(self, name: str) -> None:
        """``name``: the system's."""
        self._key = coordinator_name(name).encode()

    async def load(self) -> bytes | None:
        """What was saved last."""
        get = internal_kv._internal_kv_get  # noqa: SLF001
        found: bytes | None = await asyncio.to_thread(get, self._key, namespace=_NAMESPACE)
        return found

    async def save(self, blob: bytes | None) -> None:
        """Keep ``blob``; None forgets."""
        if blob is None:
            delete = internal_kv._internal_kv_del  # noqa: SLF001
            await asyncio.to_thread(delete, self._key, namespace=_NAMESPACE)
        else:
            put = internal_kv._internal_kv_put  # noqa: SLF001
            await asyncio.to_thread(put, self._key, blob, overwrite=True, namespace=_NAMESPACE)
