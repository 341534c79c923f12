"""The failover records in a flow's audit topic: every plan, every step's result with its figures, each group's offsets.

Compacted, JSON, one key per plan and step, and one per plan and group (more for a group of thousands of
partitions). It is on the flow's target.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.failover.plan import FailoverPlan, FailoverStep, StepResult, counted, plan_of, result_of
from mirror_ray.groups.translated_offset import TranslatedGroups, TranslatedOffset
from mirror_ray.kafka.audit_log import AuditLog
from mirror_ray.kafka.audit_topics import create_audit_topic
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.kafka.internal_topic_writer import InternalTopicWriter, KeyedRecord
from mirror_ray.model.internal_topics import audit_topic

log = logging.getLogger(__name__)

#: In one record: below the default ``max.message.bytes`` of 1 MiB, however little it compresses.
_OFFSETS_AT_MOST: Final = 2000


class FailoverHistory:
    """The plans of a flow, from the records of its audit topic."""

    def __init__(self) -> None:
        self._heads: dict[str, Mapping[str, Any]] = {}
        self._results: dict[str, dict[FailoverStep, StepResult]] = {}
        self._offsets: dict[str, dict[str, list[TranslatedOffset]]] = {}
        self._since: dict[str, dict[str, int]] = {}

    def apply(self, key: bytes | None, value: bytes) -> None:
        """Take the next record. Records of changes, which earlier versions wrote, are skipped.

        Unknown records are skipped, too, with a warning in the log.
        """
        try:
            name, body = json.loads(key or b""), json.loads(value)
            if "change" in name:
                return
            plan = name["plan"]
            if "group" in name:
                self._take_offsets(plan, name["group"], body, follows="part" in name)
            elif "step" in name:
                result = result_of(body)
                self._results.setdefault(plan, {})[result.step] = result
            else:
                plan_of(body)
                self._heads[plan] = body
        except (KeyError, TypeError, ValueError) as error:
            log.warning("a record of the audit topic is not understood: %r", error)

    def _take_offsets(self, plan: str, group: str, body: Any, *, follows: bool) -> None:
        groups, since = self._offsets.setdefault(plan, {}), self._since.setdefault(plan, {})
        if not follows:
            groups[group], since[group] = [], 0
        if isinstance(body, Mapping):
            body, since[group] = body["places"], body["since"]
        groups.setdefault(group, []).extend(TranslatedOffset.from_json(group, value) for value in body)
        if not groups[group]:
            del groups[group], since[group]

    def plans(self) -> list[FailoverPlan]:
        """All plans, oldest first."""
        return sorted(map(self._plan, self._heads.values()), key=lambda plan: (plan.began_ms, plan.id))

    def offsets(self, plan: str) -> dict[str, list[TranslatedOffset]]:
        """The translated offsets of a plan, by group; empty before its step ``offsets``."""
        return self._offsets.get(plan, {})

    def since(self, plan: str) -> dict[str, int]:
        """How often the plan had gone back when each group first had translated offsets."""
        return self._since.get(plan, {})

    def last_try(self, plan: str, step: FailoverStep) -> StepResult | None:
        """The result of a step's last try, though the plan may have gone back since."""
        return self._results.get(plan, {}).get(step)

    def _plan(self, head: Mapping[str, Any]) -> FailoverPlan:
        plan = plan_of(head)
        return replace(plan, results=counted(self._results.get(plan.id, {})))


class FailoverAudit:
    """Reads and writes a flow's audit topic."""

    def __init__(
        self, settings: ClusterSettings, cluster: ClusterConnections, source_alias: str, audit_log: AuditLog
    ) -> None:
        """``settings`` and ``cluster``: the flow's target."""
        self._audit_log = audit_log
        self._settings, self._cluster = settings, cluster
        self.topic = audit_topic(source_alias)
        self._writer = InternalTopicWriter(cluster, self.topic)

    async def read(self) -> FailoverHistory:
        """Read the whole topic; a missing one is empty."""
        history, reader, complete = FailoverHistory(), InternalTopicReader(self._cluster, self.topic), False
        while not complete:
            _, records, complete = await reader.read()
            for record in records:
                if record.value is not None:
                    history.apply(record.key, record.value)
        return history

    async def begin(self, plan: FailoverPlan) -> None:
        """Write the head of a plan; makes the topic where it is missing."""
        await asyncio.to_thread(create_audit_topic, self._settings, self.topic, self._audit_log)
        await self._cluster.refresh([self.topic])
        await self.head(plan)

    async def head(self, plan: FailoverPlan) -> None:
        """Write the head of a plan that has changed."""
        await self._append([({"plan": plan.id}, plan.head())])

    async def result(self, plan: FailoverPlan, result: StepResult) -> None:
        """Write the result of a step.

        Raises:
            OSError, MirrorError: It may not be there; the step will be done again.
        """
        await self._append([({"plan": plan.id, "step": result.step}, asdict(result))])

    async def offsets(self, plan: FailoverPlan, groups: TranslatedGroups, since: Mapping[str, int]) -> None:
        """Write translated offsets; a group without any is left out from now on.

        ``since``: how often the plan had gone back when each group first had some.
        """
        await self._append(
            record
            for group, of_group in groups.items()
            for record in offset_records(plan.id, group, of_group, since.get(group, 0))
        )

    async def _append(self, records: Iterable[tuple[Mapping[str, Any], Any]]) -> None:
        encoded = [KeyedRecord(_json(key), _json(value)) for key, value in records]
        if encoded:
            await self._writer.append(encoded)


def offset_records(
    plan: str, group: str, offsets: Sequence[TranslatedOffset], since: int = 0
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield keys and values of a group's records: the first one replaces older ones, others continue it."""
    for part, begin in enumerate(range(0, len(offsets) or 1, _OFFSETS_AT_MOST)):
        key = {"plan": plan, "group": group} | ({"part": part} if part else {})
        body = [offset.to_json() for offset in offsets[begin : begin + _OFFSETS_AT_MOST]]
        yield key, {"since": since, "places": body} if since and not part else body


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
