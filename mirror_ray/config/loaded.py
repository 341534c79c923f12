"""The result of loading a configuration: settings with notes for the user, or one error for all mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.errors import ConfigError

#: ``ignored``: the key has no effect here. ``differs``: its effect is not MM2's. ``default``: the file does not set it,
#: and our default is not MM2's. ``guarantee``: it weakens a guarantee. ``secret``: others may read the secret.
#: ``off``: it turns something off.
NoteKind = Literal["ignored", "differs", "default", "guarantee", "secret", "off"]

#: Mistakes of a file that an error lists; those that come after are counted.
MOST_LISTED: Final = 100
#: Replaces a value that a reference led to: it may be a secret, even where none is expected.
_HIDDEN: Final = "${...}"
#: A shorter text is no secret, and might be part of any word.
_SHORTEST_HIDDEN: Final = 4
#: Lengths that errors cut long values to.
_CUT_TO: Final = (60, 40)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigNote:
    """A note on a configuration that was accepted."""

    kind: NoteKind
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key} ({self.kind}): {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """A configuration without mistakes."""

    settings: MirrorSettings
    notes: tuple[ConfigNote, ...] = ()


def config_error(problems: Iterable[str], referred: Iterable[str]) -> ConfigError:
    """The error for these mistakes: each of them once, up to ``MOST_LISTED``, and how many more there are.

    ``referred``: values that references of the file have led to; they are masked in the sentences, as are their parts.
    """
    distinct = list(dict.fromkeys(problems))
    more = len(distinct) - MOST_LISTED
    listed = _masked(distinct[:MOST_LISTED], referred)
    return ConfigError(*listed, *([f"and {more:,} more mistakes"] if more > 0 else []))


def _masked(problems: Sequence[str], referred: Iterable[str]) -> Sequence[str]:
    together = "\n".join(problems).lower()
    pieces = {piece for value in referred for piece in _pieces(value) if piece.lower() in together}
    if not pieces:
        return problems
    # The longest first, for a piece may be part of another.
    pattern = re.compile("|".join(map(re.escape, sorted(pieces, key=len, reverse=True))), re.IGNORECASE)
    return [pattern.sub(lambda _: _HIDDEN, problem) for problem in problems]


def _pieces(value: str) -> Iterator[str]:
    for text in map(str.strip, (value, *re.split(r"[,:=\r\n]", value))):
        for shown in (text, repr(text)[1:-1]):
            yield from (shown[:length] for length in (len(shown), *_CUT_TO) if length <= len(shown) >= _SHORTEST_HIDDEN)
