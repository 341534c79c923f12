"""One flow's schemas, round by round: subjects mirrored, ids decided and published, needs of partitions met."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

from mirror_ray.model.schema_need import SchemaNeed
from mirror_ray.records.schema_id_records import GuidTranslation, IdsDecision, IdsWay, IdTranslation, SchemaIdEntry
from mirror_ray.registry.client import RegistryRefusedError
from mirror_ray.registry.id_topic import SchemaIdTopic
from mirror_ray.registry.mirror import SchemaMirror
from mirror_ray.registry.needed_schemas import NeededSchemas
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.schema import DEFAULT_CONTEXT, Subject, SubjectVersion

#: A subject that nobody has: whether the target knows the mode IMPORT is tried with it.
_PROBE: Final = Subject(DEFAULT_CONTEXT, "mirror-ray-import-mode-probe")
#: Whoever registers next gets one of these ids, unless some were lost.
_IDS_AHEAD: Final = 3
#: A list of ten thousand subjects costs more than all else of a round in which nothing is new, and what is new has one
#: of the next ids, unless it is another subject for a schema that is known.
_LIST_EVERY_S: Final = 5.0


class FlowSchemaSync:
    """Decides, mirrors and publishes for one flow. One call at a time."""

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry,
        topic: SchemaIdTopic,
        make_mirror: Callable[[IdsWay], SchemaMirror],
        wanted: IdsWay | None,
        *,
        full_interval_s: float,
        absent_after_s: float | None,
        report: Callable[[str, str], None],
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            source: The source's registry.
            target: The target's.
            topic: The internal topic, which was opened.
            make_mirror: Makes the mirror, once it is known how ids are copied.
            wanted: How ids are to be copied; None: as the target allows.
            full_interval_s: How often everything is compared.
            absent_after_s: How long a record waits for a schema that the source's registry does not have, before it is
                left out; None: for ever.
            report: Takes level and text for the event log.
        """
        self._source, self._target, self._topic = source, target, topic
        self._make_mirror, self._wanted, self._report = make_mirror, wanted, report
        self._full_interval_s, self._full_s = full_interval_s, float("-inf")
        self.mirror: SchemaMirror | None = None
        #: Ids that became something else than what they are now, by the source's.
        self._id_problems: dict[int, str] = {}
        self._published: dict[SubjectVersion, tuple[int, bytes | None]] = {}
        #: The newest id of the default context, whether there are others, and among how many schemas that is so.
        self._newest_id, self._has_contexts, self._counted = 0, False, 0
        #: When subjects were listed.
        self._listed_s = float("-inf")
        #: Whether something may have to be published.
        self._changed = False
        self._needed = NeededSchemas(source, topic, self._publish, absent_after_s=absent_after_s, report=report)

    @property
    def way(self) -> IdsWay | None:
        """How ids are copied; None: it is not decided yet."""
        return self._topic.way if self.mirror is not None else None

    @property
    def problems(self) -> list[str]:
        """What keeps the registries apart, beside what the mirror has of single versions."""
        return [*self._needed.problems, *self._id_problems.values()]

    @property
    def requests(self) -> int:
        """How many both registries were sent."""
        return self._source.requests + self._target.requests

    async def round(self, needs: Collection[SchemaNeed]) -> None:
        """Mirror what is new, and what ``needs`` name; everything, at intervals.

        Raises:
            OSError, MirrorError: A registry or the target can't be reached; the next round goes on from here.
        """
        mirror = self.mirror
        if mirror is None:
            mirror = self.mirror = self._make_mirror(await self._decide_way())
        if time.monotonic() - self._full_s >= self._full_interval_s:
            done = await mirror.mirror_all()
            self._full_s, self._changed = time.monotonic(), True
        else:
            done = await self._mirror_new(mirror)
            await mirror.settings.settle_some()
        self._tell(done)
        if self._changed:
            await self._publish(mirror)
        await self._needed.meet(mirror, needs)

    async def _decide_way(self) -> IdsWay:
        known = self._topic.way
        if known is not None and self._wanted in (None, known):
            return known
        way = self._wanted or await self._possible_way()
        await self._topic.write([IdsDecision(way)])
        self._report("info", f"schema ids on the target are {'the same' if way == 'same' else 'translated'}")
        return way

    async def _possible_way(self) -> IdsWay:
        """``same`` where the target lets ids be given, and has none of its own that could be others'."""
        if await self._target.subjects():
            return "translated"
        try:
            await self._target.set_mode(_PROBE, "IMPORT")
            possible = await self._target.mode(_PROBE) == "IMPORT"
            await self._target.clear_mode(_PROBE)
        except RegistryRefusedError:
            return "translated"
        return "same" if possible else "translated"

    async def _mirror_new(self, mirror: SchemaMirror) -> list[SubjectVersion]:
        """Look for the ids that come next, and now and then for subjects that are new."""
        before = len(mirror.mirrored)
        self._look_at(mirror)
        newest = self._newest_id
        for schema_id in range(newest + 1, newest + 1 + _IDS_AHEAD):
            await mirror.mirror_id(schema_id, DEFAULT_CONTEXT, needed=False)
        if self._has_contexts or time.monotonic() - self._listed_s >= _LIST_EVERY_S:
            self._listed_s = time.monotonic()
            fresh = await mirror.new_subjects()
            if fresh:
                await mirror.mirror_subjects(fresh)
        done = list(mirror.mirrored)[before:] if len(mirror.mirrored) > before else []
        self._changed |= bool(done)
        return done

    def _look_at(self, mirror: SchemaMirror) -> None:
        """Find out which id is the newest, where there are more schemas than before."""
        if len(mirror.schemas) != self._counted:
            self._counted = len(mirror.schemas)
            contexts = {at.subject.context for at in mirror.schemas}
            self._has_contexts = bool(contexts - {DEFAULT_CONTEXT})
            here = (one.id for at, one in mirror.schemas.items() if at.subject.context == DEFAULT_CONTEXT)
            self._newest_id = max(here, default=0)

    async def _publish(self, mirror: SchemaMirror) -> None:
        """Write what is new of ids to the topic; a schema that is there under another id by now is a problem."""
        entries: dict[int | bytes, SchemaIdEntry] = {}
        for at, target in mirror.mirrored.items():
            source, given = mirror.schemas[at], (target.id, target.guid)
            if self._published.get(at) == given:
                continue
            self._published[at] = given
            # Ids of another context are other schemas' in the default one; a GUID is the same schema's in all of them.
            if at.subject.context == DEFAULT_CONTEXT and source.id not in entries:
                known = self._topic.ids.get(source.id)
                if known is None:
                    entries[source.id] = IdTranslation(source.id, target.id)
                elif known != target.id:
                    await self._compare_ids(mirror, at, known)
            if source.guid is not None and target.guid is not None and self._topic.guids.get(source.guid) is None:
                entries.setdefault(source.guid, GuidTranslation(source.guid, target.guid))
        await self._topic.write(entries.values())
        self._changed = False

    async def _compare_ids(self, mirror: SchemaMirror, at: SubjectVersion, known: int) -> None:
        source, target = mirror.schemas[at], mirror.mirrored[at]
        there = await self._target.by_id(known, target.at.subject.context)
        if there is not None and there.text_content == target.schema.text_content:
            self._id_problems.pop(source.id, None)
            return
        what = "another schema" if there is not None else "no schema"
        self._id_problems[source.id] = (
            f"{at}, id {source.id} on the source, had id {known} on the target, which is {what} there now: was the "
            f"target's registry restored from an old backup? It has id {target.id} since; records that were copied "
            f"before can't be read, and further ones would get id {known}: restore the registry's latest state"
        )

    def _tell(self, done: Collection[SubjectVersion]) -> None:
        if done:
            first = ", ".join(map(str, sorted(done)[:3]))
            self._report("info", f"schemas mirrored: {len(done)} ({first}{', ...' if len(done) > 3 else ''})")
