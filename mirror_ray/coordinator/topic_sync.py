"""Syncs the configs and ACLs of a flow's remote topics with their sources, round by round.

``mirror_ray.topics.config_sync`` and ``acl_sync`` decide what is to be changed; here it is carried out, and written to
the event log and the audit log. A round in which nothing differs sends no request that changes anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from mirror_ray.config.flow_rules import config_filter, replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.ports import Emit
from mirror_ray.model.errors import MirrorError
from mirror_ray.topics.acl_sync import acl_changes, acl_rules, flow_acls
from mirror_ray.topics.config_sync import planned_changes
from mirror_ray.topics.port import TopicPort, synced_source_groups

_log = logging.getLogger(__name__)

#: Between checks whether there are other topics than in the last round.
_POLL_S: Final = 1.0
#: Events of one round; the audit log has all.
_MOST_EVENTS: Final = 20
#: Subject of an event that is no problem: there is nothing to sync.
_NO_AUTHORIZER: Final = "authorizer"


class TopicSync:
    """One flow's sync rounds. The target of a paused flow is left alone.

    Guarantees: an ACL that the flow gives is in its state before it is on the target; an ACL that the flow did not give
    is never deleted. An error is one event, and the next round tries again.
    """

    def __init__(self, flow: FlowController, settings: FlowSettings, port: TopicPort, *, emit: Emit) -> None:
        """``settings`` are those of the rounds; the flow itself may not have applied them yet."""
        self._flow, self._settings, self._port, self._emit = flow, settings, port, emit
        self._topics = settings.topics
        self._configs = config_filter(settings)
        self._rules = replication_rules(settings)
        self._acl_rules = acl_rules(settings)
        #: Problems that were reported, by topic or round, while they last.
        self._reported: dict[str, str] = {}

    async def run(self, ready: Callable[[], Awaitable[None]]) -> None:
        """Round after round from ``ready`` on, until another coordinator takes the flow over."""
        await ready()
        rounds = []
        if self._topics.sync_configs_enabled:
            rounds.append(self._repeat("configs", self.sync_configs, self._topics.sync_configs_interval_s))
        if self._topics.sync_acls_enabled:
            rounds.append(self._repeat("ACLs", self.sync_acls, self._topics.sync_acls_interval_s))
        await asyncio.gather(*rounds)

    async def _repeat(self, what: str, sync: Callable[[], Awaitable[None]], interval_s: float) -> None:
        """Sync at each interval, and at once where there are new topics: they bring ACLs and configs with them."""
        synced: Mapping[str, str] | None = None
        waited_s = 0.0
        while not self._flow.state.fenced:
            remotes = self._remotes()
            due = remotes != synced or waited_s >= interval_s
            if due and self._flow.discovered and not self._flow.paused:
                synced, waited_s = remotes, 0.0
                await self._guard(what, sync)
            pause_s = min(_POLL_S, interval_s)
            await asyncio.sleep(pause_s)
            waited_s += pause_s

    async def _guard(self, what: str, sync: Callable[[], Awaitable[None]]) -> None:
        try:
            await sync()
        except Exception as error:  # noqa: BLE001 - whatever it is, copying goes on
            if not isinstance(error, (MirrorError, OSError)):
                _log.exception("flow %s: %s can't be kept in step", self._flow.name, what)
            self._report(what, f"{what} can't be kept in step: {error}")
        else:
            self._reported.pop(what, None)

    def _report(self, subject: str, text: str) -> None:
        if self._reported.get(subject) != text:
            self._reported[subject] = text
            self._emit("warning", str(self._flow.name), text)

    def problems(self) -> tuple[str, ...]:
        """What can't be synced, and why, while that lasts."""
        return tuple(text for subject, text in self._reported.items() if subject != _NO_AUTHORIZER)

    def _remotes(self) -> dict[str, str]:
        """Topics that the flow copies, with the names of their remote topics."""
        return {topic: view.remote_topic for topic, view in self._flow.topics.items() if view.refused is None}

    async def sync_configs(self) -> None:
        """Sync configs once. A remote topic with several sources is left alone."""
        remotes = {topic: remote for topic, remote in self._remotes().items() if not self._flow.topics[topic].shared}
        source, target = await self._port.configs(remotes)
        planned, problems = planned_changes(remotes, source, target, self._configs)
        if planned:
            outcomes = await self._port.alter_configs(planned)
            problems |= {remote: str(error) for remote, error in outcomes.items() if error is not None}
            self._emit_all(
                f"{remote}: altered {'; '.join(map(str, changes))}"
                for remote, changes in planned.items()
                if outcomes.get(remote) is None
            )
        self._settle_problems("configs of ", problems)

    async def sync_acls(self) -> None:
        """Sync ACLs once."""
        source, target = await self._port.acls()
        if source is None or target is None:
            side = self._flow.name.source if source is None else self._flow.name.target
            self._report(_NO_AUTHORIZER, f"cluster {side} has no authorizer: there are no ACLs to keep in step")
            return
        groups = await synced_source_groups(self._port, self._settings, source)
        wanted = flow_acls(source, self._rules, self._remotes(), groups, self._acl_rules)
        changes = acl_changes(wanted, target, frozenset(self._flow.state.records.acls.values()), self._acl_rules)
        if not changes:
            self._settle_problems("ACL ", {})
            return
        await self._flow.state.note_acls(changes.create, ())
        outcomes = await self._port.change_acls(changes)
        created = [acl for acl in changes.create if outcomes.get(acl) is None]
        deleted = [acl for acl in changes.delete if outcomes.get(acl) is None]
        await self._flow.state.note_acls((), deleted)
        self._emit_all([*(f"created ACL {acl}" for acl in created), *(f"deleted ACL {acl}" for acl in deleted)])
        self._settle_problems("ACL ", {str(acl): str(error) for acl, error in outcomes.items() if error is not None})

    def _emit_all(self, texts: Iterable[str]) -> None:
        events = list(texts)
        for text in events[:_MOST_EVENTS]:
            self._emit("info", str(self._flow.name), text)
        if len(events) > _MOST_EVENTS:
            self._emit("info", str(self._flow.name), f"and {len(events) - _MOST_EVENTS} more: the audit log has all")

    def _settle_problems(self, prefix: str, problems: Mapping[str, str]) -> None:
        """Report new problems; forget those that are over."""
        for subject in [subject for subject in self._reported if subject.startswith(prefix)]:
            if subject.removeprefix(prefix) not in problems:
                del self._reported[subject]
        for subject, text in list(problems.items())[:_MOST_EVENTS]:
            self._report(f"{prefix}{subject}", text)
