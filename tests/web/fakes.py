"""A system that answers from memory, behind a real HTTP server."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from mirror_ray.config.difference import FlowChange, KeyChange, SettingsDifference
from mirror_ray.config.gateway import GatewaySettings, GatewayToken
from mirror_ray.config.secrets import Secret
from mirror_ray.mirror import CoordinatorClient
from mirror_ray.model.audit import AuditEntry, AuditPrincipal, AuditQuery, entry_of, newest
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import ConfigError, MirrorError, NotRunningError
from mirror_ray.observe.groups import GroupStatus
from mirror_ray.observe.schemas import SchemaStatus
from mirror_ray.observe.system_snapshot import SystemSnapshot
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.client_limits import BOUNDS, ClientLimits
from mirror_ray.web.server import application, serving
from mirror_ray.web.snapshot_cache import SnapshotCache
from tests.unit.observe.values import picture

TOKEN = "s3cret-of-the-tests"
ALICE, BOB = "alices-token-0123456789", "bobs-token-0123456789"
#: Users with tokens of their own: one that may act, one that may read.
USERS = (
    GatewayToken(user="alice", token=Secret(ALICE), may="act"),
    GatewayToken(user="bob", token=Secret(BOB), may="read"),
)


def kept(**changed: Any) -> AuditEntry:
    """An entry of the audit log, of now; ``changed``: fields of it."""
    change = ClusterChange(kind="create_topic", cluster="B", subject="topic A.orders", after="3 partitions")
    who, now_ms = AuditPrincipal(system="mirror", component="coordinator"), int(time.time() * 1000)
    return replace(entry_of(change, who, "A->B", time_ms=now_ms, id_="x", outcome="done"), **changed)


@dataclass
class FakeSystem:
    """A link to a coordinator which shows ``seen``, and remembers its commands."""

    seen: SystemSnapshot = field(default_factory=picture)
    absent: bool = False
    asked: int = 0
    commands: list[tuple[Any, ...]] = field(default_factory=list)
    carried: tuple[GroupStatus, ...] = ()
    #: None: no flow mirrors any.
    schemas_there: tuple[SchemaStatus, ...] | None = ()
    schemas_asked: int = 0
    kept: tuple[AuditEntry, ...] = ()
    wanted: AuditQuery | None = None
    audits: int = 0
    groups_asked: int = 0
    operators: list[str] = field(default_factory=list)

    @property
    def client(self) -> CoordinatorClient:
        """What the server asks."""
        return CoordinatorClient("mirror", self, "")

    async def ask(self, method: str, *args: Any, timeout_s: float) -> Any:
        assert timeout_s > 0
        if method == "act":
            operator, method, args = args
            self.operators.append(operator)
        return await getattr(self, method)(*args)

    def end(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    async def snapshot(self) -> SystemSnapshot:
        self.asked += 1
        if self.absent:
            raise MirrorError("nobody answers")
        return self.seen

    async def groups(self, flow: str | None) -> Sequence[GroupStatus]:
        self.groups_asked += 1
        return self.carried

    async def schemas(self, flow: str | None) -> Sequence[SchemaStatus]:
        assert flow is None
        self.schemas_asked += 1
        if self.schemas_there is None:
            raise NotRunningError("no flow mirrors schemas: set A.schema.registry.url of both its clusters")
        return self.schemas_there

    async def audit(self, wanted: AuditQuery) -> Sequence[AuditEntry]:
        self.wanted, self.audits = wanted, self.audits + 1
        return newest(self.kept, wanted)

    async def pause(self, flow: str, topic: str | None, partition: int | None) -> None:
        self.commands.append(("pause", flow, topic, partition))

    async def resume(self, flow: str, topic: str | None, partition: int | None) -> None:
        self.commands.append(("resume", flow, topic, partition))

    async def scale(self, replicators: int) -> None:
        if replicators < 1:
            raise ConfigError("scale needs at least one replicator")
        self.commands.append(("scale", replicators))

    async def set(self, flow: str | None, changes: Mapping[str, str | None], dry_run: bool) -> SettingsDifference:
        self.commands.append(("set", flow, dict(changes), dry_run))
        key = KeyChange(key="topics.include", before=".*", after="orders", effect="topics")
        return SettingsDifference(flows=(FlowChange(flow=str(flow), verdict="configured", keys=(key,)),), system=())


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What was logged with a traceback."""
    return [record for record in caplog.records if record.exc_info]


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Site:
    """A server under test."""

    system: FakeSystem
    cache: SnapshotCache
    clock: Clock
    url: str
    session: aiohttp.ClientSession
    access: GatewayAccess
    app: web.Application

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rsplit(":", 1)[1])

    def show(self, seen: SystemSnapshot) -> None:
        """Have the system look so, and its last snapshot be old."""
        self.system.seen = seen
        self.clock.now_s += 2

    async def end_streams(self) -> None:
        """As for somebody who needs the room."""
        for callback in self.app.on_shutdown:
            await callback(self.app)

    async def get(self, path: str, **options: Any) -> tuple[int, Any]:
        """Status and JSON of an address."""
        async with self.session.get(self.url + path, **options) as answer:
            return answer.status, await answer.json()

    async def act(self, path: str, body: Any, token: str | None = TOKEN, **options: Any) -> tuple[int, Any]:
        """The same of an act."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with self.session.post(self.url + path, json=body, headers=headers, **options) as answer:
            return answer.status, await answer.json()


@contextlib.asynccontextmanager
async def site(token: str | None = TOKEN, bounds: ClientLimits = BOUNDS, **changed: Any) -> AsyncIterator[Site]:
    """A server on a port of its own. ``changed``: fields of its settings."""
    system, clock = FakeSystem(), Clock()
    cache = SnapshotCache(system.client, clock=clock, on_snapshot=lambda _: None)
    settings = GatewaySettings(port=0, token=Secret(token) if token is not None else None, **changed)
    access = GatewayAccess(settings, clock=clock, bounds=bounds)
    app = application(cache, system.client, system.audit, settings, access)
    async with serving(app, settings, access) as url, aiohttp.ClientSession() as session:
        yield Site(system, cache, clock, url, session, access, app)
