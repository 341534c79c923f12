"""Runs a plan, or resumes it where it broke off; every result is in the audit topic before the next step begins."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from mirror_ray.config.settings import MirrorSettings, is_reversed
from mirror_ray.failover.audit_topic import FailoverAudit, FailoverHistory
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.flow_reversal import FlowReversal, topics_to_reverse, with_names
from mirror_ray.failover.messages import StepOutcome
from mirror_ray.failover.plan import FailoverOptions, FailoverPlan, FailoverStep, Kind, StepResult
from mirror_ray.failover.running_system import RunningSystem
from mirror_ray.failover.schema_handover import SchemaHandover
from mirror_ray.failover.steps import FailoverSteps, StepTiming
from mirror_ray.failover.waves import away, is_wave, moved_by, scope_of, topics_to_resume
from mirror_ray.groups.translated_offset import TranslatedGroups
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName

#: What a plan that broke off longer ago has measured is not taken for granted.
_STALE_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOrder:
    """What is asked for."""

    kind: Kind
    flow: FlowName
    options: FailoverOptions = field(default_factory=FailoverOptions)
    timing: StepTiming = field(default_factory=StepTiming)
    #: Change nothing, report what would be done.
    dry: bool = False
    #: Begin anew where a plan broke off.
    restart: bool = False
    #: Who asks.
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverReport:
    """A plan, and each group's translated offsets."""

    plan: FailoverPlan
    offsets: TranslatedGroups
    dry: bool = False


OnResult = Callable[[FailoverPlan, StepResult], None]


async def carry_out(
    settings: MirrorSettings,
    order: FailoverOrder,
    running: RunningSystem | None,
    audit_log: AuditLog,
    on_result: OnResult = lambda *_: None,
) -> FailoverReport:
    """Run a plan as far as it goes; a dry one to its end, whatever blocks it.

    Args:
        settings: Of the system.
        order: What is asked for.
        running: The running system; None: there is none.
        audit_log: Keeps what is changed.
        on_result: Gets each result.

    Raises:
        ConfigError: It can't be begun so; the text says what can.
        ClusterUnreachableError: A cluster that is needed does not answer; the plan is blocked there.
        OSError, MirrorError: A step failed; the same order resumes it.
    """
    _refuse(settings, order)
    topics = await topics_to_reverse(settings, order.flow) if order.kind == "failback" else {}
    if order.options.wave and topics:
        # A wave comes back by the flow's own map: nothing has to be copied.
        settings, topics = with_names(settings, order.flow, topics), {}
    history = await read_history(settings, order.flow)
    plan, fresh = _plan(history, order, reverses=bool(topics))
    moved = _moved(history, order, plan) if order.kind == "failback" else {}
    reversal: FlowReversal | None = None
    if topics:
        reversal = FlowReversal(
            settings, order.flow, topics, running, options=plan.options, audit_log=audit_log, dry=order.dry
        )
        settings = reversal.settings
    clusters = FailoverClusters(settings, order.flow, order.kind, audit_log=audit_log, is_reversed=bool(topics))
    clusters.scope = scope_of(history, order.kind, plan.options)
    async with clusters:
        audit = FailoverAudit(
            settings.clusters[order.flow.target], clusters.target, order.flow.source, clusters.audit_log
        )
        schemas = SchemaHandover(clusters, settings, plan.options)
        steps = FailoverSteps(
            clusters, running, schemas, plan.options, order.timing, dry=order.dry, moved_before=moved, reversal=reversal
        )
        steps.offsets = dict(history.offsets(plan.id))
        steps.lifts_pause = is_paused_before(history, plan)
        steps.resumes = topics_to_resume(history, clusters.scope)
        if order.dry:
            return await _run_dry(plan, steps, on_result)
        if fresh:
            for old in _unfinished(history):
                await audit.head(replace(old, abandoned=True))
            await audit.begin(plan)
        else:
            await audit.head(plan)
        return await _FailoverRun(plan, steps, audit, history, on_result).go_on()


async def read_history(settings: MirrorSettings, flow: FlowName) -> FailoverHistory:
    """Read a flow's plans from its audit topic.

    Raises:
        ConfigError: There is no such flow.
    """
    settings.flow(flow)
    target = settings.clusters[flow.target]
    cluster = ClusterConnections(target, f"{flow}|mirror-ray|audit")
    try:
        return await FailoverAudit(target, cluster, flow.source, UNRECORDED).read()
    finally:
        await cluster.close()


class _FailoverRun:
    """One run of a plan."""

    def __init__(
        self,
        plan: FailoverPlan,
        steps: FailoverSteps,
        audit: FailoverAudit,
        history: FailoverHistory,
        on_result: OnResult,
    ) -> None:
        self._plan, self._steps, self._audit, self._on_result = plan, steps, audit, on_result
        self._since, self._committed = history.since(plan.id), history.last_try(plan.id, FailoverStep.COMMIT)
        #: Groups whose offsets the audit topic has.
        self._recorded = steps.offsets.keys()

    async def go_on(self) -> FailoverReport:
        """Do what is left of it, until it is finished or blocked."""
        if self._plan.is_over(FailoverStep.STOP) and (step := self._plan.next_step) is not None:
            # The flow may have been paused long ago: what was true then is checked again.
            translated = self._plan.is_over(FailoverStep.OFFSETS)
            await self._do(step, partial(self._steps.check_again, groups=translated))
        while (step := self._plan.next_step) is not None:
            self._steps.lifts_pause |= self._plan.repeats > 0
            self._steps.still_due = still_due(self._committed, self._since)
            result = await self._do(step, partial(self._steps.do, step))
            if result is not None and not result.over:
                break
        return FailoverReport(plan=self._plan, offsets=self._steps.offsets)

    async def _do(self, step: FailoverStep, action: Callable[[], Awaitable[StepOutcome | None]]) -> StepResult | None:
        """Do it and record its outcome; None: there is nothing to record."""
        began_ms = _now_ms()
        failure: Exception | None = None
        try:
            done = await action()
        except (OSError, MirrorError) as error:
            done, failure = StepOutcome("blocked", str(error) or type(error).__name__, {}), error
        if done is None:
            return None
        if step == FailoverStep.OFFSETS and done.outcome == "done":
            await self._record_offsets()
        result = _result(done.back_to or step, done, began_ms, self._plan.repeats + (done.back_to is not None))
        try:
            await self._audit.result(self._plan, result)
        except (OSError, MirrorError):
            if failure is None:
                raise
        self._plan = self._plan.after(result)
        self._on_result(self._plan, result)
        if failure is not None:
            raise failure
        return result

    async def _record_offsets(self) -> None:
        groups, repeats = self._steps.offsets.keys(), self._plan.repeats
        left_out = dict.fromkeys(self._recorded - groups, ())
        self._since = {group: self._since.get(group, 0) if group in self._recorded else repeats for group in groups}
        await self._audit.offsets(self._plan, {**left_out, **self._steps.offsets}, self._since)
        self._recorded = groups


def still_due(committed: StepResult | None, since: Mapping[str, int]) -> Collection[str] | None:
    """Groups that an earlier try of ``commit`` has left, or did not know of; None: there was none.

    Args:
        committed: What came of it last.
        since: How often the plan had gone back when each group first had translated offsets.
    """
    if committed is None or (left := committed.figures.get("active")) is None:
        return None
    return {*left, *(group for group, repeats in since.items() if repeats > committed.repeats)}


async def _run_dry(plan: FailoverPlan, steps: FailoverSteps, on_result: OnResult) -> FailoverReport:
    for step in plan.steps:
        began_ms = _now_ms()
        result = _result(step, await steps.do(step), began_ms)
        plan = replace(plan, results={**plan.results, step: result})
        on_result(plan, result)
    return FailoverReport(plan=plan, offsets=steps.offsets, dry=True)


def _result(step: FailoverStep, done: StepOutcome, began_ms: int, repeats: int = 0) -> StepResult:
    return StepResult(
        step=step,
        outcome=done.outcome,
        summary=done.summary,
        figures=done.figures,
        began_ms=began_ms,
        ended_ms=_now_ms(),
        repeats=repeats,
    )


def _unfinished(history: FailoverHistory) -> list[FailoverPlan]:
    return [plan for plan in history.plans() if not plan.finished and not plan.abandoned]


def _plan(history: FailoverHistory, order: FailoverOrder, *, reverses: bool) -> tuple[FailoverPlan, bool]:
    """The plan to go on with, and whether it is a new one."""
    now_ms = _now_ms()
    for old in [] if order.restart or order.dry else _unfinished(history):
        since_s = (now_ms - old.last_ms) / 1000
        if old.kind != order.kind or not _is_same(old.options, order.options):
            raise ConfigError(
                f"{old.id} is not finished ({old.state}): finish it with `mirror-ray {old.kind} '{old.flow}'"
                f"{_as_options(old.options)}`, or give it up with --restart"
            )
        if since_s > _STALE_S:
            raise ConfigError(
                f"{old.id} {old.state}, {since_s / 3600:.1f} hours ago: what it found then is old; --restart begins"
                " anew, and leaves alone what groups have committed since"
            )
        return replace(old, options=old.options.joined(order.options)), False
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ms / 1000))
    plan = FailoverPlan(
        id=f"{order.kind}-{stamp}-{now_ms % 1000:03}",
        kind=order.kind,
        flow=str(order.flow),
        began_ms=now_ms,
        by=order.by,
        options=order.options,
        reverses=reverses,
    )
    return plan, True


def _is_same(old: FailoverOptions, now: FailoverOptions) -> bool:
    """Whether both move the same groups and topics."""
    return (old.groups, old.topics, old.wave) == (now.groups, now.topics, now.wave)


def _as_options(options: FailoverOptions) -> str:
    parts = [f" --groups '{pattern}'" for pattern in options.groups]
    parts += [f" --topics '{pattern}'" for pattern in options.topics]
    return "".join([*parts, f" --wave {options.wave}" if options.wave else ""])


def is_paused_before(history: FailoverHistory, plan: FailoverPlan) -> bool:
    """Whether a plan before this one may have paused the flow, finished, given up or sent back; and none resumed it."""
    for other in reversed(history.plans()):
        if other.id == plan.id:
            continue
        if other.kind == "failback" and other.finished:
            return False
        # The pause comes after the catch-up, and before its own result is written.
        tried = history.last_try(other.id, FailoverStep.CATCH_UP)
        if (
            other.repeats
            or (tried is not None and tried.over)
            or history.last_try(other.id, FailoverStep.STOP) is not None
        ):
            return True
    return False


def _moved(history: FailoverHistory, order: FailoverOrder, plan: FailoverPlan) -> TranslatedGroups:
    """What failovers have moved that is to be undone."""
    if plan.options.wave or away(history):
        return moved_by(history, plan.options, str(order.flow))
    if order.options.force:
        return {}
    if finished := [known for known in history.plans() if known.finished]:
        raise ConfigError(f"{order.flow} has failed back already, by {finished[-1].id}")
    raise ConfigError(
        f"no finished failover of {order.flow} is in its audit topic, so nobody knows which groups to bring back;"
        " --force brings every group that reads its remote topics"
    )


def _refuse(settings: MirrorSettings, order: FailoverOrder) -> None:
    flow = settings.flow(order.flow)
    if flow.route is not None:
        raise ConfigError(f"{flow.name} is a route: its groups go with those of its flow, {flow.name.live}")
    if order.kind == "failback" and order.options.source_is_gone:
        raise ConfigError("a failback needs both clusters")
    if order.options.source_is_gone and is_wave(order.options):
        raise ConfigError(f"{flow.name.source} is gone, so all groups move: leave --groups and --topics out")
    if order.kind == "failover" and is_reversed(settings, flow.name):
        raise ConfigError(
            f"{flow.name} is reversed, and {flow.name.back} copies in its place: finish"
            f" `mirror-ray failback '{flow.name}'`, or should {flow.name.target} be lost meanwhile, move its groups by"
            f" `mirror-ray failover '{flow.name.back}'`"
        )


def _now_ms() -> int:
    return int(time.time() * 1000)
