"""Figures in words."""

from __future__ import annotations

import pytest

from mirror_ray.report import words


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.size(0), "0 B"),
        (words.size(999), "999 B"),
        (words.size(999.7), "1.00 kB"),
        (words.size(1234), "1.23 kB"),
        (words.size(5.6e17), "560 PB"),
        (words.short(1_234_567), "1.23 M"),
        (words.short(0.5), "0.50"),
        (words.per_second(None), words.UNKNOWN),
        (words.lasting(0), "0 ms"),
        (words.lasting(1500), "1.50 s"),
        (words.lasting(119_000), "119 s"),
        (words.lasting(3_600_000), "60 min"),
        (words.lasting(10 * 86_400_000), "10 days"),
        (words.money(0, "EUR"), "0.00 EUR"),
        (words.money(0.00001, "EUR"), "< 0.0001 EUR"),
        (words.money(0.0123, "EUR"), "0.0123 EUR"),
        (words.money(1234.5, "EUR"), "1,234.50 EUR"),
        (words.plural(1, "topic"), "1 topic"),
        (words.plural(2000, "topic"), "2,000 topics"),
        (words.moment(1_795_305_600_000), "2026-11-22 00:00:00"),
        (words.tick(1_795_305_600_000, 86_400_000), "22 Nov"),
        (words.tick(1_795_305_600_000, 43_200_000), "22 Nov 00:00"),
        (words.tick(1_795_305_605_000, 10_000), "00:00:05"),
    ],
)
def test_words(said: str, expected: str) -> None:
    """Short, with units, and no digit too many."""
    assert said == expected
