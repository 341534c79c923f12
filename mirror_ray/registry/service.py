"""The schema sync: mirrors the schema registries of flows, one task per flow."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.observe.schemas import FlowSchemas, SchemaReport, SchemaStatus
from mirror_ray.registry.flow_schemas import FlowSchemaSync
from mirror_ray.registry.id_topic import SchemaIdTopic
from mirror_ray.registry.mirror import SchemaMirror
from mirror_ray.registry.opening import open_registry
from mirror_ray.registry.schema import SubjectVersion
from mirror_ray.registry.subject_rules import subject_rules

_log = logging.getLogger(__name__)

_EVENTS_KEPT = 1000
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.5, 10.0
_PROBLEMS_SHOWN = 20
#: For the last entries of the audit log.
_FLUSH_S = 1.0


@dataclass(slots=True, eq=False)
class _Flow:
    """What belongs to one flow."""

    settings: FlowSettings
    #: Of the system.
    system: MirrorSettings
    #: Which settings it was begun by.
    by: object
    #: None: it mirrors nothing.
    task: asyncio.Task[None] | None = None
    sync: FlowSchemaSync | None = None
    needs: Collection[SchemaNeed] = ()
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    problem: str | None = None
    done_s: float | None = None

    async def stop(self) -> None:
        """Mirror nothing any more; what is known of the registries stays to be shown."""
        task, self.task = self.task, None
        self.problem, self.done_s = None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class SchemaSyncService:
    """The schemas of every flow whose clusters both have a registry."""

    def __init__(self, audit_logs: AuditLogs) -> None:
        """Nothing happens before ``configure``. ``audit_logs`` keep what is changed."""
        self._audit_logs = audit_logs
        self._flows: dict[FlowName, _Flow] = {}
        self._events: deque[tuple[int, str, str, str]] = deque(maxlen=_EVENTS_KEPT)
        self._configuring = asyncio.Lock()

    def __repr__(self) -> str:
        """For Ray's log lines; never the settings."""
        return f"SchemaSync({len(self._flows)} flows)"

    async def configure(self, settings: MirrorSettings) -> None:
        """Work by these settings from now on; flows that they don't change go on. Idempotent."""
        async with self._configuring:
            wanted = {flow.name: flow for flow in settings.flows if flow.enabled and flow.syncs_schemas}
            changed = [name for name, flow in self._flows.items() if flow.by != _depends_on(settings, wanted.get(name))]
            await asyncio.gather(*map(self._end, changed))
            for name, flow in wanted.items():
                if name not in self._flows and name.is_live:
                    self._flows[name] = _Flow(flow, settings, _depends_on(settings, flow))

    async def report(self, needs: Collection[SchemaNeed], running: Collection[FlowName]) -> SchemaReport:
        """What happened since the last report.

        ``needs``: what partitions wait for now. ``running``: flows that mirror; the others mirror nothing when this
        returns, and nothing before the first report.
        """
        await self._run_alone(running)
        for name, flow in self._flows.items():
            flow.needs = [need for need in needs if need.flow.live == name]
            if flow.needs:
                flow.wake.set()
        events = tuple(self._events)
        self._events.clear()
        flows = {str(name): _summary(flow) for name, flow in self._flows.items()}
        return SchemaReport(events=events, flows=flows, audit=self._audit_logs.problems())

    async def schemas(self, flow: str | None) -> tuple[SchemaStatus, ...]:
        """Every version of every subject, of one flow or of all."""
        return tuple(
            status for name, one in self._flows.items() if flow in (None, str(name)) for status in _statuses(one)
        )

    async def stop(self) -> None:
        """Stop everything; a round that is cut off is made up for by the next life."""
        async with self._configuring:
            await asyncio.gather(*map(self._end, list(self._flows)))
        await asyncio.to_thread(self._audit_logs.flush, _FLUSH_S)

    async def _run_alone(self, running: Collection[FlowName]) -> None:
        async with self._configuring:
            await asyncio.gather(*(flow.stop() for name, flow in self._flows.items() if name not in running))
            for name, flow in self._flows.items():
                if name in running and flow.task is None:
                    flow.task = asyncio.create_task(self._run(flow), name=f"schemas of {name}")

    async def _end(self, name: FlowName) -> None:
        await self._flows.pop(name).stop()

    async def _run(self, flow: _Flow) -> None:
        """Life after life: each begins with what the internal topic says."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                async with AsyncExitStack() as stack:
                    flow.sync = await self._open(flow.system, flow.settings, stack)
                    while True:
                        await flow.sync.round(flow.needs)
                        self._recovered(flow)
                        pause_s = _FIRST_PAUSE_S
                        await _pause(flow.wake, flow.settings.schemas.sync_interval_s)
            except Exception as error:  # noqa: BLE001 - the next life tries again, whatever it was
                self._failed(flow, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def _open(self, settings: MirrorSettings, flow: FlowSettings, stack: AsyncExitStack) -> FlowSchemaSync:
        name, schemas = flow.name, flow.schemas
        audit_log, client_id = self._audit_logs.of(settings, name), f"{name}|mirror-ray|schemas"
        source, target_registry = [
            await stack.enter_async_context(open_registry(settings.clusters[alias], client_id))
            for alias in (name.source, name.target)
        ]
        target = ClusterConnections(settings.clusters[name.target], client_id)
        stack.push_async_callback(target.close)
        topic = SchemaIdTopic(target, name.source, flow.topics.replication_factor)
        await topic.open(client_id, audit_log)
        return FlowSchemaSync(
            source,
            target_registry,
            topic,
            lambda way: SchemaMirror(
                source, target_registry, subject_rules(flow), way, audit_log, with_globals=schemas.sync_globals
            ),
            None if schemas.ids == "auto" else schemas.ids,
            full_interval_s=schemas.full_interval_s,
            absent_after_s=None if flow.transforms.errors == "stop" else schemas.wait_ms / 1000,
            report=lambda level, text: self._event(level, name, text),
        )

    def _failed(self, flow: _Flow, error: Exception) -> None:
        unforeseen = not isinstance(error, OSError | MirrorError)
        _log.warning("schemas of %s: %s", flow.settings.name, error, exc_info=unforeseen)
        text = str(error) or type(error).__name__
        if flow.problem is None:
            self._event("warning", flow.settings.name, f"schemas are not mirrored: {text}")
        flow.problem = text

    def _recovered(self, flow: _Flow) -> None:
        if flow.problem is not None:
            self._event("info", flow.settings.name, "schemas are mirrored again")
        flow.problem, flow.done_s = None, time.monotonic()

    def _event(self, level: str, name: FlowName, text: str) -> None:
        self._events.append((int(time.time() * 1000), level, str(name), text))


async def _pause(wake: asyncio.Event, pause_s: float) -> None:
    wake.clear()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await wake.wait()


def _summary(flow: _Flow) -> FlowSchemas:
    sync = flow.sync
    mirror = sync.mirror if sync is not None else None
    schemas, mirrored = (mirror.schemas, mirror.mirrored) if mirror is not None else ({}, {})
    problems = [*_problems(mirror).values(), *mirror.settings_problems] if mirror is not None else []
    problems += sync.problems if sync is not None else ()
    return FlowSchemas(
        ids=sync.way if sync is not None else None,
        subjects=len({at.subject for at in schemas}),
        versions=len(schemas),
        mirrored=len(mirrored),
        problems=tuple(problems[:_PROBLEMS_SHOWN]),
        problem_count=len(problems),
        problem=flow.problem,
        age_s=None if flow.done_s is None else time.monotonic() - flow.done_s,
        requests=sync.requests if sync is not None else 0,
    )


def _problems(mirror: SchemaMirror) -> dict[SubjectVersion, str]:
    """Why versions are not as they are on the source."""
    undeleted = {
        at: f"{at} is soft-deleted on the source, and can't be on the target: {why}"
        for at, why in mirror.undeleted.items()
    }
    return undeleted | mirror.problems


def _statuses(flow: _Flow) -> list[SchemaStatus]:
    mirror = flow.sync.mirror if flow.sync is not None else None
    if mirror is None:
        return []
    rules, problems, found = subject_rules(flow.settings), _problems(mirror), []
    for at, source in sorted(mirror.schemas.items()):
        target, problem = mirror.mirrored.get(at), problems.get(at)
        found.append(
            SchemaStatus(
                flow=str(flow.settings.name),
                subject=str(at.subject),
                version=at.version,
                kind=source.schema.kind,
                source_id=source.id,
                target_subject=str(rules.target(at.subject)),
                target_id=target.id if target is not None else None,
                state="mirrored" if target is not None else "conflict" if problem else "missing",
                deleted=source.deleted,
                problem=problem,
            )
        )
    return found


def _depends_on(settings: MirrorSettings, flow: FlowSettings | None) -> object:
    """The settings that a flow's part depends on."""
    if flow is None:
        return None
    return flow, settings.clusters[flow.name.source], settings.clusters[flow.name.target], settings.audit
