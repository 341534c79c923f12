"""A fetch session (KIP-227) from the client's side: only what changed is sent."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

_LARGEST_EPOCH = 2**31 - 1

Key = TypeVar("Key", bound=Hashable)
Position = TypeVar("Position")


class FetchSession(Generic[Key, Position]):
    """Knows what the broker knows, and what the next request has to change.

    A request's epoch is 0 to begin a session (every wanted partition is sent), then 1, 2, ... for differences. A broker
    without room for sessions answers session id 0: then every request stays a full one.
    """

    def __init__(self) -> None:
        self._id = 0
        self._epoch = 0
        self._wanted: dict[Key, Position] = {}
        self._changed: dict[Key, Position] = {}
        self._forgotten: set[Key] = set()

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def unfinished(self) -> bool:
        """Whether another request should follow soon: something is wanted that the last one could only forget."""
        return bool(self._changed)

    def want(self, key: Key, position: Position) -> None:
        """Fetch ``key`` from ``position`` in the next request and, unless said otherwise, in all after it."""
        if self._wanted.get(key) != position or key in self._forgotten:
            self._wanted[key] = position
            self._changed[key] = position

    def forget(self, key: Key) -> None:
        """Leave ``key`` out from the next request on."""
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten.add(key)

    def position(self, key: Key) -> Position | None:
        """The position that ``key`` was last asked for, None when it is not asked for."""
        return self._wanted.get(key)

    def next_request(self) -> tuple[tuple[int, int], dict[Key, Position], list[Key]]:
        """Session id and epoch, partitions to send with their positions, partitions to forget.

        What was forgotten and is wanted again is forgotten first and asked for in the request after: the broker would
        take it for unchanged, and leave out of its answer what a newcomer must be told. The caller sends it, and then
        calls ``answered`` or ``restart``.
        """
        if self._epoch == 0:
            changed, forgotten = dict(self._wanted), []
            self._changed = {}
        else:
            forgotten = list(self._forgotten)
            changed = {key: position for key, position in self._changed.items() if key not in self._forgotten}
            self._changed = {key: position for key, position in self._changed.items() if key in self._forgotten}
        self._forgotten = set()
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
