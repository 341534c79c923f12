"""What it costs to begin a topic whose offsets are preserved, and where that is refused."""

from __future__ import annotations

import pytest

from mirror_ray.records.batch import RecordBatch, iter_batches
from mirror_ray.topics.discovery_rules import TargetLogBounds
from mirror_ray.topics.preservation import (
    PREFIX_OFFSETS_PER_S,
    RUNS_PER_S,
    RUNS_PER_S_TOGETHER,
    PreservationCost,
    RunSample,
    missing_prefixes,
    prefix_refusal,
    runs_in,
    sample_of,
)
from tests.support.batches import batch, marker


def cost(prefix: int = 0, runs: int | None = None, longest: int | None = None) -> PreservationCost:
    """Of a topic of two partitions."""
    return PreservationCost(
        topic="t",
        remote_topic="A.t",
        partitions=2,
        prefix_offsets=prefix,
        longest_prefix=prefix,
        runs=runs,
        longest_runs=longest,
    )


def fetched(*batches: bytes) -> list[RecordBatch]:
    """As a fetch gives them."""
    return iter_batches(memoryview(bytearray(b"".join(batches))))


def test_what_a_log_lacks() -> None:
    """What is filled already does not count, nor what is beyond the start."""
    starts = {
        0: (100, TargetLogBounds(start=0, end=0)),
        1: (100, TargetLogBounds(start=0, end=40)),
        2: (100, TargetLogBounds(start=100, end=100)),
        3: (0, TargetLogBounds(start=0, end=7)),
    }
    assert missing_prefixes(starts) == {0: 100, 1: 60, 2: 0, 3: 0}


@pytest.mark.parametrize(("offsets", "most", "refused"), [(0, 0, False), (1, 0, True), (10, 10, False), (11, 10, True)])
def test_the_bound_is_allowed(offsets: int, most: int, refused: bool) -> None:
    """One more is not."""
    assert (prefix_refusal("t", "A.t", offsets, most) is not None) is refused
    assert (cost(offsets).refusal(most) is not None) is refused


def test_a_refusal_says_what_to_do() -> None:
    """Topic, length, time, and the setting with a value that is enough."""
    text = prefix_refusal("t", "A.t", 36 * PREFIX_OFFSETS_PER_S * 3600, 5_000_000_000) or ""
    for words in (
        "A.t",
        "777,600,000,000 offsets",
        "about 36 h",
        "offsets.prefix.max to 777600000000 or",
        "leave t out",
    ):
        assert words in text


def test_time_is_of_the_slower_bound() -> None:
    """One partition has a rate, and so have all together; what was not sampled is not known."""
    assert cost(3 * PREFIX_OFFSETS_PER_S).prefix_s == 3
    assert cost().runs_s is None
    assert cost(runs=5 * RUNS_PER_S, longest=5 * RUNS_PER_S).runs_s == 5
    assert cost(runs=20 * RUNS_PER_S_TOGETHER, longest=RUNS_PER_S).runs_s == 20


def test_gaps_are_what_has_no_record() -> None:
    """Batches that follow each other are one run; markers, empty batches and compacted records are gaps."""
    whole = [(n, b"x") for n in range(5)]
    assert sample_of(fetched(batch(10, whole), batch(15, whole)), 10, 20) == RunSample(10, 10, 0)
    apart = fetched(batch(10, whole), marker(15, 7, commit=True), batch(16, whole))
    assert sample_of(apart, 10, 21) == RunSample(11, 11, 1)
    compacted = batch(20, [(0, b"x"), (3, b"x"), (4, b"x"), (8, b"x")], 9)
    assert sample_of(fetched(compacted, batch(30, [], 4), batch(35, whole)), 20, 40) == RunSample(20, 20, 3)
    assert sample_of(fetched(batch(10, [(0, b"x"), (2, b"x")], 2), batch(13, whole)), 10, 18) == RunSample(8, 8, 1)


def test_a_part_counts_what_lies_in_it() -> None:
    """Not what the first batch has before it, nor what was fetched beyond; a run that goes on there is no new one."""
    single = [(0, b"x"), (2, b"x"), (4, b"x"), (6, b"x")]
    assert sample_of(fetched(batch(100, single)), 102, 105) == RunSample(3, 3, 1)
    assert sample_of(fetched(batch(100, single)), 101, 200) == RunSample(99, 6, 3)
    assert sample_of(fetched(batch(100, [(0, b"x")])), 100, 2000) == RunSample(1900, 1, 0)
    assert sample_of([], 10, 30) == RunSample(20, 20, 0)
    assert sample_of(fetched(batch(500, single)), 10, 30) == RunSample(20, 20, 0)


def test_a_sample_stands_for_its_part() -> None:
    """Each for its own: one end of a log is cleaned, the other is not."""
    assert runs_in([RunSample(1000, 100, 50), RunSample(1000, 1000, 3), RunSample(1000, 0, 0)]) == 504
    assert runs_in([]) == 1
