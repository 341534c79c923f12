"""Ends mode IMPORT of the subjects that a flow has mirrored, so that producers can register there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror_ray.model.errors import ClusterUnreachableError
from mirror_ray.registry.recorded_changes import RecordedChanges
from mirror_ray.registry.registry import Mode, SchemaRegistry
from mirror_ray.registry.schema import DEFAULT_CONTEXT, Subject
from mirror_ray.registry.subjects import SubjectRules
from mirror_ray.registry.together import each

#: Modes that a mirror of somebody else's needs on the source; they mean nothing on a target that is written to.
_OF_MIRRORS: Final[frozenset[Mode]] = frozenset({"IMPORT", "FORWARD"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportEnd:
    """What became, or would become, of the subjects in mode IMPORT."""

    #: Their modes by the target's subjects; None: none of its own, so that the global one holds.
    ended: Mapping[Subject, Mode | None] = field(default_factory=dict)
    #: Those of which it is not known that the flow mirrors them; they stay so.
    left: Collection[Subject] = ()
    #: The target's; None: it says none.
    global_mode: Mode | None = None
    #: Why the modes of the source's subjects are not known; None: they are.
    source_problem: str | None = None


async def end_imports(
    source: SchemaRegistry | None,
    target: SchemaRegistry,
    rules: SubjectRules,
    changes: RecordedChanges,
    *,
    known_ids: Collection[int],
    alone: bool,
    dry: bool,
) -> ImportEnd:
    """Give each mirrored subject of the target that is in mode IMPORT the mode that its source's has; idempotent.

    Args:
        source: None: it is gone.
        target: The target's registry.
        rules: The flow's.
        changes: Of the target.
        known_ids: Ids of the default context that the flow has mirrored: what tells its subjects without the source.
        alone: No other flow mirrors into the target: then subjects of other contexts are this one's.
        dry: Only say what would be done.

    Raises:
        MirrorError: The target does not answer, or refuses; the same call goes on.
    """
    modes = await each(await target.subjects(), target.mode)
    importing = {subject for subject, mode in modes.items() if mode == "IMPORT"}
    global_mode = await target.mode(None)
    if not importing:
        return ImportEnd(global_mode=global_mode)
    problem: str | None = None
    wanted: Mapping[Subject, Mode | None] = {}
    try:
        if source is not None:
            wanted = await _modes_of(source, rules, importing)
    except ClusterUnreachableError as error:
        source, problem = None, str(error)
    if source is None:
        wanted = dict.fromkeys(await _known(target, rules, importing, known_ids, alone=alone))
    if not dry:
        await each(wanted, lambda subject: _end(changes, subject, wanted[subject]))
    left = sorted(importing - wanted.keys())
    return ImportEnd(ended=dict(sorted(wanted.items())), left=left, global_mode=global_mode, source_problem=problem)


def mode_after_import(source: Mode | None) -> Mode | None:
    """The mode of a subject that is written to from now on, by its source's; None: none of its own."""
    return None if source in _OF_MIRRORS else source


async def _modes_of(
    source: SchemaRegistry, rules: SubjectRules, importing: Collection[Subject]
) -> dict[Subject, Mode | None]:
    targets = {subject: rules.target(subject) for subject in await source.subjects() if rules.may_mirror(subject)}
    mirrored = [subject for subject, target in targets.items() if target in importing]
    modes = await each(mirrored, source.mode)
    return {targets[subject]: mode_after_import(mode) for subject, mode in modes.items()}


async def _known(
    target: SchemaRegistry,
    rules: SubjectRules,
    importing: Collection[Subject],
    known_ids: Collection[int],
    *,
    alone: bool,
) -> set[Subject]:
    """The subjects that the flow has mirrored, as far as the target tells."""
    context = rules.contexts.get(DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    found = {
        subject
        for subject in importing
        if subject.context != context and (alone or subject.context in rules.contexts.values())
    }
    listed = await target.listed()
    if listed is not None:
        places = {schema.at.subject for schema in listed if schema.id in known_ids}
    else:
        uses = await each(known_ids, lambda schema_id: target.uses_of(schema_id, context))
        places = {at.subject for every in uses.values() for at in every}
    return found | {subject for subject in places if subject in importing and subject.context == context}


async def _end(changes: RecordedChanges, subject: Subject, mode: Mode | None) -> None:
    why = "its flow has stopped, and it is written to on this side from now on"
    if mode is None:
        await changes.clear_mode(subject, before="IMPORT", why=why)
    else:
        await changes.set_mode(subject, mode, before="IMPORT", why=why)
