"""What loading a configuration gives: settings, and what the user should know about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from mirror_ray.config.settings import MirrorSettings

#: ``ignored``: the key has no effect here. ``differs``: it has one that differs from MM2's.
#: ``default``: the file is silent and our default differs from MM2's. ``guarantee``: less is promised because of it.
#: ``secret``: it lies where others may read it. ``off``: what it is for is not done.
NoteKind = Literal["ignored", "differs", "default", "guarantee", "secret", "off"]

#: Mistakes of a file that are told; those that come after are counted.
MOST_TOLD: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigNote:
    """One thing to know about a configuration that was accepted."""

    kind: NoteKind
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key} ({self.kind}): {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """A configuration that can be used."""

    settings: MirrorSettings
    notes: tuple[ConfigNote, ...] = ()
