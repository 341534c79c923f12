"""A fetch session (KIP-227) from the client's side: only what changed is sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

_LARGEST_EPOCH = 2**31 - 1

Key = TypeVar("Key", bound=Hashable)
Position = TypeVar("Position")


class FetchSession(Generic[Key, Position]):
    """Knows what the broker knows, and what the next request has to change.

    A request's epoch is 0 to begin a session (every wanted partition is sent), then 1, 2, ... for differences. A broker
    without room for sessions answers session id 0: then every request stays a full one.

    Once ``established``, several requests may be under way: a broker handles one connection's requests in order.
    """

    def __init__(self) -> None:
        self._id = 0
        self._epoch = 0
        self._wanted: dict[Key, Position] = {}
        self._changed: dict[Key, Position] = {}
        self._forgotten: set[Key] = set()
        #: Of the forgotten those that the broker was not told of, and that know what it told them.
        self._paused: set[Key] = set()
        #: What the broker knew when it gave the last answer, and how the requests under way change that.
        self._asked: dict[Key, Position] = {}
        self._under_way: deque[tuple[Mapping[Key, Position], Sequence[Key], bool]] = deque()

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def established(self) -> bool:
        """Whether the broker keeps the session."""
        return self._epoch > 0

    @property
    def unfinished(self) -> bool:
        """Whether another request should follow soon: something is wanted that the last one could only forget."""
        return bool(self._changed)

    def want(self, key: Key, position: Position) -> None:
        """Fetch ``key`` from ``position`` in the next request and, unless said otherwise, in all after it."""
        if key in self._paused:
            self._paused.discard(key)
            self._forgotten.discard(key)
            self._wanted[key] = self._changed[key] = position
        elif self._wanted.get(key) != position or key in self._forgotten:
            self._wanted[key] = position
            self._changed[key] = position

    def pause(self, key: Key) -> None:
        """Leave ``key`` out from the next request on; wanted again before that, it goes on as if nothing had been."""
        if key in self._wanted:
            self.forget(key)
            self._paused.add(key)

    def forget(self, key: Key) -> None:
        """Leave ``key`` out from the next request on."""
        self._asked.pop(key, None)
        self._paused.discard(key)
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten.add(key)

    def asked(self, key: Key) -> Position | None:
        """The position that the last answer was for; None: it was not asked for, or was forgotten since."""
        return self._asked.get(key) if key in self._wanted else None

    def next_request(self) -> tuple[tuple[int, int], dict[Key, Position], list[Key]]:
        """Session id and epoch, partitions to send with their positions, partitions to forget.

        What was forgotten and is wanted again is forgotten first and asked for in the request after: the broker would
        take it for unchanged, and leave out of its answer what a newcomer must be told. The caller sends it, and calls
        ``answered`` for each request in order, or ``restart``.
        """
        if self._epoch == 0:
            changed, forgotten = dict(self._wanted), []
            self._changed = {}
        else:
            forgotten = list(self._forgotten)
            changed = {key: position for key, position in self._changed.items() if key not in self._forgotten}
            self._changed = {key: position for key, position in self._changed.items() if key in self._forgotten}
        self._forgotten, self._paused = set(), set()
        epoch = self._epoch
        self._under_way.append((changed, forgotten, epoch == 0))
        if epoch > 0:
            self._epoch = epoch + 1 if epoch < _LARGEST_EPOCH else 1
        return (self._id, epoch), changed, forgotten

    def answered(self, session_id: int) -> None:
        """The broker answered the oldest request under way, without a session error."""
        changed, forgotten, whole = self._under_way.popleft()
        if whole:
            self._asked = dict(changed)
        else:
            for key in forgotten:
                self._asked.pop(key, None)
            self._asked.update(changed)
        if session_id == 0:
            self._id = self._epoch = 0
        elif self._epoch == 0:
            self._id, self._epoch = session_id, 1

    def restart(self) -> None:
        """The broker lost the session, or the connection was lost: begin anew with everything that is wanted."""
        self._id = self._epoch = 0
        self._under_way.clear()
        self._asked.clear()
