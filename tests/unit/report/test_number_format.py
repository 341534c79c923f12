"""Figures in words."""

from __future__ import annotations

import pytest

from mirror_ray.report import number_format


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (number_format.size(0), "0 B"),
        (number_format.size(999), "999 B"),
        (number_format.size(999.7), "1.00 kB"),
        (number_format.size(1234), "1.23 kB"),
        (number_format.size(5.6e17), "560 PB"),
        (number_format.short(1_234_567), "1.23 M"),
        (number_format.short(0.5), "0.50"),
        (number_format.per_second(None), number_format.UNKNOWN),
        (number_format.lasting(0), "0 ms"),
        (number_format.lasting(1500), "1.50 s"),
        (number_format.lasting(119_000), "119 s"),
        (number_format.lasting(3_600_000), "60 min"),
        (number_format.lasting(10 * 86_400_000), "10 days"),
        (number_format.money(0, "EUR"), "0.00 EUR"),
        (number_format.money(0.00001, "EUR"), "< 0.0001 EUR"),
        (number_format.money(0.0123, "EUR"), "0.0123 EUR"),
        (number_format.money(1234.5, "EUR"), "1,234.50 EUR"),
        (number_format.plural(1, "topic"), "1 topic"),
        (number_format.plural(2000, "topic"), "2,000 topics"),
        (number_format.moment(1_795_305_600_000), "2026-11-22 00:00:00"),
        (number_format.tick(1_795_305_600_000, 86_400_000), "22 Nov"),
        (number_format.tick(1_795_305_600_000, 43_200_000), "22 Nov 00:00"),
        (number_format.tick(1_795_305_605_000, 10_000), "00:00:05"),
    ],
)
def test_words(said: str, expected: str) -> None:
    """Short, with units, and no digit too many."""
    assert said == expected
