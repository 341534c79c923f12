"""Asking the leaders of many partitions at once, each by itself: one that hangs delays its own partitions alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.supervision import log_failure

Ask = Callable[[list[PartitionReplication]], Coroutine[Any, Any, None]]


class LeaderQueries:
    """Runs ``ask`` for partitions, those of a broker together, and none that is being asked about already.

    ``ask`` hands each partition its answer; ``on_done()`` is called after it, ``on_failed(copies, text)`` before that
    if it raised.
    """

    def __init__(
        self,
        what: str,
        ask: Ask,
        *,
        on_done: Callable[[], None],
        on_failed: Callable[[list[PartitionReplication], str], None],
    ) -> None:
        self._what = what
        self._ask = ask
        self._on_done, self._on_failed = on_done, on_failed
        self._asked: set[PartitionReplication] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __contains__(self, copy: PartitionReplication) -> bool:
        return copy in self._asked

    def begin(self, copies: Iterable[PartitionReplication], leader: Callable[[PartitionReplication], int]) -> None:
        """Ask about these partitions, by their ``leader``."""
        by_leader: dict[int, list[PartitionReplication]] = {}
        for copy in copies:
            if copy not in self._asked:
                by_leader.setdefault(leader(copy), []).append(copy)
        for number, group in by_leader.items():
            self._asked.update(group)
            task = asyncio.create_task(self._run(group), name=f"{self._what} of broker {number}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, copies: list[PartitionReplication]) -> None:
        try:
            await self._ask(copies)
        except Exception as error:  # noqa: BLE001 - whatever it is, the partitions are asked about again
            log_failure(self._what, error, logging.WARNING)
            self._on_failed(copies, str(error))
        finally:
            self._asked.difference_update(copies)
            self._on_done()

    async def close(self) -> None:
        """End what is under way."""
        tasks: set[Awaitable[None]] = set(self._tasks)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
