"""What has to be registered before a schema: what it refers to, and the earlier versions of its subject."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from mirror_ray.registry.schema import RegisteredSchema, SubjectVersion

#: What comes before each, among the same versions.
Before = Mapping[SubjectVersion, Collection[SubjectVersion]]


@dataclass(frozen=True, slots=True)
class RegistrationOrder:
    """What can be registered, with what comes before each; and what can't be, each with the reason. Without circles."""

    before: Before
    refused: Mapping[SubjectVersion, str]


def registration_order(
    schemas: Iterable[RegisteredSchema], known: Collection[SubjectVersion] = frozenset()
) -> RegistrationOrder:
    """Order schemas; ``known``: what is on the target already and can be referred to."""
    by_version = {schema.at: schema for schema in schemas}
    refused = _without_referenced(by_version, known)
    while True:
        wanted = [at for at in sorted(by_version) if at not in refused]
        before = _before(by_version, wanted)
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            # It gives the first of the cycle again at its end.
            cycle: list[SubjectVersion] = error.args[1][:-1]
            round_trip = " -> ".join(map(str, [*cycle, cycle[0]]))
            refused |= dict.fromkeys(cycle, f"its references go in a circle: {round_trip}")
            _refuse_dependents(by_version, refused)
        else:
            return RegistrationOrder(before, refused)


def _before(
    by_version: Mapping[SubjectVersion, RegisteredSchema], wanted: list[SubjectVersion]
) -> dict[SubjectVersion, list[SubjectVersion]]:
    """What has to be registered before each; ``wanted`` ascends."""
    there = set(wanted)
    before = {
        at: [reference.to for reference in by_version[at].schema.references if reference.to in there] for at in wanted
    }
    for earlier, later in pairwise(wanted):
        if earlier.subject == later.subject:
            before[later].append(earlier)
    return before


def _without_referenced(
    by_version: Mapping[SubjectVersion, RegisteredSchema], known: Collection[SubjectVersion]
) -> dict[SubjectVersion, str]:
    refused: dict[SubjectVersion, str] = {}
    for at, schema in by_version.items():
        missing = [ref.to for ref in schema.schema.references if ref.to not in by_version and ref.to not in known]
        if missing:
            refused[at] = (
                f"it refers to {missing[0]}, which is not mirrored or not there: take that subject out of "
                "schemas.subjects.exclude, or register it on the source"
            )
    _refuse_dependents(by_version, refused)
    return refused


def _refuse_dependents(
    by_version: Mapping[SubjectVersion, RegisteredSchema], refused: dict[SubjectVersion, str]
) -> None:
    """Add to ``refused`` what refers to something in it, directly or not."""
    users: dict[SubjectVersion, list[SubjectVersion]] = {}
    for at, schema in by_version.items():
        for reference in schema.schema.references:
            users.setdefault(reference.to, []).append(at)
    ahead = list(refused)
    while ahead:
        cause = ahead.pop()
        for at in users.get(cause, ()):
            if at not in refused:
                refused[at] = f"it refers to {cause}, which can't be registered"
                ahead.append(at)
