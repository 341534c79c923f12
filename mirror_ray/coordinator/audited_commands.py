"""Operators' commands: each is kept in the audit log and the event log, with who gave it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mirror_ray.config.difference import SettingsDifference
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.flow import FlowController
from mirror_ray.coordinator.ports import Emit
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.audit_logs import AuditLogs
from mirror_ray.mirror import VERBS
from mirror_ray.model.audit import AuditEntry, cut
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.state.records import Pause
from mirror_ray.verb import Verb

#: What ``down`` waits for its own entry: nobody is there to write it later.
_LAST_WORDS_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandState:
    """What commands change of a system, before or after one."""

    settings: MirrorSettings | None
    replicators: int
    #: What is paused, by flow.
    paused: Mapping[str, Sequence[str]]


class AuditedCommands:
    """Carries commands out. A system without flows has no log, and its first command is an event alone."""

    def __init__(
        self, target: object, name: str, see: Callable[[], CommandState], emit: Emit, audit_logs: AuditLogs
    ) -> None:
        """``target`` has a method for each command; ``see`` is called before and after it; ``name``: the system's."""
        self._target, self._name, self._see, self._emit = target, name, see, emit
        self._audit_logs = audit_logs

    async def do(self, operator: str, name: str, args: Sequence[Any]) -> Any:
        """Do what ``operator`` commands.

        Raises:
            ConfigError: There is no such command.
            MirrorError: What the command raises; or the record is required, and can't be written.
        """
        verb = VERBS.get(name)
        if verb is None or verb.kind is None:
            commands = ", ".join(verb.name for verb in VERBS.values() if verb.kind is not None)
            raise ConfigError(f"{name!r} is no command; there are: {commands}")
        method: Callable[..., Awaitable[Any]] = getattr(self._target, name)
        given = verb.named(args)
        if given.get("dry_run"):
            return await method(*args)
        flow, before = given.get("flow"), self._see()
        # A first `up` brings the settings with it.
        settings = before.settings or given.get("settings")
        change = ClusterChange(
            kind=verb.kind,
            cluster="",
            subject=f"system {self._name}" if flow is None else f"flow {flow}",
            before=_state(verb, flow, before),
        )
        begun = [
            (audit_log, entry)
            for audit_log in self._logs(settings, flow, operator)
            for entry in await asyncio.to_thread(audit_log.begin, [change])
        ]
        # What goes on after a command goes on in its operator's name.
        named = {"operator": operator} if "operator" in inspect.signature(method).parameters else {}
        try:
            answer = await method(*args, **named)
        except MirrorError as error:
            _end(begun, partial(AuditEntry.with_outcome, outcome="refused", error=str(error)))
            self._emit("warning", change.subject, f"{change.kind} by {operator} was refused: {cut(str(error))}")
            raise
        except BaseException as error:
            _end(begun, partial(AuditEntry.with_outcome, outcome="unknown", error=str(error) or type(error).__name__))
            raise
        had, has = _difference(verb, given, before, self._see(), answer)
        _end(begun, partial(AuditEntry.with_values, before=had, after=has))
        difference = has if had is None else f"{had} -> {has}"
        self._emit("info", change.subject, f"{change.kind} by {operator}: {cut(difference or 'done')}")
        if verb is VERBS["down"]:
            await asyncio.to_thread(self._audit_logs.flush, _LAST_WORDS_S)
        return answer

    async def refused(self, why: str) -> None:
        """Keep, in the log of every flow, that clients without a token were refused; ``why``: who, and how often."""
        change = ClusterChange(kind="unknown_token", cluster="", subject=f"system {self._name}")
        for audit_log in self._logs(self._see().settings, None, ""):
            # Where the record is required and can't be written, nothing is lost but the record.
            with contextlib.suppress(MirrorError):
                begun = await asyncio.to_thread(audit_log.begin, [change])
                _end(
                    [(audit_log, entry) for entry in begun],
                    partial(AuditEntry.with_outcome, outcome="refused", error=why),
                )

    def _logs(self, settings: MirrorSettings | None, flow: str | None, operator: str) -> list[AuditLog]:
        if settings is None:
            return []
        live = {
            (configured.name.source, configured.name.target): configured.name.live
            for configured in settings.flows
            if configured.enabled and flow in (None, str(configured.name), str(configured.name.live))
        }
        return [self._audit_logs.of(settings, name, operator=operator) for name in live.values()]


def paused_of(flows: Mapping[FlowName, FlowController]) -> dict[str, list[str]]:
    """What operators have paused, by flow."""
    return {str(name): sorted(map(scope, flow.state.records.paused)) for name, flow in flows.items()}


def scope(pause: Pause) -> str:
    """What a pause holds back, in words."""
    if pause.topic is None:
        return "the whole flow"
    return pause.topic if pause.partition is None else f"{pause.topic}-{pause.partition}"


def _end(begun: Sequence[tuple[AuditLog, AuditEntry]], with_outcome: Callable[[AuditEntry], AuditEntry]) -> None:
    for audit_log, entry in begun:
        audit_log.end([with_outcome(entry)])


def _state(verb: Verb, flow: str | None, seen: CommandState) -> str | None:
    """What a command changes, as it is now; None where only its answer does."""
    if verb.state == "paused":
        return f"paused: {', '.join(seen.paused.get(flow or '', ())) or 'nothing'}"
    if verb.state == "replicators":
        return f"{seen.replicators} replicators"
    if verb.state == "scaling" and seen.settings is not None:
        bounds = seen.settings.elastic
        return f"{seen.replicators} replicators, by load {bounds.min_replicators} to {bounds.max_replicators}"
    if verb.state == "flows":
        flows = seen.settings.flows if seen.settings else ()
        names = ", ".join(str(flow.name) for flow in flows if flow.enabled and flow.name.is_live)
        return f"runs {names}, {seen.replicators} replicators" if names else "does not run"
    return None


def _difference(
    verb: Verb, given: Mapping[str, Any], before: CommandState, after: CommandState, answer: Any
) -> tuple[str | None, str | None]:
    """Before and after, as texts without secrets."""
    flow = given.get("flow")
    had, has = _state(verb, flow, before), _state(verb, flow, after)
    if isinstance(answer, SettingsDifference) and (keys := answer.keys):
        return (
            "; ".join(f"{key}={'-' if change.before is None else change.before}" for key, change in keys),
            "; ".join(f"{key}={'-' if change.after is None else change.after}" for key, change in keys),
        )
    if verb is VERBS["down"]:
        return had, "stopped, all drained" if answer else "stopped, not all drained"
    if verb is VERBS["resolve"]:
        return None, f"{given['by']} for {', '.join(answer)}"
    return had, has if has is not None else str(answer)
