"""What a plan asks of schema registries, and changes there: whether schemas are on the other side, and mode IMPORT."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.failover.clusters import FailoverClusters
from mirror_ray.failover.messages import NAMED, StepOutcome, names
from mirror_ray.failover.plan import FailoverOptions
from mirror_ray.model.errors import MirrorError
from mirror_ray.registry.comparison import Found, Missing
from mirror_ray.registry.import_end import ImportEnd, end_imports
from mirror_ray.registry.opening import open_registry
from mirror_ray.registry.recorded_changes import RecordedChanges
from mirror_ray.registry.schema import DEFAULT_CONTEXT, Subject
from mirror_ray.registry.subject_rules import subject_rules
from mirror_ray.registry.survey import SchemaSurvey
from mirror_ray.registry.survey_reader import SchemaIdFindings, read_schema_ids, survey_flow
from mirror_ray.registry.together import each

#: A plan waits no longer for what it only tells.
_SURVEY_S: Final = 60.0


class SchemaHandover:
    """The registries of the flow ahead: that of the cluster which groups leave, and that of the one that they go to."""

    def __init__(self, clusters: FailoverClusters, settings: MirrorSettings, options: FailoverOptions) -> None:
        self._clusters, self._settings, self._options = clusters, settings, options
        self._client_id = f"{clusters.flow.name}|mirror-ray|{clusters.kind}"

    @property
    def _flow(self) -> FlowSettings | None:
        """The flow that has mirrored schemas to where groups go; None: none has."""
        clusters = self._clusters
        return clusters.ahead if clusters.is_copied and clusters.ahead.syncs_schemas else None

    async def checked(self, done: StepOutcome) -> StepOutcome:
        """A step's outcome, and whether the schemas are where groups go. That blocks nothing: see docs/schemas.md."""
        # A flow that is to be reversed has copied nothing yet.
        if self._flow is None or self._clusters.is_reversed:
            return done
        where = self._clusters.destination.settings.alias
        try:
            async with asyncio.timeout(_SURVEY_S):
                text, figures = await self._survey(self._flow)
        except TimeoutError:
            text, figures = f"its registry did not say within {_SURVEY_S:g} s which schemas it has", {}
        except (OSError, MirrorError) as error:
            text, figures = f"which schemas it has is not known: {error}", {}
        return done._replace(
            summary=f"{done.summary}; schemas on {where}: {text}", figures={**done.figures, "schemas": figures}
        )

    async def _survey(self, flow: FlowSettings) -> tuple[str, dict[str, Any]]:
        if not self._options.source_is_gone:
            return survey_text(await survey_flow(self._settings, flow, self._client_id, levels=False))
        cluster = self._settings.clusters[flow.name.target]
        known = await read_schema_ids(cluster, flow, self._client_id)
        context = flow.schemas.contexts_map.get(DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        ids = {one for one in known.translations.values() if one is not None}
        async with open_registry(cluster, self._client_id) as registry:
            there = await each(sorted(ids), lambda one: registry.by_id(one, context))
        lost = [one for one, schema in there.items() if schema is None]
        text = f"{len(there) - len(lost)} of the {len(there)} ids that records may have"
        text += f"; none of id {names([*map(str, lost)])}: records with them can't be read" if lost else ""
        return text, {"ids": len(there), "lost_ids": lost[:NAMED]}

    async def hand_over(self, *, dry: bool) -> tuple[list[str], dict[str, Any]]:
        """Let producers register where groups go, once nothing is mirrored there any more; lines and figures.

        A wave leaves modes alone: its flow goes on.

        Raises:
            MirrorError: That can't be done now, and ``force`` does not go on without; the same call goes on.
        """
        flow = self._flow
        if flow is None:
            return [], {}
        try:
            if self._clusters.scope.is_wave:
                return await self._wave_lines(flow), {}
            found = await self._end_imports(flow, dry=dry)
        except (OSError, MirrorError) as error:
            if not self._options.force and not dry:
                raise MirrorError(
                    f"mode IMPORT of schemas on {flow.name.target} can't be ended: {error}; run this again, or go on"
                    " without by --force: then new schemas can't be registered there under mirrored subjects"
                ) from error
            return [f"Schemas: mode IMPORT on {flow.name.target} is not ended: {error}."], {}
        return import_lines(found, flow, dry=dry), import_figures(found)

    async def _way(self, flow: FlowSettings) -> tuple[str, SchemaIdFindings]:
        known = await read_schema_ids(self._settings.clusters[flow.name.target], flow, self._client_id)
        return known.way or flow.schemas.ids, known

    async def _wave_lines(self, flow: FlowSettings) -> list[str]:
        if self._clusters.kind == "failback" or (await self._way(flow))[0] != "same":
            return []
        text = f"Schemas: {flow.name} goes on, and mirrored subjects on {flow.name.target} stay in mode IMPORT:"
        return [f"{text} register new schemas on {flow.name.source}, also those of producers that have moved."]

    async def _end_imports(self, flow: FlowSettings, *, dry: bool) -> ImportEnd:
        clusters, name = self._settings.clusters, flow.name
        way, known = await self._way(flow)
        if way != "same":
            return ImportEnd()
        others = (one for one in self._settings.flows if one.enabled and one.syncs_schemas and one.name.is_live)
        alone = all(one.name == name or one.name.target != name.target for one in others)
        async with AsyncExitStack() as stack:
            source, target = [
                await stack.enter_async_context(open_registry(clusters[alias], self._client_id))
                for alias in (name.source, name.target)
            ]
            return await end_imports(
                None if self._options.source_is_gone else source,
                target,
                subject_rules(flow),
                RecordedChanges(target, self._clusters.audit_log),
                known_ids={one for one in known.translations.values() if one is not None},
                alone=alone,
                dry=dry,
            )


def survey_text(found: SchemaSurvey) -> tuple[str, dict[str, Any]]:
    """A text and figures for a step."""
    there = [one for one in found.versions if isinstance(one.verdict, Found)]
    missing = [str(one.source.at) for one in found.versions if isinstance(one.verdict, Missing)]
    refused = [(str(one.source.at), text) for one in found.versions if (text := getattr(one.verdict, "text", ""))]
    figures: dict[str, Any] = {
        "versions": len(found.versions),
        "there": len(there),
        "missing": missing[:NAMED],
        "conflicts": dict(refused[:NAMED]),
        "stray_ids": [one.source_id for one in found.strays][:NAMED],
    }
    text = f"{len(there)} of {len(found.versions)} versions"
    text += f"; not there yet: {names(missing)}" if missing else ""
    text += f"; can't be there: {names([at for at, _ in refused])}: {refused[0][1]}" if refused else ""
    text += f"; {found.strays[0]}" if found.strays else ""
    return text, figures


def import_lines(found: ImportEnd, flow: FlowSettings, *, dry: bool) -> list[str]:
    """What operators are told of mode IMPORT, at the end of a plan."""
    where, lines = flow.name.target, []
    if found.ended:
        what = f"{len(found.ended)} subjects on {where} ({names([*map(str, found.ended)])})"
        lines.append(f"Schemas: {what} {'would be' if dry else 'are'} in mode IMPORT no longer.")
    if found.source_problem is not None and found.ended:
        lines.append(
            f"Their modes on {flow.name.source} are not known, so that they have none: {found.source_problem}."
        )
    if found.left:
        left = names([*map(str, found.left)])
        lines.append(f"In mode IMPORT on {where}, and left so, since {flow.name} is not known to mirror them: {left}.")
    if (found.ended or found.left) and found.global_mode not in {None, "READWRITE"}:
        lines.append(f"The global mode of {where}'s registry is {found.global_mode}: new schemas may be refused there.")
    return lines


def import_figures(found: ImportEnd) -> dict[str, Any]:
    """The same for a step's figures."""
    if not found.ended and not found.left:
        return {}
    shown: Mapping[Subject, Any] = dict(list(found.ended.items())[:NAMED])
    modes = {str(subject): mode for subject, mode in shown.items()}
    return {"import_ended": {"subjects": len(found.ended), "modes": modes, "left": [*map(str, found.left)][:NAMED]}}
