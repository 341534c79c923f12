"""Looks the schemas of compared records up on both sides: whether an id means the same on the target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Literal, TypeAlias

from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings, RegistrySettings
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.model.names import FlowName
from mirror_ray.model.policy import load_policy
from mirror_ray.records.schema_id_records import SCHEMA_FIELDS, SchemaField
from mirror_ray.registry.client import RegistryClient
from mirror_ray.registry.comparison import both
from mirror_ray.registry.registry import SchemaRegistry
from mirror_ray.registry.schema import DEFAULT_CONTEXT, Schema, SubjectVersion
from mirror_ray.registry.together import pieces
from mirror_ray.transforms.framing import Framing
from mirror_ray.transforms.met_schemas import MOST_MET, NOTHING_MET, MetSchemas, SchemasWanted
from mirror_ray.transforms.schema_ids import SchemaIdMap, SchemaIdRules
from mirror_ray.verification.job import CompareJob
from mirror_ray.verification.topic_schemas import DifferentSchema, TopicSchemas

_Found: TypeAlias = DifferentSchema | Literal["same", "unknown"]


def check_registries(settings: MirrorSettings, flow: FlowName) -> tuple[RegistrySettings, RegistrySettings]:
    """The registries of both sides of a flow.

    Raises:
        ConfigError: A side has none, or there is no such flow.
    """
    settings.flow(flow)
    clusters = [settings.clusters[alias] for alias in (flow.source, flow.target)]
    missing = [f"{cluster.alias}.schema.registry.url" for cluster in clusters if cluster.registry is None]
    if missing:
        raise ConfigError(f"flow {flow}: --schemas compares two schema registries: set {' and '.join(missing)}")
    source, target = map(_registry, clusters)
    return source, target


def _registry(cluster: ClusterSettings) -> RegistrySettings:
    if cluster.registry is None:
        raise ConfigError(f"cluster {cluster.alias} has no schema registry: set {cluster.alias}.schema.registry.url")
    return cluster.registry


class SchemaCheck:
    """Checks the schemas of one flow; ``schema_check`` makes it."""

    def __init__(self, flow: FlowSettings, known: SchemaIdMap, source: SchemaRegistry, target: SchemaRegistry) -> None:
        """``known``: what schema ids became, and which fields have any, as far as the flow has decided."""
        policy = load_policy(flow.policy, flow.name.source)
        self._rules = SchemaIdRules(
            known,
            flow.schemas.topics,
            flow.schemas.topics_exclude,
            lambda topic: policy.is_internal_topic(topic) or policy.is_heartbeats_topic(topic),
        )
        self._known = known
        context = flow.schemas.contexts_map.get(DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        self._source, self._target = _Contents(source, DEFAULT_CONTEXT), _Contents(target, context)
        self._found: dict[int | bytes, _Found] = {}
        #: Whether the source has what looks like an id.
        self._exists: dict[int, bool] = {}
        #: Why a registry could not be asked.
        self._problem: str | None = None

    async def wanted(self, jobs: Sequence[CompareJob]) -> list[CompareJob]:
        """The jobs with what is to be looked for in their records."""
        subjects: frozenset[str] = frozenset()
        try:
            subjects = frozenset(subject.name for subject in await self._source.registry.subjects())
        except MirrorError as error:
            self._problem = str(error)
        return [replace(job, schemas=self._wanted(job, subjects)) for job in jobs]

    def _wanted(self, job: CompareJob, subjects: Collection[str]) -> SchemasWanted:
        topic = job.source.topic
        ids = self._rules.of(topic)

        def framing(field: SchemaField) -> Framing:
            decided: Framing = "plain" if ids is None else ids.framing(field)
            return "framed" if decided == "undecided" and f"{topic}-{field}" in subjects else decided

        return SchemasWanted(
            key=framing("key"),
            value=framing("value"),
            span=(job.begin.source, job.end.source),
            leave_out=tuple((skipped.source_from, skipped.source_to) for skipped in job.skipped_ranges),
        )

    async def topics(self, jobs: Sequence[CompareJob], met: Mapping[str, MetSchemas]) -> list[TopicSchemas]:
        """Compare what was met in the records of each source topic; a registry that does not answer is told there."""
        try:
            if self._problem is None:
                await self._ask(met.values())
        except MirrorError as error:
            self._problem = str(error)
        remotes = {job.source.topic: job.target.topic for job in jobs}
        return [self._topic(topic, remote, met.get(topic, NOTHING_MET)) for topic, remote in remotes.items()]

    async def _ask(self, met: Collection[MetSchemas]) -> None:
        candidates = {schema for one in met for _, schema in one.candidates}
        for some in pieces(list(candidates)):
            there = await asyncio.gather(*map(self._source.find, some))
            self._exists |= {schema: one is not None for schema, one in zip(some, there, strict=True)}
        for schemas in pieces(list({schema for one in met for schema in one.schemas})):
            compared = await asyncio.gather(*map(self._compare, schemas))
            self._found |= dict(zip(schemas, compared, strict=True))

    async def _compare(self, schema: int | bytes) -> _Found:
        became = self._known.ids.get(schema) if isinstance(schema, int) else self._known.guids.get(schema)
        target = schema if became is None else became
        mine, theirs = await asyncio.gather(self._source.find(schema), self._target.find(target))
        if mine is None:
            return "unknown"
        if theirs is None:
            return DifferentSchema(schema, target)
        if await self._source.content(mine) == await self._target.content(theirs):
            return "same"
        alike = " (what they refer to differs)" if mine.text_content == theirs.text_content else ""
        return DifferentSchema(schema, target, both(mine, theirs) + alike)

    def _topic(self, topic: str, remote: str, met: MetSchemas) -> TopicSchemas:
        found = {schema: self._found[schema] for schema in sorted(met.schemas, key=_order) if schema in self._found}
        differing = [one for one in found.values() if isinstance(one, DifferentSchema)]
        return TopicSchemas(
            topic=topic,
            target_topic=remote,
            met=len(met.schemas),
            missing=[one for one in differing if one.texts is None],
            different=[one for one in differing if one.texts is not None],
            unknown=[schema for schema, one in found.items() if one == "unknown"],
            reasons=tuple(self._reasons(topic, met)),
        )

    def _reasons(self, topic: str, met: MetSchemas) -> Iterator[str]:
        """Why not all was compared."""
        unasked = any(schema not in self._exists for _, schema in met.candidates)
        if self._problem is not None and (unasked or not met.schemas <= self._found.keys()):
            yield self._problem
        for field in SCHEMA_FIELDS:
            seen = [schema for its, schema in sorted(met.candidates) if its == field and self._exists.get(schema)]
            if seen:
                yield (
                    f"a {field} of {topic} begins as one with schema id {seen[0]}, which the source's registry has, "
                    f"but there is no subject {topic}-{field}: name the topic in schemas.topics, or in "
                    "schemas.topics.exclude if its records have no schemas"
                )
        if met.overflowed:
            yield f"more than {MOST_MET:,} schema ids are in the records of a partition; the others were not looked up"


def _order(schema: int | bytes) -> tuple[bool, int | bytes]:
    """Ids before GUIDs."""
    return isinstance(schema, bytes), schema


class _Contents:
    """The schemas of one registry with all that they refer to."""

    def __init__(self, registry: SchemaRegistry, context: str) -> None:
        self.registry, self._context = registry, context
        self._versions: dict[SubjectVersion, object] = {}

    async def find(self, schema: int | bytes) -> Schema | None:
        """What has an id or a GUID; None: nothing."""
        if isinstance(schema, int):
            return await self.registry.by_id(schema, self._context)
        known = await self.registry.ids_of_guid(schema)
        return await self.registry.by_id(known[0][1], known[0][0]) if known else None

    async def content(self, schema: Schema, above: frozenset[SubjectVersion] = frozenset()) -> object:
        """Equal for two schemas that mean the same, whatever the subjects are named that they refer to."""
        references = [(one.name, await self._content_at(one.to, above)) for one in schema.references]
        return schema.text_content, sorted(references, key=lambda named: named[0])

    async def _content_at(self, at: SubjectVersion, above: frozenset[SubjectVersion]) -> object:
        if at in above:
            # In a circle, which registries don't take.
            return None
        if at not in self._versions:
            found = await self.registry.schema(at) or await self.registry.schema(at, deleted=True)
            self._versions[at] = None if found is None else await self.content(found.schema, above | {at})
        return self._versions[at]


@asynccontextmanager
async def schema_check(settings: MirrorSettings, flow: FlowSettings, known: SchemaIdMap) -> AsyncIterator[SchemaCheck]:
    """Prepare to ask both registries of a flow. Raises as ``check_registries``."""
    registries, client_id = check_registries(settings, flow.name), f"{flow.name}|mirror-ray|verify"
    async with AsyncExitStack() as stack:
        source, target = [
            SchemaRegistry(await stack.enter_async_context(RegistryClient(alias, registry, client_id=client_id)))
            for alias, registry in zip((flow.name.source, flow.name.target), registries, strict=True)
        ]
        yield SchemaCheck(flow, known, source, target)
