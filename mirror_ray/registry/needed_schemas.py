"""Meets what partitions wait for: schemas that records have, and whether a field has schema ids at all."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.records.schema_id_records import GuidTranslation, IdTranslation
from mirror_ray.registry.id_topic import SchemaIdTopic
from mirror_ray.registry.mirror import SchemaMirror
from mirror_ray.registry.needs import Ambiguous, decide_field
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.schema import DEFAULT_CONTEXT, Subject
from mirror_ray.transforms.schema_ids import schema_text

#: An id that the source's registry does not have for so long is none. A node of a registry may know for a moment less
#: than the one that has registered a schema, and what is decided of a field is not decided anew.
_PLAIN_AFTER_S: Final = 5.0


class NeededSchemas:
    """The needs of one flow. One call at a time."""

    def __init__(
        self,
        source: SchemaRegistry,
        topic: SchemaIdTopic,
        publish: Callable[[SchemaMirror], Awaitable[None]],
        *,
        absent_after_s: float | None,
        report: Callable[[str, str], None],
    ) -> None:
        """``publish`` writes what is new of ids to ``topic``. The rest as `FlowSchemaSync` has it."""
        self._source, self._topic, self._publish, self._report = source, topic, publish, report
        self._absent_after_s = absent_after_s
        self._problems: dict[SchemaNeed, str] = {}
        #: Since when partitions wait for what the source's registry does not have.
        self._absent_s: dict[SchemaNeed, float] = {}

    @property
    def problems(self) -> Collection[str]:
        """Why partitions wait."""
        return self._problems.values()

    async def meet(self, mirror: SchemaMirror, needs: Collection[SchemaNeed]) -> None:
        """Find out what partitions wait for.

        Raises:
            OSError, MirrorError: A registry or the target can't be reached.
        """
        self._problems = {need: text for need, text in self._problems.items() if need in needs}
        self._absent_s = {need: since_s for need, since_s in self._absent_s.items() if need in needs}
        undecided = any((need.topic, need.field) not in self._topic.framed for need in needs)
        subjects = await self._source.subjects() if undecided else []
        for need in needs:
            exists = await self._find(mirror, need)
            if exists:
                self._absent_s.pop(need, None)
            else:
                self._absent_s.setdefault(need, time.monotonic())
            if await self._is_framed(need, subjects, exists=exists) and not exists:
                await self._give_up(need)

    async def _find(self, mirror: SchemaMirror, need: SchemaNeed) -> bool:
        """Mirror a schema that is needed; returns whether the source has it."""
        about = f"{need.field} of {need.topic}: {schema_text(need.schema)}"
        exists = self._is_known(need)
        if not exists:
            exists = await self._mirror(mirror, need.schema)
            await self._publish(mirror)
        if self._is_known(need):
            self._problems.pop(need, None)
        elif exists:
            guid = "" if isinstance(need.schema, int) else ", or the target's registry gives no GUIDs"
            self._problems[need] = (
                f"{about} is not mirrored: its subject is excluded, or has a problem of its own{guid}; partitions wait "
                "for it"
            )
        else:
            self._problems[need] = f"{about}: the source's registry has no such schema; partitions wait for it"
        return exists

    def _is_known(self, need: SchemaNeed) -> bool:
        return need.schema in (self._topic.ids if isinstance(need.schema, int) else self._topic.guids)

    async def _mirror(self, mirror: SchemaMirror, schema: int | bytes) -> bool:
        if isinstance(schema, int):
            return await mirror.mirror_id(schema, DEFAULT_CONTEXT)
        there = await self._source.ids_of_guid(schema)
        for context, schema_id in there:
            await mirror.mirror_id(schema_id, context)
        return bool(there)

    async def _is_framed(self, need: SchemaNeed, subjects: Collection[Subject], *, exists: bool) -> bool:
        """Whether the need's field has schema ids: what was decided of it, or is now; while it is not, it has none."""
        known = self._topic.framed.get((need.topic, need.field))
        if known is not None:
            return known
        decision = decide_field(need, subjects, id_exists=exists)
        if isinstance(decision, Ambiguous):
            self._problems[need] = decision.text
            return False
        if not decision.framed and time.monotonic() - self._absent_s[need] < _PLAIN_AFTER_S:
            return False
        await self._topic.write([decision])
        if not decision.framed:
            self._tell_plain(need)
        return decision.framed

    def _tell_plain(self, need: SchemaNeed) -> None:
        self._problems.pop(need, None)
        self._report(
            "warning",
            f"each {need.field} of topic {need.topic} is copied as it is: one begins as with schema "
            f"{schema_text(need.schema)}, which the source's registry does not have, and no subject is named "
            f"{need.topic}-{need.field}; if they have schemas, add the topic to schemas.topics",
        )

    async def _give_up(self, need: SchemaNeed) -> None:
        """Let records be left out whose schema does not come, where that is the flow's policy."""
        if self._absent_after_s is None or time.monotonic() - self._absent_s[need] < self._absent_after_s:
            return
        entry = IdTranslation(need.schema, None) if isinstance(need.schema, int) else GuidTranslation(need.schema, None)
        await self._topic.write([entry])
