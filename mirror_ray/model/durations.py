"""Lengths of time, for texts."""

from __future__ import annotations


def about(seconds: float) -> str:
    """A length of time in the largest unit of which there are two or more."""
    for unit, length_s in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
