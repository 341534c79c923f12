"""The nine steps, each of which looks or acts, and says what came of it. A step that broke off may be done again."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from mirror_ray.client import MirrorClient
from mirror_ray.failover import committing, locating, verifying
from mirror_ray.failover.advice import redirect
from mirror_ray.failover.places import Place, group_totals, lost_if_gone, reread_if_gone
from mirror_ray.failover.plan import Options, Outcome, Step
from mirror_ray.failover.running import Running
from mirror_ray.failover.sides import WITHOUT_MEMBERS, Sides, answered
from mirror_ray.kafka.offsets import LATEST
from mirror_ray.model.errors import ClusterUnreachableError, MirrorError
from mirror_ray.model.names import TopicPartition

#: So many groups or topics are named in a step's figures, those with the most to say.
_NAMED: Final = 200
_LOOK_S: Final = 0.3
_PAUSED_WITHIN_S: Final = 30.0
#: Replicators tell every second how far they have come.
_TOLD_WITHIN_S: Final = 3.0


class Done(NamedTuple):
    """What came of a step."""

    outcome: Outcome
    summary: str
    figures: dict[str, Any]


class Timing(NamedTuple):
    """How long a plan waits."""

    #: For ends to stand still.
    quiet_s: float = 3.0
    #: For the lag to become 0.
    catch_up_s: float = 600.0


class Steps:
    """The steps of one plan. Whoever takes a plan up again sets ``places`` and ``left`` as it left them."""

    def __init__(
        self,
        sides: Sides,
        running: Running | None,
        options: Options,
        timing: Timing,
        *,
        dry: bool,
        moved_before: Mapping[str, list[Place]],
    ) -> None:
        """``moved_before``: for a failback, what the failover before it has moved."""
        self.places: dict[str, list[Place]] = {}
        #: Groups that an earlier try of ``commit`` has left; None: there was none.
        self.left: Collection[str] | None = None
        self._sides, self._running, self._options, self._timing = sides, running, options, timing
        self._dry, self._moved_before = dry, moved_before
        sides.without_silent = options.force
        self._steps: Mapping[Step, Callable[[], Awaitable[Done]]] = {
            Step.DETECT: self._detect,
            Step.CHECK: self._check,
            Step.PRODUCERS: self._producers,
            Step.CATCH_UP: self._catch_up,
            Step.STOP: self._stop,
            Step.OFFSETS: self._offsets,
            Step.COMMIT: self._commit,
            Step.VERIFY: self._verify,
            Step.REDIRECT: self._redirect,
        }

    async def do(self, step: Step) -> Done:
        """Do one step.

        Raises:
            OSError, MirrorError: It can't be done now.
        """
        return await self._steps[step]()

    async def _detect(self) -> Done:
        sides, gone = self._sides, self._options.source_is_gone
        alive = {alias: await _health(cluster) for alias, cluster in self._by_alias().items()}
        figures: dict[str, Any] = {"clusters": alive}
        beat = await asyncio.to_thread(self._heartbeat)
        figures["heartbeat"] = beat
        told = f"{_health_text(alive)}; last heartbeat {beat['text']}"
        destination, origin = sides.destination.settings.alias, sides.origin.settings.alias
        if "error" in alive[destination]:
            raise ClusterUnreachableError(alive[destination]["error"])
        if "error" in alive[origin] and not gone:
            if sides.kind == "failover":
                return Done("blocked", f"{told}. If {origin} will not come back soon, say --source-is-gone", figures)
            raise ClusterUnreachableError(alive[origin]["error"])
        if gone and "error" not in alive[origin]:
            told += f". {origin} answers: without --source-is-gone nothing would be lost nor read again"
        return Done("done", told, figures)

    async def _check(self) -> Done:
        if self._options.source_is_gone:
            places = await locating.without_source(self._sides)
            figures: dict[str, Any] = group_totals(places)
            text = (
                f"{figures['groups']} groups have checkpoints. What {self._sides.origin.settings.alias} had and"
                f" {self._sides.destination.settings.alias} has not, and what groups did after their last checkpoint,"
                " nobody can tell: the former is lost, the latter is done again"
            )
            return Done("done", text, figures)
        lags = await self._lags()
        groups = await self._groups_at_risk()
        figures = {
            "lag": sum(lag or 0 for lag in lags.values()),
            "topics": _by_topic(lags),
            "groups": len(groups),
            "lost_now": sum(each["lost_now"] for each in groups),
            "reread_now": sum(each["reread_now"] or 0 for each in groups),
            "by_group": sorted(groups, key=lambda each: -each["lost_now"] - (each["reread_now"] or 0))[:_NAMED],
        }
        unknown = sorted({each.topic for each, lag in lags.items() if lag is None})
        text = f"lag {figures['lag']} of {len(lags)} partitions; {len(groups)} groups"
        if self._sides.kind == "failover":
            text += (
                f"; were {self._sides.origin.settings.alias} lost now, they would miss {figures['lost_now']} and read"
            )
            text += f" {figures['reread_now']} again"
        elif not self._sides.way_is_copied:
            text += f"; {_NO_WAY_BACK.format(*self._aliases())}"
        text += f"; nothing is known of the copies of {_names(unknown)}" if unknown else ""
        return Done("done", text, figures)

    async def _producers(self) -> Done:
        if self._options.source_is_gone:
            return Done("skipped", "the source is gone", {})
        partitions = await self._sides.topics()
        before, _ = await self._ends(partitions)
        await asyncio.sleep(self._timing.quiet_s)
        after, stable = await self._ends(partitions)
        written = _by_topic({each: after[each] - before[each] for each in partitions})
        open_now = _by_topic({each: after[each] - stable[each] for each in partitions})
        figures = {"written": written, "open_transactions": open_now, "quiet_s": self._timing.quiet_s}
        origin = self._sides.origin.settings.alias
        if written:
            text = f"still written on {origin}: {_names(written)}. Stop the producers, then run this again"
            return Done("blocked", text + self._or_gone(), figures)
        if open_now:
            text = f"transactions are open on {origin} in {_names(open_now)}: end their producers, or wait for"
            text += f" transaction.timeout.ms, then run this again{self._or_gone()}"
            return Done("blocked", text, figures)
        return Done("done", f"nothing was written on {origin} for {self._timing.quiet_s:g} s", figures)

    async def _catch_up(self) -> Done:
        if self._options.source_is_gone:
            return Done("skipped", "the source is gone", {})
        began_s = time.monotonic()
        deadline_s = began_s + (_TOLD_WITHIN_S if self._dry else self._timing.catch_up_s)
        while True:
            lags = await self._lags()
            behind = {each: lag for each, lag in lags.items() if lag != 0}
            topics = _by_topic(behind)
            figures = {"lag": sum(lag or 0 for lag in behind.values()), "behind": topics}
            if not behind:
                text = f"{self._sides.carrying.name} has copied all {len(lags)} partitions to their ends"
                return Done("done", text, figures | {"waited_s": round(time.monotonic() - began_s, 1)})
            why = await self._why_behind(behind)
            if why or time.monotonic() > deadline_s:
                break
            await asyncio.sleep(_LOOK_S)
        text = f"{figures['lag']} offsets in {_names(topics)} are not copied yet{why}"
        return Done("blocked", f"{text}. Run this again when they are{self._or_gone()}", figures)

    async def _stop(self) -> Done:
        flow = str(self._sides.flow.name)
        if self._running is None:
            return Done("skipped", f"no running system was found, so nothing copies {flow}, as far as is known", {})
        if self._dry:
            return Done("done", f"would pause {flow}", {})
        await self._running.pause(flow)
        deadline_s = time.monotonic() + _PAUSED_WITHIN_S
        while True:
            copying = [each for each in await self._running.partitions(flow) if each.state == "copying"]
            if not copying:
                return Done("done", f"{flow} is paused; a pause outlives restarts", {})
            if time.monotonic() > deadline_s:
                return Done("blocked", f"{flow}: {len(copying)} partitions go on copying: see `replicators`", {})
            await asyncio.sleep(_LOOK_S)

    async def _offsets(self) -> Done:
        sides = self._sides
        if self._options.source_is_gone:
            self.places = await locating.without_source(sides)
        else:
            groups = await sides.groups(sides.origin)
            force, moved = self._options.force, self._moved_before
            places = await locating.with_source(sides, groups, moved, every=force)
            busy = sorted(name for name in places if groups[name].state not in WITHOUT_MEMBERS)
            if busy and not self._options.skip_active and not self._dry:
                text = (
                    f"still at work on {sides.origin.settings.alias}: {_names(busy)}. Stop them, then run this again;"
                )
                return Done("blocked", f"{text} --skip-active leaves them where they are", {"active": busy[:_NAMED]})
            if not self._dry:
                idle = {name: groups[name] for name in places.keys() - set(busy)}
                places = await locating.with_source(sides, idle, moved, every=force, final=True)
            self.places = places
        figures = group_totals(self.places)
        told = [place for each in self.places.values() for place in each if place.reason]
        figures |= {"unsure": [_told(place) for place in told[:_NAMED]]}  # type: ignore[dict-item]
        text = f"{figures['groups']} groups, {figures['partitions']} partitions: {figures['exact']} exact,"
        text += f" {figures['before_the_place']} before the place, {figures['without_offset']} without an offset"
        return Done("done", text, dict(figures))

    async def _commit(self) -> Done:
        # Those that were moved by an earlier try may be at work by now.
        due = {name: each for name, each in self.places.items() if self.left is None or name in self.left}
        alias = self._sides.destination.settings.alias
        result = await committing.commit(self._sides, due, self._moved_before, self._options, dry=self._dry)
        if result.refused:
            refused = [(group, error.name) for (group, _), error in result.refused.items()]
            raise MirrorError(committing.refusal(alias, refused))
        figures = {
            "committed": result.committed,
            "there_already": result.there_already,
            "kept": [_told(place) for place in result.kept[:_NAMED]],
            "active": result.active,
        }
        text = f"{'would commit' if self._dry else 'committed'} {result.committed} offsets on {alias}; "
        text += f"{result.there_already} were there already"
        if result.kept:
            groups = sorted({place.group for place in result.kept})
            text += f"; {len(result.kept)} were left as somebody else set them, of {_names(groups)} (--force replaces)"
        if result.active:
            text += f"; at work there, and left alone: {_names(result.active)}"
            if not self._options.skip_active:
                return Done("blocked", text + ". Stop them and run this again, or say --skip-active", figures)
        return Done("done", text, figures)

    async def _verify(self) -> Done:
        result = await verifying.verify(self._sides, self.places, with_source=not self._options.source_is_gone)
        if result["different"]:
            text = f"{len(result['different'])} places hold another record than on the other side, the first"
            return Done("blocked", f"{text} {result['different'][0]}: no consumer may start there", result)
        if self._options.source_is_gone:
            return Done("done", f"{result['compared']} places lie within their logs", result)
        text = f"the record at each of {result['compared']} places is the same on both sides"
        text += f"; {result['not_comparable']} can't be compared" if result["not_comparable"] else ""
        return Done("done", text, result)

    async def _redirect(self) -> Done:
        pairs = {(p.origin.topic, p.destination.topic) for e in self.places.values() for p in e if p.destination}
        topics = {
            origin: ", ".join(topic for of, topic in sorted(pairs) if of == origin) for origin in dict(sorted(pairs))
        }
        lines = redirect(self._sides.flow, self._sides.kind, topics, sorted(self.places), self._sides.policy)
        if self._sides.kind == "failback":
            lines.append(await self._resume())
        figures = {"topics": dict(sorted(topics.items())[:_NAMED]), "groups": len(self.places)}
        return Done("done", "\n".join(lines), figures)

    async def _resume(self) -> str:
        flow = str(self._sides.flow.name)
        if self._running is None:
            return f"Start the system (`mirror-ray up CONFIG`), and lift the pause: mirror-ray resume '{flow}'"
        if self._dry:
            return f"{flow} would be resumed where it stood."
        await self._running.resume(flow)
        return f"{flow} is resumed where it stood."

    def _aliases(self) -> tuple[str, str]:
        return self._sides.origin.settings.alias, self._sides.destination.settings.alias

    def _by_alias(self) -> dict[str, Any]:
        return {each.settings.alias: each for each in (self._sides.source, self._sides.target)}

    def _heartbeat(self) -> dict[str, Any]:
        flow = self._sides.flow.name
        try:
            with MirrorClient(self._sides.target.settings, self._sides.policy) as client:
                found = client.heartbeats().get(flow)
        except MirrorError as error:
            return {"age_s": None, "text": f"unknown: {error}"}
        if found is None:
            return {"age_s": None, "text": "never"}
        age_s = round(found.age_ms / 1000, 1)
        return {"age_s": age_s, "timestamp_ms": found.timestamp_ms, "text": f"{age_s:g} s ago"}

    async def _lags(self) -> dict[TopicPartition, int | None]:
        """Offsets that each partition is behind; None: nothing is known of its copy, and it is not empty."""
        sides = self._sides
        partitions = await sides.topics()
        await sides.maps_are_read()
        ends, logs = await asyncio.gather(sides.stable_ends(partitions), sides.logs(sides.origin, partitions))
        lags: dict[TopicPartition, int | None] = {}
        for each in partitions:
            to, empty = sides.copied_to(each), each in logs and logs[each].start == ends[each]
            lags[each] = 0 if empty else None if to is None else max(0, ends[each] - to)
        return lags

    async def _groups_at_risk(self) -> list[dict[str, Any]]:
        sides = self._sides
        groups = await sides.groups(sides.origin)
        committed = await sides.committed(sides.origin, list(groups))
        partitions = {each for offsets in committed.values() for each in offsets}
        logs = await sides.logs(sides.origin, partitions)
        places = await locating.with_source(sides, groups, self._moved_before, every=self._options.force)
        said = await sides.said() if sides.kind == "failover" else {}
        there = await sides.logs(
            sides.destination, {p.destination for e in places.values() for p in e if p.destination}
        )
        found = []
        for group, every in places.items():
            lost, again = 0, 0
            for place in every:
                if place.destination not in there or place.origin not in logs or place.origin_offset is None:
                    continue
                if not sides.is_remote(place.origin):
                    end, copied_to = logs[place.origin].end, sides.copied_to(place.origin)
                    lost += lost_if_gone(end, copied_to, place.origin_offset)
                last = said.get(group, {}).get(place.destination)
                last_offset = last.checkpoint.downstream_offset if last else None
                again += reread_if_gone(place.offset, last_offset, there[place.destination])
            found.append({"group": group, "state": groups[group].state, "lost_now": lost, "reread_now": again})
        return found

    async def _ends(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """High watermarks and last stable offsets."""
        sides = self._sides
        if not partitions:
            return {}, {}
        marks, stable = await asyncio.gather(
            answered(sides.origin, sides.origin.list_offsets(dict.fromkeys(partitions, LATEST), "read_uncommitted")),
            answered(sides.origin, sides.origin.list_offsets(dict.fromkeys(partitions, LATEST), "read_committed")),
        )
        return {p: marks[p].offset for p in partitions}, {p: stable[p].offset for p in partitions}

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


_NO_WAY_BACK: Final = (
    "no flow {0}->{1} is enabled: what was written in {0}'s own topics meanwhile stays there, for the groups, too"
)


async def _health(cluster: Any) -> dict[str, Any]:
    try:
        found = await answered(cluster, cluster.refresh(None))
    except (MirrorError, OSError) as error:
        return {"error": str(error)}
    leaderless = [
        f"{topic.name}-{each.partition}"
        for topic in found.topics.values()
        for each in topic.partitions.values()
        if each.leader < 0
    ]
    return {"brokers": len(found.brokers), "without_leader": leaderless[:_NAMED]}


def _health_text(alive: Mapping[str, Mapping[str, Any]]) -> str:
    parts = []
    for alias, found in alive.items():
        if "error" in found:
            parts.append(f"{alias} does not answer")
            continue
        lost = f", {len(found['without_leader'])} partitions without a leader" if found["without_leader"] else ""
        parts.append(f"{alias} answers, {found['brokers']} brokers{lost}")
    return "; ".join(parts)


def _by_topic(values: Mapping[TopicPartition, int | None]) -> dict[str, int]:
    """Sums by topic, without those where nothing is to be said; what is not known counts as nothing but is named."""
    sums: dict[str, int] = defaultdict(int)
    for each, value in values.items():
        if value != 0:
            sums[each.topic] += value or 0
    return dict(sorted(sums.items(), key=lambda item: -item[1])[:_NAMED])


def _names(names: Collection[str], shown: int = 5) -> str:
    listed = list(names)
    return ", ".join(listed[:shown]) + (f" and {len(listed) - shown} more" if len(listed) > shown else "")


def _told(place: Place) -> dict[str, Any]:
    return {
        "group": place.group,
        "partition": str(place.origin),
        "origin_offset": place.origin_offset,
        "offset": place.offset,
        "reason": place.reason,
    }
