"""What a partition lacks to go on where schema ids are translated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mirror_ray.model.names import FlowName


@dataclass(frozen=True, slots=True)
class SchemaNeed:
    """A schema of the source registry whose translation is not known, or the field that may have it is undecided."""

    flow: FlowName
    #: On the source.
    topic: str
    field: Literal["key", "value"]
    #: Its id, or its GUID in 16 bytes.
    schema: int | bytes
