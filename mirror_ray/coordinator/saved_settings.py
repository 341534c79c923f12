"""What a coordinator saves in Ray's store for the one that follows it: JSON, which can be nothing but values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel, ValidationError

from mirror_ray.config.base import Settings
from mirror_ray.config.secrets import STORED, Secret
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.coordinator.begun_flows import BegunFlows, ClusterIds
from mirror_ray.coordinator.scaling import ScalingController
from mirror_ray.model.names import FlowName
from mirror_ray.model.starter import Starter


def fingerprint(settings: MirrorSettings) -> str:
    """Tells settings apart without showing them; equal ones have the same, whatever process they have been through."""
    return hashlib.sha256(repr(_plain(settings)).encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    """The value in a form whose ``repr`` says all of it, secrets as they are written: references by their texts."""
    match value:
        case Secret():
            return value.text, value.option, value.trimmed, _plain(value.providers)
        case BaseModel():
            return [(name, _plain(item)) for name, item in value]
        case Mapping():
            return [(key, _plain(value[key])) for key in sorted(value)]
        case tuple() | list():
            return [_plain(item) for item in value]
        case _:
            return value


_VERSION: Final = 1
#: How Python's pickle begins, which versions before 1 kept. It is never read: reading it could run anything.
_PICKLE: Final = b"\x80"
_NEXT: Final = "run `mirror-ray up` with the configuration again; every flow goes on where it stopped"


class SavedSettings(Settings):
    """What a system runs by. References to secrets are kept as references; literal secrets in clear text."""

    version: Literal[1] = _VERSION
    settings: MirrorSettings
    #: How many replicators there should be, and whether an operator has said so.
    replicators: int
    pinned: bool
    started_ms: int
    #: Which clusters each flow has begun with.
    begun: tuple[tuple[FlowName, ClusterIds], ...]
    starter: Starter | None


def kept_of(
    settings: MirrorSettings, scaling: ScalingController, begun: BegunFlows, *, started_ms: int, starter: Starter | None
) -> bytes:
    """What a system runs by, as ``read_kept`` reads it."""
    kept = SavedSettings(
        settings=settings,
        replicators=scaling.wanted,
        pinned=scaling.pinned,
        started_ms=started_ms,
        begun=tuple(begun.known.items()),
        starter=starter,
    )
    return kept.model_dump_json(context=STORED).encode()


def read_kept(blob: bytes) -> SavedSettings | str:
    """What was kept; else a sentence on why it can't be read, and what to do."""
    if blob.startswith(_PICKLE):
        return f"a version of mirror-ray before this one kept its settings in a form that is not read any more: {_NEXT}"
    try:
        return SavedSettings.model_validate_json(blob, context=STORED)
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_input=False, include_url=False)[0]["loc"])) or "the whole"
        return f"what was kept of this system can't be read ({where}); another version may have written it: {_NEXT}"
