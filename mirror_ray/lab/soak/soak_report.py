"""The report of a soak in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirror_ray.lab.report_parts import document, markdown_table
from mirror_ray.lab.soak.growth import Growth

_ABOUT = """\
`mirror-ray demo` runs at that rate on each of its two clusters, with flows both ways and a group that reads on each.
`/metrics` and the status are asked for every ten seconds, as often as memory is looked at. Memory is what a process has
for itself (USS). The growth is the median of the slopes between any two samples after the warm-up (Theil and Sen);
*flat* is what grows by less than 1 MB and less than 2 % of itself in an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakOutcome:
    """What a soak has found."""

    command: str
    date: str
    machine: str
    minutes: float
    warm_up_minutes: float
    rate: int
    memory: Sequence[Growth]
    files: Sequence[Growth]
    #: How many files there were at first, and at last.
    file_counts: tuple[int, int]
    #: The demo's own last lines: whether all that was produced is on the other side.
    copied: str
    holds: bool

    @property
    def growing(self) -> list[Growth]:
        """Processes that are not flat."""
        return [each for each in self.memory if not each.flat]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        growing = ", ".join(f"{each.name} by {each.mb_per_hour:.1f} MB/h" for each in self.growing)
        memory = f"GROWING: {growing}" if growing else f"FLAT: each of {len(self.memory)} processes"
        return f"{memory}; {'all records copied' if self.holds else 'NOT all records copied'}"


def soak_report(outcome: SoakOutcome) -> str:
    """The report in Markdown."""
    columns = ("after the warm-up, MB", "at the end, MB", "most, MB", "MB an hour", "")
    return document(
        [
            f"# A soak of {outcome.minutes:.0f} minutes",
            f"**{outcome.verdict}.**",
            f"`{outcome.command}` repeats it. {outcome.date}; {outcome.machine}.",
            _ABOUT,
            f"{outcome.rate:,} records a second on each side; a warm-up of {outcome.warm_up_minutes:.0f} minutes.",
            "## Memory",
            markdown_table(("process", *columns), [_row(each) for each in outcome.memory]),
            "## Files of Ray's session",
            "From {:,} to {:,} files.".format(*outcome.file_counts),
            markdown_table(("kind", *columns[:-1]), [_row(each)[:-1] for each in outcome.files]),
            "## The copy",
            outcome.copied,
        ]
    )


def _row(each: Growth) -> tuple[str, float, float, float, str, str]:
    rate = f"{each.mb_per_hour:.2f}"
    return (each.name, each.first_mb, each.last_mb, each.most_mb, rate, "flat" if each.flat else "**grows**")
