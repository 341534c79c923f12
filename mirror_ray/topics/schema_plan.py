"""What starting a flow would do in its target's schema registry."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.comparison import Conflict, Found, Missing
from mirror_ray.registry.survey import Refused, SchemaSurvey


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    """A flow's schemas, before it starts. Versions are those of the source that it mirrors, soft-deleted ones too."""

    #: How ids are copied; None: it is decided when the flow begins.
    ids: IdsWay | None
    #: What decided it, or will.
    ids_why: str
    subjects: int
    versions: int
    #: Versions that the target has.
    there: int
    #: Versions that would be registered, and the subjects of the source that they are of.
    to_register: int
    to_register_subjects: int
    #: Versions that are soft-deleted on the source; those that are so on one side alone, though both have them.
    deleted: int
    deleted_on_one_side: int
    #: What can't be registered, and ids that are not their schema's any more: a sentence each.
    refused: tuple[str, ...] = ()


def plan_schemas(survey: SchemaSurvey) -> SchemaPlan:
    """The plan by what both registries have."""
    versions = survey.versions
    missing = [one.source.at for one in versions if isinstance(one.verdict, Missing)]
    conflicts = [(one.source.at, one.verdict) for one in versions if isinstance(one.verdict, Conflict | Refused)]
    return SchemaPlan(
        ids=survey.ids.way,
        ids_why=survey.ids.why,
        subjects=len({one.source.at.subject for one in versions}),
        versions=len(versions),
        there=sum(isinstance(one.verdict, Found) for one in versions),
        to_register=len(missing),
        to_register_subjects=len({at.subject for at in missing}),
        deleted=sum(one.source.deleted for one in versions),
        deleted_on_one_side=sum(one.deleted_on is not None for one in versions),
        refused=(*(f"schema {at}: {verdict.text}" for at, verdict in conflicts), *map(str, survey.strays)),
    )
