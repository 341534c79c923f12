"""Settings of a flow's offsets."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from mirror_ray.config.base import Settings
from mirror_ray.config.numbers import GapMarkers, PrefixOffsets

#: A quarter of an hour at the rate that ``plan`` reckons with.
_PREFIX_MAX: Final = 5_000_000_000


class OffsetSettings(Settings):
    """Whether records have the same offsets on the target as on the source."""

    #: ``translate``: offsets differ, and groups' are translated. ``preserve``: offsets are the same on both clusters.
    mode: Literal["translate", "preserve"] = "translate"
    #: Patterns of the source topics whose offsets are preserved, where ``mode`` is ``preserve``.
    topics: tuple[str, ...] = (".*",)
    #: A gap of up to so many offsets is filled by markers, which no consumer sees; a longer one by fillers and one
    #: marker, and ``read_uncommitted`` consumers see the fillers.
    gap_markers: GapMarkers = 1_000
    #: A topic is not begun where more offsets than these, in all of its partitions, lie before its first records and
    #: would have to be filled.
    prefix_max: PrefixOffsets = _PREFIX_MAX

    @model_validator(mode="before")
    @classmethod
    def _of_mode_alone(cls, value: object) -> object:
        """``offsets: preserve`` in YAML."""
        return {"mode": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Both forms: the section, and the word of its mode."""
        section = handler.resolve_ref_schema(handler(schema))
        word = {key: part for key, part in section["properties"]["mode"].items() if key != "default"}
        return {"anyOf": [section, word]}
