"""Reverses the flow of a failback whose topics keep their names, and turns it round again at the end.

While it is reversed the running system has the flow off, and the flow back on in its place; the states of both say so,
whatever anybody applies meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import (
    MirrorSettings,
    is_reversed,
    restored_settings,
    reversed_settings,
    with_all_names,
    without_flow,
)
from mirror_ray.failover import diverged_topics
from mirror_ray.failover.copy_progress import POLL_S
from mirror_ray.failover.messages import StepOutcome, names
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.failover.running_system import RunningSystem, until_released
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.model.patterns import compile_patterns
from mirror_ray.observe.status import PartitionStatus
from mirror_ray.reversal import reverse
from mirror_ray.reversal.cut import reversed_names
from mirror_ray.reversal.diverged_export import TO_TOPICS, DivergedExport
from mirror_ray.reversal.reverse import Reversal

_OPENED_WITHIN_S: Final = 30.0
_COPIES_WITHIN_S: Final = 120.0
#: States of a partition that waiting does not change.
_STUCK: Final = frozenset({"refused", "stopped", "paused"})


class FlowReversal:
    """The reversal of one flow.

    Attributes:
        settings: With the flow off, and the flow back on.
    """

    def __init__(
        self,
        settings: MirrorSettings,
        flow: FlowName,
        topics: Mapping[str, str],
        running: RunningSystem | None,
        *,
        options: FailoverOptions,
        audit_log: AuditLog,
        dry: bool,
    ) -> None:
        """``topics``: those on the flow's source, by their names on its target.

        Raises:
            ConfigError: The flow can't be reversed, or an option is wrong.
        """
        if (why := reverse.refusal(settings.flow(flow))) is not None or settings.routes_of(flow):
            raise ConfigError(f"no failback of {flow} in its own topics: {why or 'it routes records to other topics'}")
        self.settings = reversed_settings(settings, flow, topics, options.new_topics)
        self._flow, self._topics, self._running, self._audit_log = flow, dict(topics), running, audit_log
        self._others, self._dry = compile_patterns(options.new_topics), dry
        directory = None if options.export_diverged == TO_TOPICS else Path(options.export_diverged)
        self._asked = Reversal(
            flow=flow,
            names=self._topics,
            policies=reverse.parse_policies(options.diverged),
            export=DivergedExport(directory=directory, audit_log=audit_log) if options.export_diverged else None,
        )
        self._new_topics = options.new_topics

    async def is_begun(self) -> bool:
        """Whether the flow back may run, in place of the flow."""
        return await reverse.is_done(self.settings, self._flow, self._audit_log)

    async def is_over(self) -> bool:
        """Whether the flow may run again."""
        return await reverse.is_done(self.settings, self._flow.back, self._audit_log)

    async def runs_back(self) -> bool:
        """Whether the flow back is on in the running system."""
        return self._running is not None and is_reversed(await self._running.configuration(), self._flow)

    async def begin(self) -> StepOutcome:
        """Reverse the flow, and wait until the flow back copies."""
        if self._running is None:
            text = (
                f"no running system was found, which would copy {self._flow.back}: `mirror-ray up CONFIG`, then again"
            )
            return StepOutcome("blocked", text, {})
        base = await self._running.configuration()
        if await self.is_begun():
            return await self._run_back(self._running, base, {}, "it is reversed already")
        if not self._dry:
            await self._stop(self._running, base)
        found = await reverse.find(self.settings, self._asked, self._audit_log)
        text, figures = diverged_topics.described(found, self._flow, self._asked)
        if any(topic.plan == "undecided" for topic in found):
            return StepOutcome("blocked", text, figures)
        if self._dry:
            return StepOutcome("done", f"would reverse {self._flow}: {text}", figures)
        await self._running.apply(without_flow(base, self._flow))
        found = await reverse.reverse(self.settings, self._asked, self._audit_log)
        text, figures = diverged_topics.described(found, self._flow, self._asked)
        if any(topic.plan == "undecided" for topic in found):
            return StepOutcome("blocked", text, figures)
        return await self._run_back(self._running, base, figures, text)

    async def _run_back(
        self, running: RunningSystem, base: MirrorSettings, figures: dict[str, Any], text: str
    ) -> StepOutcome:
        back = str(self._flow.back)
        if self._dry:
            return StepOutcome("done", text, figures)
        await running.apply(reversed_settings(base, self._flow, self._topics, self._new_topics))
        if waiting := await self._why_not_copying(running):
            return StepOutcome("blocked", f"{text}; {back} does not copy yet: {waiting}. Run this again", figures)
        return StepOutcome("done", f"{text}; {back} copies in place of {self._flow}", figures)

    async def _why_not_copying(self, running: RunningSystem) -> str:
        """Wait until every partition of the flow back is copied; "" when it is so, else why not."""
        deadline_s = time.monotonic() + _COPIES_WITHIN_S
        while True:
            rows = await running.partitions(str(self._flow.back))
            left = [row for row in rows if row.state != "copying"]
            if rows and not left:
                return ""
            if time.monotonic() > deadline_s:
                why = left[0].reason if left and left[0].state in _STUCK else None
                listed = names([f"{row.topic}-{row.partition} is {row.state}" for row in left])
                return f"{listed}: {why}" if why else listed or "its topics are looked up"
            await asyncio.sleep(POLL_S)

    async def _once_open(self, command: Callable[[], Awaitable[None]]) -> None:
        """Give a command to a flow that may just have been switched on, and reads its state first."""
        deadline_s = time.monotonic() + _OPENED_WITHIN_S
        while True:
            try:
                return await command()
            except MirrorError:
                if time.monotonic() > deadline_s:
                    raise
            await asyncio.sleep(POLL_S)

    async def _stop(self, running: RunningSystem, base: MirrorSettings) -> None:
        """Pause the flow, if it is on, and wait until nobody holds a partition of it."""
        flow = str(self._flow)
        if not base.flow(self._flow).enabled:
            return
        await self._once_open(lambda: running.pause(flow))

        async def held() -> list[PartitionStatus]:
            return [row for row in await running.partitions(flow) if row.replicator]

        if left := await until_released(held):
            listed = names([f"{row.topic}-{row.partition} is {row.state}" for row in left])
            raise MirrorError(f"{flow} goes on copying: {listed}: see `mirror-ray replicators`")

    async def stays_on(self) -> None:
        """Have the flow back on again, where other settings were applied since it was."""
        if self._running is not None and not await self.runs_back():
            await self.go_on(self._running)

    async def go_on(self, running: RunningSystem) -> None:
        """Have the flow back on, though it was about to be turned round: there is more to be copied."""
        await reverse.stay(self.settings, self._flow.back, self._audit_log)
        base = await running.configuration()
        if not is_reversed(base, self._flow):
            await running.apply(reversed_settings(base, self._flow, self._topics, self._new_topics))
        await self._once_open(lambda: running.resume(str(self._flow.back)))

    async def end(self, topics: Sequence[str] = ()) -> str:
        """Turn the flow round again, where the flow back has stopped, and resume ``topics``; returns a sentence.

        Raises:
            MirrorError: It can't be: the same call goes on.
        """
        running = self._running
        if running is None:
            raise MirrorError(f"no running system was found that has {self._flow}: `mirror-ray up CONFIG`, then again")
        if self._dry:
            return f"{self._flow} would go on where {self._flow.back} has come to."
        base, back = await running.configuration(), self._flow.back
        if not await self.is_over():
            await running.apply(without_flow(base, back))
            found = await reverse.reverse(self.settings, await self._asked_back(), self._audit_log)
            if undecided := [topic.cut.topic for topic in found if topic.plan == "undecided"]:
                alias = self._flow.target
                raise MirrorError(
                    f"{alias} has records that {back} has not copied, in {names(undecided)}: run this again"
                )
        await running.apply(restored_settings(base, self._flow))
        for topic in topics:
            await self._once_open(lambda topic=topic: running.resume(str(self._flow), topic))  # type: ignore[misc]
        return f"{self._flow} goes on behind what {back} has copied."

    async def _asked_back(self) -> Reversal:
        records = await reverse.records_of(self.settings, self._flow.back)
        return Reversal(
            flow=self._flow.back,
            names={
                record.target_topic: partition.topic
                for partition, record in records.items()
                if partition.topic in self._topics or (self._others is not None and self._others.fits(partition.topic))
            },
        )


def with_names(settings: MirrorSettings, name: FlowName, topics: Mapping[str, str]) -> MirrorSettings:
    """The settings with the flow's topics named one by one, so that its remote topics are known as copies."""
    flow = settings.flow(name)
    mapped = flow.topics.model_copy(update={"map": {topic: remote for remote, topic in topics.items()}})
    flows = [flow.model_copy(update={"topics": mapped}) if known.name == name else known for known in settings.flows]
    return settings.model_copy(update={"flows": with_all_names(flows)})


async def topics_to_reverse(settings: MirrorSettings, name: FlowName) -> dict[str, str]:
    """The topics of a flow that producers write to on both sides under one name, by their names on the target.

    None where the flow back is on, too: then records say where they are from, and both directions copy.
    """
    on = {configured.name for configured in settings.flows if configured.enabled}
    flow = settings.flow(name)
    rules = replication_rules(flow)
    if {name, name.back} <= on or (rules.remote_topic("any") != "any" and not rules.names):
        return {}
    return reversed_names(rules, await reverse.records_of(settings, name))
