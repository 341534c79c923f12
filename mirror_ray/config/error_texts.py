"""What is told of the mistakes in a file: not too many of them, and nothing of what references lead to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mirror_ray.config.loaded import MOST_TOLD
from mirror_ray.model.errors import ConfigError

#: Stands for what a reference led to, which may be a secret though it stands in the place of something else.
_HIDDEN: Final = "${...}"
#: Less is no secret, and might be part of any word.
_SHORTEST_HIDDEN: Final = 4
#: As much as is shown of what is longer.
_SHOWN: Final = (60, 40)


def told(problems: Iterable[str], referred: Iterable[str]) -> ConfigError:
    """The error for these mistakes; each is told once, the first of them, and how many more there are.

    ``referred``: what references of the file have led to; no sentence repeats it, nor an item of a list.
    """
    each = list(dict.fromkeys(problems))
    more = len(each) - MOST_TOLD
    return ConfigError(*_without(each[:MOST_TOLD], referred), *([f"and {more:,} more mistakes"] if more > 0 else []))


def _without(problems: Sequence[str], referred: Iterable[str]) -> Sequence[str]:
    together = "\n".join(problems).lower()
    pieces = {piece for value in referred for piece in _pieces(value) if piece.lower() in together}
    if not pieces:
        return problems
    # The longest first, for a piece may be part of another.
    pattern = re.compile("|".join(map(re.escape, sorted(pieces, key=len, reverse=True))), re.IGNORECASE)
    return [pattern.sub(lambda _: _HIDDEN, problem) for problem in problems]


def _pieces(value: str) -> Iterator[str]:
    for whole in map(str.strip, (value, *re.split(r"[,:=\r\n]", value))):
        for shown in (whole, repr(whole)[1:-1]):
            yield from (shown[:length] for length in (len(shown), *_SHOWN) if length <= len(shown) >= _SHORTEST_HIDDEN)
