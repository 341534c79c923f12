"""What operators ask of a running system: each act is kept in the audit log and told as an event, with who asked it."""

from __future__ import annotations

import asyncio
import contextlib
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
from mirror_ray.model.audit import AuditEntry, cut
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.state.records import Pause

#: The coordinator's methods that are acts, with the position of the flow among their arguments; None: they are about
#: the system as a whole.
ACTS: Final[Mapping[str, int | None]] = {
    "apply": None,
    "backfill": 0,
    "cancel_backfill": 0,
    "down": None,
    "pause": 0,
    "resolve": 0,
    "resume": 0,
    "scale": None,
    "scale_by_load": None,
    "set": 0,
}
#: Arguments that say that nothing is to be changed, by position.
_DRY_RUN: Final = {"apply": 2, "set": 2, "backfill": 2}
#: What goes on after the act, in the name of whoever asked it.
_NAMED: Final = frozenset({"resolve"})
#: What ``down`` waits for its own entry: nobody is there to write it later.
_LAST_WORDS_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandState:
    """What of a system acts change, before or after one."""

    settings: MirrorSettings | None
    replicators: int
    #: What is paused, by flow.
    paused: Mapping[str, Sequence[str]]


class AuditedCommands:
    """Carries acts out. A system without flows has no log, and its first act is told as an event alone."""

    def __init__(
        self,
        target: object,
        name: str,
        see: Callable[[], CommandState],
        emit: Emit,
        audit_logs: AuditLogs,
    ) -> None:
        """``target`` has a method for each act; ``see`` is called before and after it; ``name``: the system's."""
        self._target, self._name, self._see, self._emit = target, name, see, emit
        self._audit_logs = audit_logs

    async def do(self, operator: str, act: str, args: Sequence[Any]) -> Any:
        """Do what ``operator`` asks.

        Raises:
            ConfigError: It is no act.
            MirrorError: What the act raises; or the record is required, and can't be written.
        """
        if act not in ACTS:
            raise ConfigError(f"{act!r} is no act; there are: {', '.join(ACTS)}")
        method: Callable[..., Awaitable[Any]] = getattr(self._target, act)
        if len(args) > (dry := _DRY_RUN.get(act, len(args))) and args[dry]:
            return await method(*args)
        before = self._see()
        # A first `up` brings the logs with it.
        settings = before.settings or next((arg for arg in args if isinstance(arg, MirrorSettings)), None)
        trails = self._trails(settings, _flow(act, args), operator)
        subject, state = _subject(self._name, act, args), _state(act, args, before)
        told = ClusterChange(kind=_kind(act), cluster="", subject=subject, before=state)
        begun = [(trail, entry) for trail in trails for entry in await asyncio.to_thread(trail.begin, [told])]
        try:
            answer = await (method(*args, operator=operator) if act in _NAMED else method(*args))
        except MirrorError as error:
            _end(begun, partial(AuditEntry.said, outcome="refused", error=str(error)))
            self._emit("warning", told.subject, f"{told.kind} by {operator} was refused: {cut(str(error))}")
            raise
        except BaseException as error:
            _end(begun, partial(AuditEntry.said, outcome="unknown", error=str(error) or type(error).__name__))
            raise
        had, has = _difference(act, args, before, self._see(), answer)
        _end(begun, partial(AuditEntry.came_to, before=had, after=has))
        difference = has if had is None else f"{had} -> {has}"
        self._emit("info", told.subject, f"{told.kind} by {operator}: {cut(difference or 'done')}")
        if act == "down":
            await asyncio.to_thread(self._audit_logs.flush, _LAST_WORDS_S)
        return answer

    async def refused(self, why: str) -> None:
        """Keep, in the log of every flow, that strangers were not let in; ``why`` says who, and how often."""
        told = ClusterChange(kind="unknown_token", cluster="", subject=f"system {self._name}")
        for trail in self._trails(self._see().settings, None, ""):
            # Where the record is required and can't be written, nothing is lost but the record.
            with contextlib.suppress(MirrorError):
                begun = await asyncio.to_thread(trail.begin, [told])
                _end([(trail, entry) for entry in begun], partial(AuditEntry.said, outcome="refused", error=why))

    def _trails(self, settings: MirrorSettings | None, flow: str | None, operator: str) -> list[AuditLog]:
        if settings is None:
            return []
        logs = {
            (each.name.source, each.name.target): each.name.live
            for each in settings.flows
            if each.enabled and flow in (None, str(each.name), str(each.name.live))
        }
        return [self._audit_logs.of(settings, name, operator=operator) for name in logs.values()]


def paused_of(flows: Mapping[FlowName, FlowController]) -> dict[str, list[str]]:
    """What operators have paused, by flow."""
    return {str(name): sorted(map(scope, flow.state.records.paused)) for name, flow in flows.items()}


def scope(pause: Pause) -> str:
    """What a pause holds back, in words."""
    if pause.topic is None:
        return "the whole flow"
    return pause.topic if pause.partition is None else f"{pause.topic}-{pause.partition}"


def _end(begun: Sequence[tuple[AuditLog, AuditEntry]], said: Callable[[AuditEntry], AuditEntry]) -> None:
    for trail, entry in begun:
        trail.end([said(entry)])


def _kind(act: str) -> str:
    return "up" if act == "apply" else act


def _flow(act: str, args: Sequence[Any]) -> str | None:
    at = ACTS[act]
    return None if at is None else args[at]


def _subject(name: str, act: str, args: Sequence[Any]) -> str:
    flow = _flow(act, args)
    return f"system {name}" if flow is None else f"flow {flow}"


def _state(act: str, args: Sequence[Any], seen: CommandState) -> str | None:
    """What an act changes, as it is now; None where only what comes of it tells."""
    if act in ("pause", "resume"):
        return f"paused: {', '.join(seen.paused.get(args[0], ())) or 'nothing'}"
    if act == "scale":
        return f"{seen.replicators} replicators"
    if act == "scale_by_load" and seen.settings is not None:
        bounds = seen.settings.elastic
        return f"{seen.replicators} replicators, by load {bounds.min_replicators} to {bounds.max_replicators}"
    if act in ("apply", "down"):
        flows = seen.settings.flows if seen.settings else ()
        names = ", ".join(str(flow.name) for flow in flows if flow.enabled and flow.name.is_live)
        return f"runs {names}, {seen.replicators} replicators" if names else "does not run"
    return None


def _difference(
    act: str, args: Sequence[Any], before: CommandState, after: CommandState, answer: Any
) -> tuple[str | None, str | None]:
    """Before and after, as texts without secrets."""
    had, has = _state(act, args, before), _state(act, args, after)
    if isinstance(answer, SettingsDifference) and (keys := answer.keys):
        return (
            "; ".join(f"{key}={'-' if each.before is None else each.before}" for key, each in keys),
            "; ".join(f"{key}={'-' if each.after is None else each.after}" for key, each in keys),
        )
    if act == "down":
        return had, "stopped, all drained" if answer else "stopped, not all drained"
    if act == "resolve":
        return None, f"{args[-1]} for {', '.join(answer)}"
    return had, has if has is not None else str(answer)
