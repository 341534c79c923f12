"""The checkpoint actor: syncs consumer groups and translates offsets.

There is one task per flow: a flow whose clusters can't be reached holds up no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.groups.commit_history_topic import HistoryWriter
from mirror_ray.groups.sync import GroupOffsetSync
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.observe.groups import CheckpointReport, FlowGroups, GroupStatus
from mirror_ray.offsets.flow_maps import FlowMaps
from mirror_ray.offsets.translation import Translation

_log = logging.getLogger(__name__)

_EVENTS_KEPT = 1000
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.5, 10.0
#: A round may take as much time as the pause after it: then half a core is used, whatever the number of groups.
_MOST_SHARE = 0.5
#: However rarely groups are synced, the commit history reads them as often (``READING_VALID_MS``).
_HISTORY_S = 30.0
#: Until the last acknowledgements are in the segments topic.
_PUBLISHED_S = 1.5
_POLL_S = 0.05
#: For the last entries of the audit log.
_FLUSH_S = 1.0


@dataclass(slots=True, eq=False)
class _Flow:
    """What belongs to one flow."""

    settings: FlowSettings
    source: ClusterConnections
    target: ClusterConnections
    maps: FlowMaps
    sync: GroupOffsetSync
    task: asyncio.Task[None] = field(init=False)
    #: Seconds that the last round took; None before the first.
    round_s: float | None = None
    #: Rounds that were begun, and that succeeded.
    begun: int = 0
    done: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    problem: str | None = None
    #: When a round last succeeded, on the monotonic clock.
    done_s: float = field(default_factory=time.monotonic)


class GroupSyncService:
    """Syncs its share of the groups: those whose name's checksum modulo the number of actors is ``number``."""

    def __init__(self, audit_logs: AuditLogs, number: int = 0) -> None:
        """Nothing happens before ``configure``. ``audit_logs`` keep what is committed."""
        self._audit_logs = audit_logs
        self._number, self._of = number, 1
        self._flows: dict[FlowName, _Flow] = {}
        self._inputs: dict[FlowName, object] = {}
        self._events: deque[tuple[int, str, str, str]] = deque(maxlen=_EVENTS_KEPT)
        self._configuring = asyncio.Lock()

    def __repr__(self) -> str:
        """For Ray's log lines; never the settings."""
        return f"Checkpoint({self._number + 1} of {self._of})"

    async def configure(self, settings: MirrorSettings) -> None:
        """Work by these settings from now on; flows that they don't change go on. Idempotent."""
        async with self._configuring:
            wanted = {flow.name: flow for flow in settings.flows if flow.enabled}
            if settings.checkpoint_actors != self._of:
                await asyncio.gather(*(self._end(name) for name in list(self._flows)))
                self._of = settings.checkpoint_actors
            for name in [name for name in self._flows if self._inputs[name] != _depends_on(settings, wanted.get(name))]:
                await self._end(name)
            for name, flow in wanted.items():
                if name not in self._flows:
                    self._begin(settings, flow)

    async def report(self) -> CheckpointReport:
        """How the rounds go, and what is for the event log since the last report."""
        events = tuple(self._events)
        self._events.clear()
        flows = {str(name): _summary(flow) for name, flow in self._flows.items()}
        return CheckpointReport(events=events, flows=flows, audit=self._audit_logs.problems())

    async def groups(self, flow: str | None = None) -> tuple[GroupStatus, ...]:
        """Every group of this share, by flow and name."""
        chosen = list(self._flows.values())
        if flow is not None:
            asked = self._find(flow)
            name = asked.settings.name
            # Routes belong to their flow.
            chosen = [asked, *(found for found in chosen if found is not asked and found.settings.name.live == name)]
        every = ((found.settings.route, status) for found in chosen for status in found.sync.statuses())
        return tuple(status for route, status in every if route is None or status.partitions)

    async def translate(self, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> Translation:
        """Translate an offset of a source partition; ``back``: one of its remote partition."""
        found = self._find(flow)
        await found.maps.ready()
        return await found.maps.translate(TopicPartition(topic, partition), offset, back=back)

    async def settle(self, deadline_s: float) -> bool:
        """Sync at once; returns whether every flow had its round by the deadline.

        A replicator publishes within about a second what it has copied, so the round begins after that.
        """
        syncing = [flow for flow in self._flows.values() if flow.settings.groups.emit_checkpoints_enabled]
        if not syncing:
            return True
        await asyncio.sleep(_PUBLISHED_S)
        after = {id(flow): flow.begun for flow in syncing}
        for flow in syncing:
            flow.sync.sync_at_once()
        try:
            async with asyncio.timeout(deadline_s):
                for flow in syncing:
                    while flow.done <= after[id(flow)]:
                        flow.wake.set()
                        await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Stop everything. A round that is cut off is made up for by the next life."""
        async with self._configuring:
            await asyncio.gather(*(self._end(name) for name in list(self._flows)))
        await asyncio.to_thread(self._audit_logs.flush, _FLUSH_S)

    def _accepts(self, group: str) -> bool:
        return zlib.crc32(group.encode()) % self._of == self._number

    def _begin(self, settings: MirrorSettings, flow: FlowSettings) -> None:
        name = flow.name
        client_id = f"{name}|mirror-ray|checkpoint"
        source = ClusterConnections(settings.clusters[name.source], client_id)
        target = ClusterConnections(settings.clusters[name.target], client_id)
        maps = FlowMaps(flow, source, target, self._reporter(name), _flow_back(settings, flow))
        history = HistoryWriter(name.source, target, self._reporter(name), self._number, self._of)
        kept = history if flow.groups.history_enabled else None
        audit_log = self._audit_logs.of(settings, name)
        sync = GroupOffsetSync(flow, source, target, maps, audit_log, accepts=self._accepts, history=kept)
        begun = _Flow(flow, source, target, maps, sync)
        self._flows[name], self._inputs[name] = begun, _depends_on(settings, flow)
        begun.task = asyncio.create_task(self._run(begun), name=f"groups of {name}")

    async def _end(self, name: FlowName) -> None:
        flow = self._flows.pop(name)
        self._inputs.pop(name)
        flow.task.cancel()
        await asyncio.gather(flow.task, return_exceptions=True)
        await flow.maps.close()
        await asyncio.gather(flow.source.close(), flow.target.close())

    async def _run(self, flow: _Flow) -> None:
        """Round after round, for as long as the flow is there."""
        pause_s, begun = _FIRST_PAUSE_S, False
        while True:
            began_s = time.monotonic()
            try:
                if not begun:
                    await flow.sync.begin()
                    begun = True
                if flow.settings.groups.emit_checkpoints_enabled:
                    flow.begun += 1
                    number = flow.begun
                    await flow.sync.round()
                    flow.done, flow.done_s = number, time.monotonic()
                if self._number == 0:
                    await flow.maps.own.delete_obsolete()
                flow.round_s = time.monotonic() - began_s
                self._recovered(flow)
                pause_s = _FIRST_PAUSE_S
                await self._pause(flow, flow.round_s)
            except Exception as error:  # noqa: BLE001 - the next round tries again, whatever it was
                self._failed(flow, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    @staticmethod
    async def _pause(flow: _Flow, round_s: float) -> None:
        groups = flow.settings.groups
        reads = groups.emit_checkpoints_enabled and groups.history_enabled
        left_s = max(groups.emit_checkpoints_interval_s - round_s, round_s * (1 / _MOST_SHARE - 1))
        await pause(flow.wake, left_s, flow.sync.read_source if reads else None)

    def _failed(self, flow: _Flow, error: Exception) -> None:
        unforeseen = not isinstance(error, OSError | MirrorError)
        _log.warning("groups of %s: %s", flow.settings.name, error, exc_info=unforeseen)
        text = str(error) or type(error).__name__
        if flow.problem is None:
            self._event("warning", flow.settings.name, f"consumer groups wait: {text}")
        flow.problem = text

    def _recovered(self, flow: _Flow) -> None:
        if flow.problem is not None:
            self._event("info", flow.settings.name, "consumer groups are synced again")
        flow.problem = None

    def _reporter(self, name: FlowName) -> Callable[[str], None]:
        reported: set[str] = set()

        def report(text: str) -> None:
            if text not in reported:
                reported.add(text)
                self._event("warning", name, text)

        return report

    def _event(self, level: str, name: FlowName, text: str) -> None:
        self._events.append((int(time.time() * 1000), level, str(name), text))

    def _find(self, flow: str) -> _Flow:
        with contextlib.suppress(KeyError, ValueError):
            return self._flows[FlowName.parse(flow)]
        names = ", ".join(str(name) for name in self._flows) or "none"
        raise ConfigError(f"there is no running flow {flow!r}; running flows: {names}")


async def pause(wake: asyncio.Event, pause_s: float, read: Callable[[], Awaitable[None]] | None) -> None:
    """Wait until ``wake`` is set, but no longer than ``pause_s``; ``read`` is called now and then in the meantime."""
    wake.clear()
    until_s = time.monotonic() + pause_s
    while pause_s > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s if read is None else min(pause_s, _HISTORY_S)):
                await wake.wait()
                return
        pause_s = until_s - time.monotonic()
        if read is not None and pause_s > 0:
            await read()


def _summary(flow: _Flow) -> FlowGroups:
    state = flow.sync.state
    return FlowGroups(
        groups=sum(1 for entries in state.groups.values() if any(entry.source for entry in entries.values())),
        untranslated=len(state.untranslated),
        unsynced=len(state.unsynced),
        round_s=flow.round_s,
        problem=flow.problem or flow.sync.problems.get(""),
        age_s=time.monotonic() - flow.done_s if flow.settings.groups.emit_checkpoints_enabled else None,
    )


def _depends_on(settings: MirrorSettings, flow: FlowSettings | None) -> object:
    """The settings that a flow's part depends on."""
    if flow is None:
        return None
    name = flow.name
    clusters = (settings.clusters[name.source], settings.clusters[name.target])
    return flow, _flow_back(settings, flow), *clusters, settings.audit


def _flow_back(settings: MirrorSettings, flow: FlowSettings) -> FlowSettings | None:
    return next((other for other in settings.flows if other.name == flow.name.back and other.enabled), None)
