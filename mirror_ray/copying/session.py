"""A fetch session (KIP-227) from the client's side: only what changed is sent. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

_LARGEST_EPOCH = 2**31 - 1

Key = TypeVar("Key", bound=Hashable)


class FetchSession(Generic[Key]):
    """Knows what the broker knows, and turns wishes into the next request's differences.

    A request's epoch is 0 to begin a session (every wanted partition is sent), then 1, 2, ... for differences. A broker
    without room for sessions answers session id 0: then every request stays a full one.
    """

    def __init__(self) -> None:
        self._id = 0
        self._epoch = 0
        self._wanted: dict[Key, int] = {}
        self._changed: dict[Key, int] = {}
        self._forgotten: set[Key] = set()

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, key: Key, offset: int) -> None:
        """Fetch ``key`` from ``offset`` in the next request and, unless said otherwise, in all after it."""
        if self._wanted.get(key) == offset and key not in self._forgotten:
            return
        self._wanted[key] = offset
        self._changed[key] = offset
        self._forgotten.discard(key)

    def forget(self, key: Key) -> None:
        """Leave ``key`` out from the next request on."""
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten.add(key)

    def offset(self, key: Key) -> int | None:
        """The offset that ``key`` was last asked for, None when it is not asked for."""
        return self._wanted.get(key)

    def next_request(self) -> tuple[tuple[int, int], dict[Key, int], list[Key]]:
        """Session id and epoch, partitions to send with their offsets, partitions to forget.

        The caller sends it, and then calls ``answered`` or ``restart``.
        """
        if self._epoch == 0:
            changed, forgotten = dict(self._wanted), []
        else:
            changed, forgotten = self._changed, list(self._forgotten)
        self._changed, self._forgotten = {}, set()
        return (self._id, self._epoch), changed, forgotten

    def answered(self, session_id: int) -> None:
        """The broker answered without a session error."""
        if session_id == 0:
            self._id = self._epoch = 0
        else:
            self._id = session_id
            self._epoch = self._epoch + 1 if self._epoch < _LARGEST_EPOCH else 1

    def restart(self) -> None:
        """The broker lost the session, or the connection was lost: begin anew with everything that is wanted."""
        self._id = self._epoch = 0
