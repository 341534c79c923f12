"""What a configuration may ask for and this version does not do yet: accepted, so that files of MM2 load, and said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirror_ray.config.loaded import Note


@dataclass(frozen=True, slots=True)
class Feature:
    """Something of MM2's that is not there yet."""

    name: str
    #: What the fields that it is configured by begin with, and those of them that turn it on.
    fields: tuple[str, ...]
    switches: tuple[str, ...]
    text: str


FEATURES = (
    Feature(
        "config sync",
        ("topics.sync_configs_",),
        ("topics.sync_configs_enabled",),
        "this version takes a topic's configs over when it creates the remote topic, and does not follow later changes",
    ),
    Feature(
        "ACL sync",
        ("topics.sync_acls_",),
        ("topics.sync_acls_enabled",),
        "this version syncs no ACLs: grant readers of remote topics their rights on the target yourself",
    ),
)


@dataclass(frozen=True, slots=True)
class Explicit:
    """A value that the file gives."""

    #: As the user wrote it, and the field that it sets.
    key: str
    field: str
    #: False: a switch that is off. Other values say nothing here.
    on: bool


def feature_of(field: str) -> Feature | None:
    """The feature that a field configures, where it is one of those that are not there yet."""
    return next((feature for feature in FEATURES if field.startswith(feature.fields)), None)


def not_yet_notes(explicit: Iterable[Explicit]) -> Iterator[Note]:
    """Yield one note for each feature that the file has on in so many words, or one for all that it is silent about."""
    given = list(explicit)
    silent: list[str] = []
    for feature in FEATURES:
        own = [each for each in given if each.field.startswith(feature.fields)]
        # Whoever sets an interval and no switch wants the feature, for by default it is on.
        switches = [each for each in own if each.field in feature.switches]
        asking = [each for each in switches or own if each.on]
        if asking:
            yield Note(kind="not yet", key=asking[0].key, text=feature.text)
        elif not own:
            silent.append(feature.name)
    if silent:
        yield Note(kind="not yet", key=", ".join(silent), text="not done by this version; see README.md")
