"""The steps, each of which asks or acts, and reports what came of it. A step that broke off may be done again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from mirror_ray.failover import assessment, commit_offsets, left_behind, messages, record_comparison, translate_offsets
from mirror_ray.failover.active_groups import groups_at_work, groups_that_went_on, with_members
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.copy_progress import (
    POLL_S,
    PUBLISHED_WITHIN_S,
    groups_behind,
    lags,
    log_ends,
    records_left_behind,
)
from mirror_ray.failover.flow_pauses import FlowPauses
from mirror_ray.failover.flow_reversal import FlowReversal
from mirror_ray.failover.left_behind import LeftBehind
from mirror_ray.failover.messages import NAMED, StepOutcome, by_topic, names, offset_figures
from mirror_ray.failover.plan import FailoverOptions, FailoverStep
from mirror_ray.failover.running_system import RunningSystem
from mirror_ray.failover.schema_handover import SchemaHandover
from mirror_ray.failover.wave_survey import survey, written_on_target
from mirror_ray.groups.translated_offset import TranslatedGroups, TranslatedOffset
from mirror_ray.kafka.group_listing import ListedGroup
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition

_GONE: Final = StepOutcome("skipped", "the source is gone", {})
#: A dry run does these though the flow has not been reversed.
_BEFORE_REVERSED: Final = frozenset(
    {FailoverStep.DETECT, FailoverStep.CHECK, FailoverStep.REVERSE, FailoverStep.PRODUCERS}
)
#: The flow back has to be on for these, though somebody may have applied other settings meanwhile.
_WHILE_REVERSED: Final = frozenset({FailoverStep.PRODUCERS, FailoverStep.CATCH_UP, FailoverStep.STOP})


class StepTiming(NamedTuple):
    """How long a plan waits."""

    #: For log ends to stop growing.
    quiet_s: float = 3.0
    #: For the lag to become 0.
    catch_up_s: float = 600.0


class FailoverSteps:
    """The steps of one plan. Who resumes a plan sets the public attributes as the plan left them.

    Records that were written, and groups that went on, on the origin send the plan back to the step that sees to them.
    They are checked once the flow is paused, when a plan is resumed after that, and last of all.
    """

    def __init__(
        self,
        clusters: FailoverClusters,
        running: RunningSystem | None,
        schemas: SchemaHandover,
        options: FailoverOptions,
        timing: StepTiming,
        *,
        dry: bool,
        moved_before: TranslatedGroups,
        reversal: FlowReversal | None = None,
    ) -> None:
        """``moved_before``: for a failback, what the failover before it has moved; ``reversal``: where it needs one."""
        self.offsets: dict[str, list[TranslatedOffset]] = {}
        #: Groups that an earlier try of ``commit`` has left, or did not know of; None: there was none.
        self.still_due: Collection[str] | None = None
        #: The flow may be paused by this plan, which went back, or by one before: it is resumed to catch up.
        self.lifts_pause = False
        #: Topics that waves have paused, and that a failback resumes.
        self.resumes: Sequence[str] = ()
        self._clusters, self._running, self._options, self._timing = clusters, running, options, timing
        self._dry, self._moved_before = dry, moved_before
        self._reversal = reversal
        self._schemas = schemas
        self._pauses = FlowPauses(clusters, running, reversal, dry=dry)
        self._flow = self._pauses.flow
        self._origin, self._destination = clusters.origin.settings.alias, clusters.destination.settings.alias
        self._or_gone = "; --source-is-gone goes on without" if clusters.kind == "failover" else ""
        clusters.without_silent = options.force
        self._steps: Mapping[FailoverStep, Callable[[], Awaitable[StepOutcome]]] = {
            FailoverStep.DETECT: partial(assessment.detect, clusters, options),
            FailoverStep.CHECK: self._check,
            FailoverStep.REVERSE: self._reverse,
            FailoverStep.PRODUCERS: self._producers,
            FailoverStep.CATCH_UP: self._catch_up,
            FailoverStep.STOP: self._stop,
            FailoverStep.OFFSETS: self._offsets,
            FailoverStep.COMMIT: self._commit,
            FailoverStep.VERIFY: self._verify,
            FailoverStep.REDIRECT: self._redirect,
        }

    async def do(self, step: FailoverStep) -> StepOutcome:
        """Do one step."""
        if self._dry and self._reversal is not None and step not in _BEFORE_REVERSED and not await self._is_begun():
            return StepOutcome("skipped", f"known once {self._flow} copies", {})
        if self._reversal is not None and step in _WHILE_REVERSED and not self._dry:
            await self._reversal.stays_on()
        return await self._steps[step]()

    async def check_again(self, *, groups: bool) -> StepOutcome | None:
        """Whether a plan whose flow was paused must go back before it goes on; None: it need not.

        ``groups``: their offsets have been translated.
        """
        if await self._is_over():
            return None
        # The last step of a failback resumes the flow itself.
        if self._pauses.own and await self._pauses.held():
            text = f"{self._flow} was resumed meanwhile, and is to be paused again"
            return StepOutcome("blocked", text, {}, FailoverStep.STOP)
        return await self._left_behind(groups=groups)

    async def _left_behind(self, *, groups: bool) -> StepOutcome | None:
        """``groups``: also whether groups have gone on. What was written is asked for last."""
        if self._dry or self._options.source_is_gone:
            return None
        clusters, options = self._clusters, self._options
        went_on: list[str] = []
        if groups:
            went_on = await groups_that_went_on(
                clusters, self.offsets, self._moved_before, every=options.force, skip_active=options.skip_active
            )
        found = await records_left_behind(clusters)
        found = LeftBehind(written=found.written, unstable=found.unstable, groups=went_on)
        again = f"{clusters.ahead.name} catches up"
        if self._pauses.own:
            again = f"{self._flow} is resumed, catches up, and is paused again"
        return left_behind.outcome_of(found, self._origin, again, or_gone=self._or_gone)

    async def _is_over(self) -> bool:
        """Whether the flow has been turned round again, so that the flow back has nothing more to copy."""
        return self._reversal is not None and await self._reversal.is_over()

    async def _is_begun(self) -> bool:
        return self._reversal is not None and await self._reversal.is_begun()

    async def _check(self) -> StepOutcome:
        return await self._schemas.checked(await self._assess())

    async def _assess(self) -> StepOutcome:
        if self._clusters.scope.is_wave and self._clusters.kind == "failover":
            return StepOutcome("done", *await survey(self._clusters))
        if self._reversal is None:
            return await assessment.check(self._clusters, self._options, self._moved_before)
        text = f"{len(self._moved_before)} groups were moved to {self._origin}; {self._clusters.flow.name} is to be"
        text += f" reversed, so that {self._flow} goes on in its topics"
        return StepOutcome("done", text, {"groups": len(self._moved_before)})

    async def _reverse(self) -> StepOutcome:
        """The flow back copies in place of the flow, in the same topics."""
        if self._reversal is None:
            return StepOutcome("skipped", "nothing is to be reversed", {})
        return await self._reversal.begin()

    async def _producers(self) -> StepOutcome:
        """Nobody writes on the origin; of a wave that comes back, nobody has."""
        if self._options.source_is_gone:
            return _GONE
        if self._options.wave and (why := await written_on_target(self._clusters)) is not None:
            return StepOutcome("blocked", why, {})
        partitions = await self._clusters.topics()
        before, _ = await log_ends(self._clusters, partitions)
        await asyncio.sleep(self._timing.quiet_s)
        after, stable = await log_ends(self._clusters, partitions)
        written = by_topic({partition: after[partition] - before[partition] for partition in partitions})
        unfinished = by_topic({partition: after[partition] - stable[partition] for partition in partitions})
        figures = {"written": written, "open_transactions": unfinished, "quiet_s": self._timing.quiet_s}
        if written:
            text = f"still written on {self._origin}: {names(written)}. Stop the producers, then run this again"
            return StepOutcome("blocked", text + self._or_gone, figures)
        if unfinished:
            text = f"transactions are open on {self._origin} in {names(unfinished)}: end their producers, or wait for"
            return StepOutcome("blocked", f"{text} transaction.timeout.ms, then run this again{self._or_gone}", figures)
        return StepOutcome("done", f"nothing was written on {self._origin} for {self._timing.quiet_s:g} s", figures)

    async def _catch_up(self) -> StepOutcome:
        """The flow copies all that there is."""
        if self._options.source_is_gone:
            return _GONE
        began_s = time.monotonic()
        deadline_s = began_s + (PUBLISHED_WITHIN_S if self._dry else self._timing.catch_up_s)
        while True:
            found = await lags(self._clusters) | await self._groups_behind()
            behind = {partition: lag for partition, lag in found.items() if lag != 0}
            topics = by_topic(behind)
            total = sum(lag or 0 for lag in behind.values())
            figures: dict[str, Any] = {"lag": total, "behind": topics}
            if not behind:
                text = f"{self._clusters.ahead.name} has copied all {len(found)} partitions to their ends"
                return StepOutcome("done", text, figures | {"waited_s": round(time.monotonic() - began_s, 1)})
            if self.lifts_pause:
                await self._pauses.lift()
            why = await self._why_behind(behind)
            if why or time.monotonic() > deadline_s:
                text = f"{total} offsets in {names(topics)} are not copied yet{why}. Run this again when they are"
                return StepOutcome("blocked", text + self._or_gone, figures)
            await asyncio.sleep(POLL_S)

    async def _groups_behind(self) -> dict[TopicPartition, int]:
        """Of a wave, the lag of topics that stay, behind its groups."""
        clusters = self._clusters
        if not clusters.scope.is_wave or clusters.kind == "failback":
            return {}
        return await groups_behind(clusters, list(await clusters.groups(clusters.origin)))

    async def _why_behind(self, behind: Collection[TopicPartition]) -> str:
        """Why waiting is of no use; "" while it is."""
        flow = str(self._clusters.ahead.name)
        if self._running is None:
            return ": no running system was found that copies them"
        for status in await self._running.partitions(flow):
            partition = TopicPartition(status.topic, status.partition)
            if partition in behind and status.state in {"paused", "stopped", "refused"}:
                by_operator = status.state == "paused" and status.reason is None
                lift = f" (`mirror-ray resume '{flow}'`)" if by_operator else f": {status.reason}"
                return f": {status.topic}-{status.partition} is {status.state}{lift}"
        return ""

    async def _stop(self) -> StepOutcome:
        """The flow is paused; of a wave its topics are."""
        done = await self._pauses.pause()
        if done.outcome == "blocked" or self._dry:
            return done
        return await self._left_behind(groups=False) or done

    async def _offsets(self) -> StepOutcome:
        """The groups' offsets are translated."""
        if self._options.source_is_gone:
            self.offsets = await translate_offsets.without_source(self._clusters)
        elif (blocked := await self._translate()) is not None:
            return blocked
        totals = messages.group_totals(self.offsets)
        unsure = [offset for of_group in self.offsets.values() for offset in of_group if offset.reason]
        figures = {**totals, "unsure": [offset_figures(offset) for offset in unsure[:NAMED]]}
        text = f"{totals['groups']} groups, {totals['partitions']} partitions: {totals['exact']} exact,"
        text += f" {totals['before_the_place']} before the place, {totals['without_offset']} without an offset"
        return StepOutcome("done", text, figures)

    async def _translate(self) -> StepOutcome | None:
        """Translate what groups have committed on the origin; an outcome: some of them are still at work there."""
        clusters, force, moved = self._clusters, self._options.force, self._moved_before
        groups = await clusters.groups(clusters.origin)
        offsets = await translate_offsets.with_source(clusters, groups, moved, every=force)
        busy = with_members({name: groups[name] for name in offsets})
        if not self._options.skip_active and not self._dry:
            at_work = sorted(busy.keys() | await self._others_at_work(groups, busy))
            if at_work:
                text = f"still at work on {self._origin}: {names(at_work)}. Stop them, then run this again;"
                text += " --skip-active leaves them where they are"
                return StepOutcome("blocked", text, {"active": at_work[:NAMED]})
        if not self._dry:
            idle = {name: groups[name] for name in offsets.keys() - busy.keys()}
            offsets = await translate_offsets.with_source(clusters, idle, moved, every=force, final=True)
        self.offsets = offsets
        return None

    async def _others_at_work(self, groups: Mapping[str, ListedGroup], busy: Collection[str]) -> set[str]:
        """Groups with members that have committed nothing that would be moved."""
        force = self._options.force
        others = with_members(translate_offsets.to_move(self._clusters, groups, self._moved_before, every=force))
        others = {name: group for name, group in others.items() if name not in busy}
        return await groups_at_work(self._clusters, others, every=force)

    async def _commit(self) -> StepOutcome:
        """The offsets are committed on the destination."""
        alias = self._destination
        result = await commit_offsets.commit(
            self._clusters, self.offsets, self._moved_before, self._options, dry=self._dry, still_due=self.still_due
        )
        if result.refused:
            refused = [(group, error.name) for (group, _), error in result.refused.items()]
            raise MirrorError(commit_offsets.refusal(alias, refused))
        figures = {
            "committed": result.committed,
            "there_already": result.there_already,
            "kept": [offset_figures(offset) for offset in result.kept[:NAMED]],
            "active": result.active,
        }
        text = f"{'would commit' if self._dry else 'committed'} {result.committed} offsets on {alias}; "
        text += f"{result.there_already} were there already"
        if result.kept:
            groups = sorted({offset.group for offset in result.kept})
            text += f"; {len(result.kept)} were left as somebody else set them, of {names(groups)} (--force replaces)"
        if result.at_work:
            text += f"; moved before, and at work there since: {names(result.at_work)}"
        if result.active:
            text += f"; at work there, and left alone: {names(result.active)}"
            if not self._options.skip_active:
                return StepOutcome("blocked", text + ". Stop them and run this again, or say --skip-active", figures)
        return StepOutcome("done", text, figures)

    async def _verify(self) -> StepOutcome:
        """The record at each offset is the same on both clusters."""
        with_source = not self._options.source_is_gone
        result = await record_comparison.verify(self._clusters, self.offsets, with_source=with_source)
        if result["different"]:
            text = f"{len(result['different'])} places hold another record than on the other side, the first"
            return StepOutcome("blocked", f"{text} {result['different'][0]}: no consumer may start there", result)
        if not with_source:
            return StepOutcome("done", f"{result['compared']} places lie within their logs", result)
        text = f"the record at each of {result['compared']} places is the same on both sides"
        text += f"; {result['not_comparable']} can't be compared" if result["not_comparable"] else ""
        return StepOutcome("done", text, result)

    async def _redirect(self) -> StepOutcome:
        """Producers and consumers are told where to go; after a failback the flow is resumed."""
        if not await self._is_over() and (found := await self._left_behind(groups=True)) is not None:
            return found
        topics: dict[str, str] = {}
        every = (offset for of_group in self.offsets.values() for offset in of_group)
        for origin, topic in sorted({(o.origin.topic, o.destination.topic) for o in every if o.destination}):
            topics[origin] = f"{topics[origin]}, {topic}" if origin in topics else topic
        flow, kind = self._clusters.flow, self._clusters.kind
        lines = messages.redirect(flow, kind, topics, sorted(self.offsets), self._clusters.policy)
        if self._clusters.scope.is_wave and kind == "failover":
            left = {partition.topic for partition in await self._clusters.topics()}
            lines = messages.wave(flow, left, self.offsets, topics)
        figures = {"topics": dict(list(topics.items())[:NAMED]), "groups": len(self.offsets)}
        if kind == "failback":
            lines.append(await self._pauses.end(self.resumes))
        said, more = await self._schemas.hand_over(dry=self._dry)
        lines, figures = [*lines, *said], {**figures, **more}
        return StepOutcome("done", "\n".join(lines), figures)
