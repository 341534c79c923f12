"""What a flow's registries have, compared: what the target has already, what it lacks, and what it can't be given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Final, Literal, NamedTuple, TypeAlias

from mirror_ray.records.schema_id_records import IdsWay
from mirror_ray.registry.comparison import Comparison, Conflict, Found, Lineage, Missing, compare, id_taken, renamed
from mirror_ray.registry.order import registration_order
from mirror_ray.registry.schema import DEFAULT_CONTEXT, RegisteredSchema, Schema, Subject, SubjectVersion

#: The version of what is not on the target: nothing there refers to it.
_NOWHERE: Final = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """It can't be registered, whatever the target has in its place; the text says why."""

    text: str


Verdict: TypeAlias = Comparison | Refused


class ContextId(NamedTuple):
    """An id of a schema: each context has its own."""

    context: str
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdsOutlook:
    """How ids are copied, or will be; ``way`` None: the schema sync decides it when it begins. ``why`` says by what."""

    way: IdsWay | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFacts:
    """What both registries of a flow say."""

    way: IdsWay
    #: Every version that is to be on the target, with what it refers to.
    source: Mapping[SubjectVersion, RegisteredSchema]
    #: The subjects of these on the target.
    subjects: Mapping[Subject, Subject]
    #: What the target's subjects have; those without any may be left out.
    target: Mapping[Subject, Sequence[RegisteredSchema]]
    #: What the target finds for source versions by its own comparison, which may be another text; None: nothing.
    looked_up: Mapping[SubjectVersion, RegisteredSchema | None] = field(default_factory=dict)
    #: Schemas of the target by their ids, as far as it was asked; None: it has none.
    target_ids: Mapping[ContextId, Schema | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedVersion:
    """A version of a source subject, and what became of it."""

    source: RegisteredSchema
    #: Its subject on the target.
    target: Subject
    verdict: Verdict
    #: Where it is soft-deleted, if it is so on one side alone.
    deleted_on: Literal["source", "target"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectLevels:
    """The compatibility levels that hold for a subject on both sides; None: the registry says none."""

    source: Subject
    target: Subject
    on_source: str | None
    on_target: str | None

    @property
    def differ(self) -> bool:
        """Whether the target's is not what the source says."""
        return self.on_source is not None and self.on_source != self.on_target


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayId:
    """An id that records on the target have, and that is not their schema's there any more."""

    source_id: int
    target_id: int
    #: ``another``: another schema has it; ``none``: none has.
    now: Literal["another", "none"]

    @property
    def found(self) -> str:
        """What the target has."""
        return "another schema" if self.now == "another" else "no schema"

    def __str__(self) -> str:
        return (
            f"id {self.source_id} on the source became id {self.target_id}, which is {self.found} there now: was the "
            "target's registry restored from an old backup? Records that were copied before can't be read, and further "
            "ones get that id: restore the registry's latest state"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSurvey:
    """Both registries of a flow, compared. Nothing has been changed."""

    ids: IdsOutlook
    versions: Sequence[SurveyedVersion] = ()
    #: Of subjects that the target has something of.
    levels: Sequence[SubjectLevels] = ()
    strays: Sequence[StrayId] = ()


def ids_outlook(wanted: IdsWay | None, decided: IdsWay | None, target_subjects: Collection[Subject]) -> IdsOutlook:
    """Foretell how ids are copied, as far as that can be without trying modes.

    Args:
        wanted: What the settings say; None: they leave it to the target.
        decided: What holds since the flow began; None: it did not.
        target_subjects: Those that the target has, soft-deleted ones too.
    """
    if wanted is not None:
        before = f"; it was {decided} before" if decided not in (None, wanted) else ""
        return IdsOutlook(way=wanted, why=f"set{before}")
    if decided is not None:
        return IdsOutlook(way=decided, why="decided when the flow began")
    if target_subjects:
        return IdsOutlook(way="translated", why="the target's registry has subjects")
    why = "same if the target's registry, which is empty, takes mode IMPORT; else translated"
    return IdsOutlook(way=None, why=f"decided when the flow begins: {why}")


def survey_versions(facts: RegistryFacts) -> list[SurveyedVersion]:
    """Say of each source version what became of it, in the order of subjects and versions."""
    histories: dict[Subject, list[RegisteredSchema]] = {}
    for at in sorted(facts.source):
        histories.setdefault(at.subject, []).append(facts.source[at])
    verdicts = _verdicts(facts, histories)
    return [
        SurveyedVersion(
            source=source,
            target=facts.subjects[subject],
            verdict=verdicts[source.at],
            deleted_on=_deleted_on(source, verdicts[source.at], history, facts),
        )
        for subject, history in histories.items()
        for source in history
    ]


def to_look_up(facts: RegistryFacts, surveyed: Sequence[SurveyedVersion]) -> dict[SubjectVersion, Schema]:
    """Versions that the target may have by another text, each as it would be there: it is to be asked for them."""
    if facts.way == "same":
        return {}
    verdicts = {one.source.at: one.verdict for one in surveyed}
    return {
        one.source.at: _wanted(one.source, verdicts, facts)
        for one in surveyed
        if isinstance(one.verdict, Missing)
        if facts.target.get(one.target)
        if one.source.at not in facts.looked_up
        if all(isinstance(verdicts[reference.to], Found) for reference in one.source.schema.references)
    }


def ids_to_ask(facts: RegistryFacts, surveyed: Sequence[SurveyedVersion]) -> set[ContextId]:
    """Ids that the target may have given to others already."""
    if facts.way == "translated":
        return set()
    missing = (one for one in surveyed if isinstance(one.verdict, Missing))
    return {ContextId(one.target.context, one.source.id) for one in missing} - facts.target_ids.keys()


def doubtful_ids(
    translations: Mapping[int, int | None], surveyed: Iterable[SurveyedVersion], way: IdsWay
) -> dict[int, int]:
    """What ids of the default context became, without those that were found to be their schema's."""
    found = {
        (one.source.id, one.verdict.target.id)
        for one in surveyed
        if isinstance(one.verdict, Found) and one.source.at.subject.context == DEFAULT_CONTEXT
    }
    return {
        source_id: target_id
        for source_id, target_id in sorted(translations.items())
        if target_id is not None and (source_id, target_id) not in found
        # Of such a one the version itself says what is wrong.
        if way == "translated" or source_id != target_id
    }


def stray_ids(
    doubtful: Mapping[int, int], source: Mapping[int, Collection[Schema]], there: Mapping[int, Schema | None]
) -> list[StrayId]:
    """Which ids are not their schema's on the target any more.

    Args:
        doubtful: What ids of the source became.
        source: What has these ids on the source, and what it is on the target; none: that is not known any more.
        there: What has each one's id on the target, by the id on the source; None: nothing.
    """
    found = []
    for source_id, target_id in doubtful.items():
        now = there[source_id]
        texts = {schema.text_content for schema in source.get(source_id, ())}
        if now is None:
            found.append(StrayId(source_id=source_id, target_id=target_id, now="none"))
        elif texts and now.text_content not in texts:
            found.append(StrayId(source_id=source_id, target_id=target_id, now="another"))
    return found


def _verdicts(
    facts: RegistryFacts, histories: Mapping[Subject, Sequence[RegisteredSchema]]
) -> dict[SubjectVersion, Verdict]:
    order = registration_order(facts.source.values())
    verdicts: dict[SubjectVersion, Verdict] = {at: Refused(text) for at, text in order.refused.items()}
    lineages = {subject: Lineage.of(history) for subject, history in histories.items()}
    for at in TopologicalSorter(order.before).static_order():
        verdicts[at] = _verdict(facts, verdicts, facts.source[at], lineages[at.subject])
    return verdicts


def _verdict(
    facts: RegistryFacts, verdicts: Mapping[SubjectVersion, Verdict], source: RegisteredSchema, lineage: Lineage
) -> Verdict:
    for reference in source.schema.references:
        match verdicts[reference.to]:
            case Conflict(text) | Refused(text):
                return Refused(f"it refers to {reference.to}, which is not on the target: {text}")
    schema, subject = _wanted(source, verdicts, facts), facts.subjects[source.at.subject]
    verdict = compare(source, schema, subject, facts.target.get(subject, ()), way=facts.way, lineage=lineage)
    if not isinstance(verdict, Missing):
        return verdict
    if facts.way == "translated":
        found = facts.looked_up.get(source.at)
        return verdict if found is None or (found.deleted and lineage.is_back(source)) else Found(found)
    other = facts.target_ids.get(ContextId(subject.context, source.id))
    return verdict if other is None or other.content == schema.content else id_taken(source, schema, other)


def _wanted(source: RegisteredSchema, verdicts: Mapping[SubjectVersion, Verdict], facts: RegistryFacts) -> Schema:
    """A schema as the target should have it; what it refers to may have to be registered there first."""
    return renamed(source.schema, dict(_places(source, verdicts, facts)))


def _places(
    source: RegisteredSchema, verdicts: Mapping[SubjectVersion, Verdict], facts: RegistryFacts
) -> Iterator[tuple[SubjectVersion, SubjectVersion]]:
    for reference in source.schema.references:
        at, verdict = reference.to, verdicts[reference.to]
        if isinstance(verdict, Found):
            yield at, verdict.target.at
        else:
            yield at, SubjectVersion(facts.subjects[at.subject], at.version if facts.way == "same" else _NOWHERE)


def _deleted_on(
    source: RegisteredSchema, verdict: Verdict, history: Sequence[RegisteredSchema], facts: RegistryFacts
) -> Literal["source", "target"] | None:
    if not isinstance(verdict, Found):
        return None
    target = verdict.target
    here, there = source.deleted, target.deleted
    if facts.way == "translated":
        # What was registered again is there under another version.
        here = here and not _is_live(source.schema, history)
        there = there and not _is_live(target.schema, facts.target.get(target.at.subject, ()))
    return None if here == there else "source" if here else "target"


def _is_live(schema: Schema, history: Sequence[RegisteredSchema]) -> bool:
    return any(not one.deleted and one.schema.content == schema.content for one in history)
