"""Checks of a flow's schemas: patterns, names of subjects and contexts, and whether there are registries at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mirror_ray.config.schema_names import SubjectName, illegal_context, subject_name
from mirror_ray.config.settings import FlowSettings
from mirror_ray.model.patterns import compile_patterns

_PATTERNS = ("subjects", "subjects_exclude", "topics", "topics_exclude")


def check_schemas(flow: FlowSettings) -> Iterator[tuple[str, str]]:
    """Yield a field and a sentence for each pattern and name that can't be used."""
    schemas, usable = flow.schemas, True
    for name in _PATTERNS:
        try:
            compile_patterns(getattr(schemas, name))
        except ValueError as error:
            usable = False
            yield f"schemas.{name}", str(error)
    for source, target in schemas.contexts_map.items():
        for context in (source, target):
            if (why := illegal_context(context)) is not None:
                usable = False
                yield "schemas.contexts_map", why
    if usable:
        for sentence in _check_subjects(flow):
            yield "schemas.subjects_map", sentence


def _check_subjects(flow: FlowSettings) -> Iterator[str]:
    contexts, excluded = flow.schemas.contexts_map, compile_patterns(flow.schemas.subjects_exclude)
    given: dict[SubjectName, str] = {}
    for source, target in flow.schemas.subjects_map.items():
        try:
            subject = subject_name(source)
            mirrored = subject_name(target, contexts.get(subject.context, subject.context))
        except ValueError as error:
            yield str(error)
            continue
        if flow.enabled and excluded is not None and excluded.fits(source):
            yield f"{source} is not mirrored by {flow.name}: take it out of schemas.subjects.exclude, or out of here"
        if (other := given.setdefault(mirrored, source)) != source:
            yield f"{other} and {source} would both be {mirrored}: give them different names"


def missing_registry(flow: FlowSettings, having: Collection[str]) -> str | None:
    """Why a flow can't mirror schemas although its settings say so; None: it can, or they don't.

    ``having``: the aliases of the clusters that have a schema registry.
    """
    lacking = [alias for alias in (flow.name.source, flow.name.target) if alias not in having]
    if not flow.enabled or not flow.schemas.sync_enabled or not lacking:
        return None
    return (
        f"schemas can't be mirrored, {' and '.join(lacking)} {'has' if len(lacking) == 1 else 'have'} no schema "
        "registry: write schema.registry.url of the cluster (registry.urls), or false here"
    )
