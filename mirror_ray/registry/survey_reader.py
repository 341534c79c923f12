"""Reads both registries of a flow, and what was decided of its ids, for ``plan`` and ``drift``. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, protocol_error
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader, keep_latest
from mirror_ray.model.errors import reached
from mirror_ray.model.internal_topics import schemas_topic
from mirror_ray.records.decode import DecodedRecord
from mirror_ray.records.schema_id_records import SCHEMA_FIELDS, IdsDecision, IdsWay, IdTranslation, decode
from mirror_ray.registry.client import RegistryRefusedError
from mirror_ray.registry.comparison import Found
from mirror_ray.registry.opening import open_registry
from mirror_ray.registry.registry import SchemaRegistry, by_subject
from mirror_ray.registry.schema import DEFAULT_CONTEXT, RegisteredSchema, Schema, Subject, SubjectVersion
from mirror_ray.registry.subject_rules import subject_rules
from mirror_ray.registry.subjects import SubjectRules
from mirror_ray.registry.survey import (
    ContextId,
    RegistryFacts,
    SchemaSurvey,
    StrayId,
    SubjectLevels,
    SurveyedVersion,
    doubtful_ids,
    ids_outlook,
    ids_to_ask,
    stray_ids,
    survey_versions,
    to_look_up,
)
from mirror_ray.registry.together import each

_PATIENCE_S: Final = 30.0


async def survey_flow(
    settings: MirrorSettings, flow: FlowSettings, client_id: str, *, topics: Collection[str] = (), levels: bool = True
) -> SchemaSurvey:
    """Compare the registries of a flow that syncs schemas.

    Args:
        settings: Those of the flow's clusters.
        flow: The flow.
        client_id: Names us to clusters and registries.
        topics: Only subjects that are named after these source topics, with what they refer to; empty: all.
        levels: Whether levels of compatibility are asked for.

    Raises:
        ClusterUnreachableError: A registry, or the target, does not answer; of both registries the text names both.
        MirrorError: A registry answers with something else, or the topic of ids can't be read.
    """
    async with AsyncExitStack() as stack:
        source, target = [
            await stack.enter_async_context(open_registry(settings.clusters[alias], client_id))
            for alias in (flow.name.source, flow.name.target)
        ]
        global_levels = reached(
            await asyncio.gather(source.global_compatibility(), target.global_compatibility(), return_exceptions=True)
        )
        return await _Reading(source, target, subject_rules(flow)).survey(
            await read_schema_ids(settings.clusters[flow.name.target], flow, client_id),
            wanted=None if flow.schemas.ids == "auto" else flow.schemas.ids,
            names={f"{topic}-{side}" for topic in topics for side in SCHEMA_FIELDS},
            global_levels=global_levels if levels else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIdFindings:
    """What the flow's topic on the target says."""

    way: IdsWay | None = None
    translations: Mapping[int, int | None] = field(default_factory=dict)


async def read_schema_ids(cluster: ClusterSettings, flow: FlowSettings, client_id: str) -> SchemaIdFindings:
    """Read the flow's topic on its target; nothing, where there is none yet.

    Raises:
        ClusterUnreachableError, MirrorError: It can't be read now.
    """
    topic, target = schemas_topic(flow.name.source), ClusterConnections(cluster, client_id)
    latest: dict[bytes, DecodedRecord] = {}
    try:
        code = (await target.refresh([topic])).topics[topic].error_code
        if code == UNKNOWN_TOPIC_OR_PARTITION:
            return SchemaIdFindings()
        if code:
            raise protocol_error(code, f"read topic {topic}")
        async for chunk in InternalTopicReader(target, topic).to_end(_PATIENCE_S):
            if chunk.restarted:
                latest.clear()
            keep_latest(latest, chunk.records)
    finally:
        await target.close()
    entries = [decode(*record.fields()[:2]) for record in latest.values()]
    return SchemaIdFindings(
        way=next((entry.ids for entry in entries if isinstance(entry, IdsDecision)), None),
        translations={entry.source: entry.target for entry in entries if isinstance(entry, IdTranslation)},
    )


class _Reading:
    """Both registries of a flow, once."""

    def __init__(self, source: SchemaRegistry, target: SchemaRegistry, rules: SubjectRules) -> None:
        self._source, self._target, self._rules = source, target, rules

    async def survey(
        self,
        decided: SchemaIdFindings,
        *,
        wanted: IdsWay | None,
        names: Collection[str],
        global_levels: Sequence[str | None] | None,
    ) -> SchemaSurvey:
        """``names``: of subjects, empty: all. ``global_levels``: of both sides; None: levels are not asked for."""
        there, schemas = await asyncio.gather(self._target.subjects(), self._chosen(names))
        ids = ids_outlook(wanted, decided.way, there)
        way = ids.way or "translated"
        subjects = {subject: self._rules.target(subject) for subject in {at.subject for at in schemas}}
        facts = RegistryFacts(way=way, source=schemas, subjects=subjects, target={})
        facts = await self._target_facts(facts, empty=not there)
        facts, versions = await self._settled(facts)
        translations = decided.translations
        if names:
            of_names = {schema.id for schema in schemas.values()}
            translations = {one: became for one, became in translations.items() if one in of_names}
        return SchemaSurvey(
            ids=ids,
            versions=versions,
            levels=await self._levels(versions, *global_levels) if global_levels is not None else (),
            strays=await self._strays(doubtful_ids(translations, versions, way), versions),
        )

    async def _chosen(self, names: Collection[str]) -> dict[SubjectVersion, RegisteredSchema]:
        """The source's versions that are mirrored, and those that they refer to."""

        def is_chosen(subject: Subject) -> bool:
            return self._rules.mirrors(subject) and (not names or subject.name in names)

        listed = await self._source.listed()
        if listed is None:
            histories = await _histories(self._source, filter(is_chosen, await self._source.subjects()))
            listed = [schema for history in histories.values() for schema in history]
        known = {schema.at: schema for schema in listed}
        found = {at: schema for at, schema in known.items() if is_chosen(at.subject)}
        asked = set(found)

        async def read(at: SubjectVersion) -> RegisteredSchema | None:
            return known.get(at) or await self._source.schema(at) or await self._source.schema(at, deleted=True)

        while True:
            referenced = {one.to for schema in found.values() for one in schema.schema.references} - asked
            answers = await each((at for at in referenced if self._rules.may_mirror(at.subject)), read)
            asked |= referenced
            if not answers:
                return found
            found |= {at: schema for at, schema in answers.items() if schema is not None}

    async def _target_facts(self, facts: RegistryFacts, *, empty: bool) -> RegistryFacts:
        """``empty``: the target has no subject."""
        listed = [] if empty else await self._target.listed()
        if listed is None:
            return replace(facts, target=await _histories(self._target, set(facts.subjects.values())))
        ids: dict[ContextId, Schema | None] = {
            ContextId(facts.subjects[at.subject].context, schema.id): None for at, schema in facts.source.items()
        }
        ids |= {ContextId(schema.at.subject.context, schema.id): schema.schema for schema in listed}
        return replace(facts, target=by_subject(listed), target_ids=ids)

    async def _settled(self, facts: RegistryFacts) -> tuple[RegistryFacts, list[SurveyedVersion]]:
        """Ask the target for what its versions alone don't tell."""
        while True:
            versions = survey_versions(facts)
            schemas, ids = to_look_up(facts, versions), ids_to_ask(facts, versions)
            if not schemas and not ids:
                return facts, versions
            looked_up = await each(schemas, partial(self._look_up, facts, schemas))
            target_ids = await each(ids, lambda one: self._target.by_id(one.id, one.context))
            facts = replace(
                facts, looked_up={**facts.looked_up, **looked_up}, target_ids={**facts.target_ids, **target_ids}
            )

    async def _look_up(
        self, facts: RegistryFacts, schemas: Mapping[SubjectVersion, Schema], at: SubjectVersion
    ) -> RegisteredSchema | None:
        subject = facts.subjects[at.subject]
        try:
            found = await self._target.lookup(subject, schemas[at])
        except RegistryRefusedError:
            # It takes no such schema, so that it has none.
            return None
        if found is None:
            return None
        same = (one for one in facts.target[subject] if one.at.version == found.at.version)
        return next(same, replace(found, at=SubjectVersion(subject, found.at.version)))

    async def _levels(
        self, versions: Iterable[SurveyedVersion], source_level: str | None, target_level: str | None
    ) -> list[SubjectLevels]:
        async def read(pair: tuple[Subject, Subject]) -> SubjectLevels:
            source, target = pair
            here, there = await asyncio.gather(self._source.compatibility(source), self._target.compatibility(target))
            return SubjectLevels(
                source=source, target=target, on_source=here or source_level, on_target=there or target_level
            )

        there = {(one.source.at.subject, one.target) for one in versions if isinstance(one.verdict, Found)}
        return list((await each(sorted(there), read)).values())

    async def _strays(self, doubtful: Mapping[int, int], versions: Iterable[SurveyedVersion]) -> list[StrayId]:
        schemas: dict[int, list[Schema]] = {}
        contexts: dict[int, str] = {}
        for one in versions:
            if one.source.at.subject.context == DEFAULT_CONTEXT and one.source.id in doubtful:
                on_target = [one.verdict.target.schema] if isinstance(one.verdict, Found) else []
                schemas.setdefault(one.source.id, []).extend([one.source.schema, *on_target])
                contexts[one.source.id] = one.target.context
        usual = self._rules.contexts.get(DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        there = await each(doubtful, lambda one: self._target.by_id(doubtful[one], contexts.get(one, usual)))
        unknown = [one for one, schema in there.items() if schema is not None and one not in schemas]
        asked = await each(unknown, lambda one: self._source.by_id(one, DEFAULT_CONTEXT))
        schemas |= {one: [schema] for one, schema in asked.items() if schema is not None}
        return stray_ids(doubtful, schemas, there)


async def _histories(registry: SchemaRegistry, subjects: Iterable[Subject]) -> dict[Subject, list[RegisteredSchema]]:
    """The versions of subjects; none of those that are not there."""

    async def read(subject: Subject) -> list[RegisteredSchema]:
        return await registry.versions(subject, await registry.contents(subject))

    return await each(subjects, read)
