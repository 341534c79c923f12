"""The drift of a target's schema registry from the source's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mirror_ray.registry.comparison import Conflict, Found, Missing
from mirror_ray.registry.survey import Refused, SchemaSurvey, StrayId, SubjectLevels, SurveyedVersion
from mirror_ray.topics.drift import DriftFinding, Remedies

#: Schemas belong to no topic.
_NO_TOPIC: Final = "-"


def find_schema_drift(survey: SchemaSurvey, remedies: Remedies) -> tuple[DriftFinding, ...]:
    """What the target's registry lacks or has otherwise; levels of compatibility are added to ``remedies``."""
    differ = [level for level in survey.levels if level.differ]
    remedies.levels += differ
    return (
        *(finding for version in survey.versions for finding in _of_version(version)),
        *map(_of_level, differ),
        *map(_of_id, survey.strays),
    )


def _of_version(version: SurveyedVersion) -> Iterator[DriftFinding]:
    source = version.source
    expected = f"{source.at}, id {source.id}"
    match version.verdict:
        case Missing():
            yield _finding(str(version.target), expected, None, "the running flow registers it")
        case Conflict(text):
            yield _finding(str(version.target), expected, "something else", text)
        case Refused(text):
            yield _finding(str(version.target), expected, None, text)
        case Found(target) if version.deleted_on == "source":
            advice = "the running flow soft-deletes it when it compares all, if the target lets it"
            yield _finding(str(target.at), "soft-deleted", "there", advice)
        case Found(target) if version.deleted_on == "target":
            advice = "the flow leaves it so: register it there again, or soft-delete it on the source"
            yield _finding(str(target.at), "there", "soft-deleted", advice)
        case _:
            pass


def _of_level(level: SubjectLevels) -> DriftFinding:
    return DriftFinding(
        kind="schema",
        remote_topic=_NO_TOPIC,
        what=f"compatibility of {level.target}",
        expected=level.on_source,
        found=level.on_target,
        remedy=f"set {level.on_source}",
        advice="the running flow sets it when it compares all",
    )


def _of_id(stray: StrayId) -> DriftFinding:
    return _finding(
        f"id {stray.target_id}", f"the schema of id {stray.source_id} on the source", stray.found, str(stray)
    )


def _finding(what: str, expected: str, found: str | None, advice: str) -> DriftFinding:
    return DriftFinding(kind="schema", remote_topic=_NO_TOPIC, what=what, expected=expected, found=found, advice=advice)
