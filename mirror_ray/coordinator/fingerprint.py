"""Tells settings apart where they must not be shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pydantic import BaseModel

from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import MirrorSettings


def fingerprint(settings: MirrorSettings) -> str:
    """Tells settings apart without showing them; equal ones have the same, whatever process they have been through."""
    return hashlib.sha256(repr(_plain(settings)).encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    """The value in a form whose ``repr`` says all of it, secrets as they are written: references by their texts."""
    match value:
        case Secret():
            return value.text, value.option, value.trimmed, _plain(value.providers)
        case BaseModel():
            return [(name, _plain(each)) for name, each in value]
        case Mapping():
            return [(key, _plain(value[key])) for key in sorted(value)]
        case tuple() | list():
            return [_plain(each) for each in value]
        case _:
            return value
