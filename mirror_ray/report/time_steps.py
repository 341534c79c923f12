"""The steps of time that a report's charts are drawn in."""

from __future__ import annotations

from typing import Final

#: Each divides the next, so what lies within one of a length lies within one of every longer length.
STEPS_MS: Final = tuple(
    seconds * 1000 for seconds in (10, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400)
)
_MOST_STEPS: Final = 180


def step_of(length_ms: int, whole_ms: int) -> int:
    """The step of a chart of so long a time: as short as can be, but of no more than ``_MOST_STEPS`` points.

    Args:
        length_ms: The time that is shown.
        whole_ms: The shortest of ``STEPS_MS`` that none of the intervals reaches across. An interval counts whole where
            it begins: in shorter steps some would hold what was copied in several, and others nothing.
    """
    fitting = (each for each in STEPS_MS if each >= whole_ms and length_ms <= each * _MOST_STEPS)
    return next(fitting, STEPS_MS[-1])
