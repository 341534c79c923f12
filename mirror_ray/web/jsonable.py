"""Values as JSON: with the names that the command line's ``-o json`` has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any


def dumps(value: object) -> str:
    """JSON of values, tuples and mappings of them."""
    return json.dumps(value, default=_plain, separators=(",", ":"))


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no value that has a JSON form")


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
