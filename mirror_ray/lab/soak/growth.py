"""By how much something grows: a line through samples that a few odd ones do not turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

_HOUR_S: Final = 3600.0
#: More pairs than these say nothing more.
_MOST_SAMPLES: Final = 400
#: Below both a process counts as flat: what a Python process takes and gives back is more.
_FLAT_SHARE: Final = 0.02
_FLAT_MB: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Of one process, or of one kind of file; in MB."""

    name: str
    #: Medians of the first and of the last tenth.
    first_mb: float
    last_mb: float
    most_mb: float
    mb_per_hour: float

    @property
    def flat(self) -> bool:
        """Whether it stays where it is, as far as its samples say."""
        return self.mb_per_hour < max(_FLAT_MB, _FLAT_SHARE * self.first_mb)


def growth(name: str, samples: Sequence[tuple[float, float]]) -> Growth:
    """The growth of samples (seconds, bytes): the median of the slopes between any two of them (Theil and Sen)."""
    tenth = max(1, len(samples) // 10)
    sizes = [size / 1e6 for _, size in samples]
    few = samples[:: max(1, len(samples) // _MOST_SAMPLES)]
    slopes = [
        (later - earlier) / (end_s - begin_s)
        for place, (begin_s, earlier) in enumerate(few)
        for end_s, later in few[place + 1 :]
    ]
    return Growth(
        name=name,
        first_mb=median(sizes[:tenth]),
        last_mb=median(sizes[-tenth:]),
        most_mb=max(sizes),
        mb_per_hour=median(slopes) * _HOUR_S / 1e6 if slopes else 0.0,
    )
