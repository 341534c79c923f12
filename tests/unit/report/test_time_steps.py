"""Steps of charts: neither shorter than what is told, nor too many."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mirror_ray.report.figures import STEPS_MS, step_of
from mirror_ray.report.json_document import make_document
from tests.support.report import BEGIN_MS, aggregates, asked, found, partition

_S, _MIN, _H = 1000, 60_000, 3_600_000


def test_each_step_divides_the_next() -> None:
    """So that an interval within one is within one of every longer length."""
    assert all(longer % shorter == 0 for shorter, longer in pairwise(STEPS_MS))


@pytest.mark.parametrize(
    ("length_ms", "interval_step_ms", "step_ms"),
    [
        (20 * _MIN, 10 * _S, 10 * _S),
        (20 * _MIN, 60 * _S, 60 * _S),
        (1, _H, _H),
        (180 * _MIN, 60 * _S, 60 * _S),
        (181 * _MIN, 60 * _S, 300 * _S),
        (24 * _H, _H, _H),
        (10_000 * 24 * _H, 60 * _S, 7 * 24 * _H),
    ],
)
def test_a_step_holds_whole_intervals(length_ms: int, interval_step_ms: int, step_ms: int) -> None:
    """A minute told at once is not shown as ten seconds in which six times as much was copied."""
    assert step_of(length_ms, interval_step_ms) == step_ms


def test_what_is_shown_of_a_step_makes_its_rate() -> None:
    """An hour in one step of three hours: its peak is its average."""
    one = {"step": BEGIN_MS - BEGIN_MS % 10_800_000, **aggregates(60)}
    made = make_document(asked(), found(partition(scale=60), steps=[one], step_ms=10_800_000))
    assert made["peak"]["records_per_s"] == made["total"]["records_per_s"]
