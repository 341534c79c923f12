"""The nine steps, each of which looks or acts, and says what came of it. A step that broke off may be done again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from mirror_ray.failover import assessment, commit_offsets, left_behind, record_comparison, translate_offsets
from mirror_ray.failover.active_groups import groups_at_work, groups_that_went_on, with_members
from mirror_ray.failover.advice import redirect
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.copy_progress import (
    LOOK_S,
    TOLD_WITHIN_S,
    lags,
    marks,
    records_left_behind,
)
from mirror_ray.failover.left_behind import LeftBehind
from mirror_ray.failover.plan import FailoverOptions, FailoverStep
from mirror_ray.failover.running_system import RunningSystem
from mirror_ray.failover.step_outcome import NAMED, StepOutcome, by_topic, names, told
from mirror_ray.failover.translated_offsets import GroupPlacement, group_totals
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import TopicPartition
from mirror_ray.observe.status import PartitionStatus

_PAUSED_WITHIN_S: Final = 30.0


class StepTiming(NamedTuple):
    """How long a plan waits."""

    #: For ends to stand still.
    quiet_s: float = 3.0
    #: For the lag to become 0.
    catch_up_s: float = 600.0


class FailoverSteps:
    """The steps of one plan. Whoever takes a plan up again sets its public attributes as it left them.

    Records that were written, and groups that went on, on the side that is left send the plan back to the step that
    sees to them: looked for once the flow is paused, when a plan is taken up behind that, and last of all.
    """

    def __init__(
        self,
        sides: FailoverClusters,
        running: RunningSystem | None,
        options: FailoverOptions,
        timing: StepTiming,
        *,
        dry: bool,
        moved_before: Mapping[str, list[GroupPlacement]],
    ) -> None:
        """``moved_before``: for a failback, what the failover before it has moved."""
        self.places: dict[str, list[GroupPlacement]] = {}
        #: Groups that an earlier try of ``commit`` has left, or did not know of; None: there was none.
        self.left: Collection[str] | None = None
        #: The flow may be paused by this plan, which went back, or by one before: it is resumed to catch up.
        self.lifts_pause = False
        self._sides, self._running, self._options, self._timing = sides, running, options, timing
        self._dry, self._moved_before = dry, moved_before
        sides.without_silent = options.force
        self._steps: Mapping[FailoverStep, Callable[[], Awaitable[StepOutcome]]] = {
            FailoverStep.DETECT: partial(assessment.detect, sides, options),
            FailoverStep.CHECK: partial(assessment.check, sides, options, moved_before),
            FailoverStep.PRODUCERS: self._producers,
            FailoverStep.CATCH_UP: self._catch_up,
            FailoverStep.STOP: self._stop,
            FailoverStep.OFFSETS: self._offsets,
            FailoverStep.COMMIT: self._commit,
            FailoverStep.VERIFY: self._verify,
            FailoverStep.REDIRECT: self._redirect,
        }

    async def do(self, step: FailoverStep) -> StepOutcome:
        """Do one step.

        Raises:
            OSError, MirrorError: It can't be done now.
        """
        return await self._steps[step]()

    async def look_again(self, *, groups: bool) -> StepOutcome | None:
        """Whether a plan whose flow was paused must go back before it goes on; None: it need not. Raises as ``do``.

        ``groups``: their places have been looked up.
        """
        flow = str(self._sides.flow.name)
        # The last step of a failback resumes the flow itself.
        if self._sides.kind == "failover" and await self._held(flow):
            return StepOutcome(
                "blocked", f"{flow} was resumed meanwhile, and is to be paused again", {}, FailoverStep.STOP
            )
        return await self._left_behind(groups=groups)

    async def _held(self, flow: str) -> list[PartitionStatus]:
        """Partitions that replicators hold: one is shown as paused before its replicator has let go of it."""
        found = await self._running.partitions(flow) if self._running is not None else ()
        return [partition for partition in found if partition.replicator or partition.state == "copying"]

    async def _left_behind(self, *, groups: bool) -> StepOutcome | None:
        """``groups``: also whether groups have gone on. What was written is looked for last."""
        if self._dry or self._options.source_is_gone:
            return None
        sides = self._sides
        went_on: list[str] = []
        if groups:
            options, moved = self._options, self._moved_before
            skip = options.skip_active
            went_on = await groups_that_went_on(sides, self.places, moved, every=options.force, skip_active=skip)
        found = await records_left_behind(sides)
        found = LeftBehind(written=found.written, unstable=found.unstable, groups=went_on)
        again = f"{sides.carrying.name} catches up"
        if sides.kind == "failover":
            again = f"{sides.flow.name} is resumed, catches up, and is paused again"
        return left_behind.told(found, sides.origin.settings.alias, again, or_gone=self._or_gone())

    async def _producers(self) -> StepOutcome:
        if self._options.source_is_gone:
            return StepOutcome("skipped", "the source is gone", {})
        partitions = await self._sides.topics()
        before, _ = await marks(self._sides, partitions)
        await asyncio.sleep(self._timing.quiet_s)
        after, stable = await marks(self._sides, partitions)
        written = by_topic({p: after[p] - before[p] for p in partitions})
        open_now = by_topic({p: after[p] - stable[p] for p in partitions})
        figures = {"written": written, "open_transactions": open_now, "quiet_s": self._timing.quiet_s}
        origin = self._sides.origin.settings.alias
        if written:
            text = f"still written on {origin}: {names(written)}. Stop the producers, then run this again"
            return StepOutcome("blocked", text + self._or_gone(), figures)
        if open_now:
            text = f"transactions are open on {origin} in {names(open_now)}: end their producers, or wait for"
            text += f" transaction.timeout.ms, then run this again{self._or_gone()}"
            return StepOutcome("blocked", text, figures)
        return StepOutcome("done", f"nothing was written on {origin} for {self._timing.quiet_s:g} s", figures)

    async def _catch_up(self) -> StepOutcome:
        if self._options.source_is_gone:
            return StepOutcome("skipped", "the source is gone", {})
        began_s = time.monotonic()
        deadline_s = began_s + (TOLD_WITHIN_S if self._dry else self._timing.catch_up_s)
        while True:
            found = await lags(self._sides)
            behind = {each: lag for each, lag in found.items() if lag != 0}
            topics = by_topic(behind)
            figures = {"lag": sum(lag or 0 for lag in behind.values()), "behind": topics}
            if not behind:
                text = f"{self._sides.carrying.name} has copied all {len(found)} partitions to their ends"
                return StepOutcome("done", text, figures | {"waited_s": round(time.monotonic() - began_s, 1)})
            await self._lift_own_pause()
            why = await self._why_behind(behind)
            if why or time.monotonic() > deadline_s:
                break
            await asyncio.sleep(LOOK_S)
        text = f"{figures['lag']} offsets in {names(topics)} are not copied yet{why}"
        return StepOutcome("blocked", f"{text}. Run this again when they are{self._or_gone()}", figures)

    async def _lift_own_pause(self) -> None:
        """So that the flow copies what was written since it was paused."""
        if self.lifts_pause and self._running is not None and self._sides.kind == "failover" and not self._dry:
            await self._running.resume(str(self._sides.flow.name))

    async def _stop(self) -> StepOutcome:
        flow = str(self._sides.flow.name)
        if self._running is None:
            text = f"no running system was found, so nothing copies {flow}, as far as is known"
            return await self._left_behind(groups=False) or StepOutcome("skipped", text, {})
        if self._dry:
            return StepOutcome("done", f"would pause {flow}", {})
        await self._running.pause(flow)
        deadline_s = time.monotonic() + _PAUSED_WITHIN_S
        while held := await self._held(flow):
            if time.monotonic() > deadline_s:
                return StepOutcome("blocked", f"{flow}: {len(held)} partitions go on copying: see `replicators`", {})
            await asyncio.sleep(LOOK_S)
        text = f"{flow} is paused; a pause outlives restarts"
        return await self._left_behind(groups=False) or StepOutcome("done", text, {})

    async def _offsets(self) -> StepOutcome:
        sides = self._sides
        if self._options.source_is_gone:
            self.places = await translate_offsets.without_source(sides)
        else:
            groups = await sides.groups(sides.origin)
            force, moved = self._options.force, self._moved_before
            places = await translate_offsets.with_source(sides, groups, moved, every=force)
            busy = with_members({name: groups[name] for name in places})
            if not self._options.skip_active and not self._dry:
                others = with_members(translate_offsets.to_move(sides, groups, moved, every=force))
                others = {name: each for name, each in others.items() if name not in busy}
                if names_at_work := sorted(busy.keys() | await groups_at_work(sides, others, every=force)):
                    return self._at_work(names_at_work)
            if not self._dry:
                idle = {name: groups[name] for name in places.keys() - busy.keys()}
                places = await translate_offsets.with_source(sides, idle, moved, every=force, final=True)
            self.places = places
        figures = group_totals(self.places)
        unsure = [place for each in self.places.values() for place in each if place.reason]
        figures |= {"unsure": [told(place) for place in unsure[:NAMED]]}  # type: ignore[dict-item]
        text = f"{figures['groups']} groups, {figures['partitions']} partitions: {figures['exact']} exact,"
        text += f" {figures['before_the_place']} before the place, {figures['without_offset']} without an offset"
        return StepOutcome("done", text, dict(figures))

    def _at_work(self, busy: Sequence[str]) -> StepOutcome:
        text = f"still at work on {self._sides.origin.settings.alias}: {names(busy)}. Stop them, then run this again;"
        return StepOutcome("blocked", f"{text} --skip-active leaves them where they are", {"active": busy[:NAMED]})

    async def _commit(self) -> StepOutcome:
        alias = self._sides.destination.settings.alias
        result = await commit_offsets.commit(
            self._sides, self.places, self._moved_before, self._options, dry=self._dry, still_due=self.left
        )
        if result.refused:
            refused = [(group, error.name) for (group, _), error in result.refused.items()]
            raise MirrorError(commit_offsets.refusal(alias, refused))
        figures = {
            "committed": result.committed,
            "there_already": result.there_already,
            "kept": [told(place) for place in result.kept[:NAMED]],
            "active": result.active,
        }
        text = f"{'would commit' if self._dry else 'committed'} {result.committed} offsets on {alias}; "
        text += f"{result.there_already} were there already"
        if result.kept:
            groups = sorted({place.group for place in result.kept})
            text += f"; {len(result.kept)} were left as somebody else set them, of {names(groups)} (--force replaces)"
        if result.at_work:
            text += f"; moved before, and at work there since: {names(result.at_work)}"
        if result.active:
            text += f"; at work there, and left alone: {names(result.active)}"
            if not self._options.skip_active:
                return StepOutcome("blocked", text + ". Stop them and run this again, or say --skip-active", figures)
        return StepOutcome("done", text, figures)

    async def _verify(self) -> StepOutcome:
        result = await record_comparison.verify(self._sides, self.places, with_source=not self._options.source_is_gone)
        if result["different"]:
            text = f"{len(result['different'])} places hold another record than on the other side, the first"
            return StepOutcome("blocked", f"{text} {result['different'][0]}: no consumer may start there", result)
        if self._options.source_is_gone:
            return StepOutcome("done", f"{result['compared']} places lie within their logs", result)
        text = f"the record at each of {result['compared']} places is the same on both sides"
        text += f"; {result['not_comparable']} can't be compared" if result["not_comparable"] else ""
        return StepOutcome("done", text, result)

    async def _redirect(self) -> StepOutcome:
        pairs = {(p.origin.topic, p.destination.topic) for e in self.places.values() for p in e if p.destination}
        topics = {
            origin: ", ".join(topic for of, topic in sorted(pairs) if of == origin) for origin in dict(sorted(pairs))
        }
        if (found := await self._left_behind(groups=True)) is not None:
            return found
        lines = redirect(self._sides.flow, self._sides.kind, topics, sorted(self.places), self._sides.policy)
        if self._sides.kind == "failback":
            lines.append(await self._resume())
        figures = {"topics": dict(sorted(topics.items())[:NAMED]), "groups": len(self.places)}
        return StepOutcome("done", "\n".join(lines), figures)

    async def _resume(self) -> str:
        flow = str(self._sides.flow.name)
        if self._running is None:
            return f"Start the system (`mirror-ray up CONFIG`), and lift the pause: mirror-ray resume '{flow}'"
        if self._dry:
            return f"{flow} would be resumed where it stood."
        await self._running.resume(flow)
        return f"{flow} is resumed where it stood."

    async def _why_behind(self, behind: Collection[TopicPartition]) -> str:
        """Why waiting is of no use; "" while it is."""
        flow = str(self._sides.carrying.name)
        if self._running is None:
            return ": no running system was found that copies them"
        for each in await self._running.partitions(flow):
            if TopicPartition(each.topic, each.partition) in behind and each.state in {"paused", "stopped", "refused"}:
                by_operator = each.state == "paused" and each.reason is None
                lift = f" (`mirror-ray resume '{flow}'`)" if by_operator else f": {each.reason}"
                return f": {each.topic}-{each.partition} is {each.state}{lift}"
        return ""

    def _or_gone(self) -> str:
        return "; --source-is-gone goes on without" if self._sides.kind == "failover" else ""
