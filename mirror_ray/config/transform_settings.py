"""What a flow makes of records on the way, as settings."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mirror_ray.config.base import Settings
from mirror_ray.config.options import OptionValue, revealed


class TransformStep(Settings):
    """A transform of a user's, or one of ``mirror_ray.transforms``."""

    #: A Python class, as ``package.module:Class``.
    type: str
    #: What it is built with.
    options: dict[str, OptionValue] = Field(default_factory=dict)
    #: Patterns of the source topics that it is for.
    topics: tuple[str, ...] = (".*",)

    @property
    def arguments(self) -> dict[str, Any]:
        """The options, with what they refer to as it is now.

        Raises:
            ValueError: A reference leads to nothing here.
        """
        try:
            return {name: revealed(value) for name, value in self.options.items()}
        except LookupError as error:
            raise ValueError(f"{self.type}: {error.args[0]}") from error


class TransformSettings(Settings):
    """What a flow makes of records on the way; nothing, by default."""

    #: One after the other.
    steps: tuple[TransformStep, ...] = ()
    #: What becomes of a record that one of them fails on: its partition stops, it is left out, or it is left out and
    #: written to ``dead_letter_topic`` on the target.
    errors: Literal["stop", "skip", "dead_letter"] = "stop"
    #: None: ``mm2-ray-dead-letters.<source>.internal``.
    dead_letter_topic: str | None = None
