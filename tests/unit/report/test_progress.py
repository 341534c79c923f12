"""How far a report has read: what is new, what was missed, and what a killed run leaves behind."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.report.progress import (
    BadRecord,
    LogRead,
    ReadBatch,
    ReadProgress,
    advanced,
    file_name,
    left_over,
    missing,
    recomputed,
    to_read,
    without,
)

FRESH = ReadProgress(flow="A->B", topic="mm2-ray-stats.A.internal")


def read(partition: int, first: int, following: int, *, topic_id: str = "t", missed: int = 0) -> LogRead:
    """Offsets [first, following) of a partition."""
    return LogRead(topic_id=topic_id, partition=partition, first=first, next=following, missed=missed)


def batch(*logs: LogRead, days: tuple[str, ...] = ("2026-11-22",), bad: int = 0) -> ReadBatch:
    """What a run put into place, one file for each day."""
    files = tuple(file_name(day, logs, 0) for day in days)
    examples = tuple(
        BadRecord(topic_id="t", partition=0, offset=offset, kind="not_json", text="x") for offset in range(bad)
    )
    return ReadBatch(logs=logs, files=files, days=days, bad={"not_json": bad} if bad else {}, bad_examples=examples)


def test_a_first_run_reads_all_that_is_there() -> None:
    """What retention took before the first run is not said to be missed."""
    assert to_read(FRESH, "t", {0: (7, 20), 1: (0, 0)}) == (read(0, 7, 20),)


def test_the_next_run_reads_what_is_new() -> None:
    """From where the last one ended; nothing where nothing came."""
    after = advanced(FRESH, batch(read(0, 7, 20)))
    assert to_read(after, "t", {0: (7, 20)}) == ()
    assert to_read(after, "t", {0: (9, 25), 1: (0, 3)}) == (read(0, 20, 25), read(1, 0, 3))


def test_what_was_deleted_unread_is_counted() -> None:
    """Also where nothing is left of it."""
    after = advanced(FRESH, batch(read(0, 0, 20)))
    assert to_read(after, "t", {0: (30, 40)}) == (read(0, 30, 40, missed=10),)
    assert to_read(after, "t", {0: (30, 30)}) == (read(0, 30, 30, missed=10),)
    twice = advanced(advanced(after, batch(read(0, 30, 40, missed=10))), batch(read(0, 45, 50, missed=5)))
    assert twice.logs == (read(0, 0, 50, missed=15),)


def test_a_topic_created_anew_is_read_from_its_start() -> None:
    """And what was read of the old one is kept."""
    after = advanced(FRESH, batch(read(0, 0, 20)))
    (new,) = to_read(after, "u", {0: (0, 5)})
    assert new == read(0, 0, 5, topic_id="u")
    assert advanced(after, batch(new)).logs == (read(0, 0, 20), new)


def test_a_log_that_went_back_is_read_from_its_start() -> None:
    """It was cut, or the topic created anew on a target without topic ids; no file of before is overwritten."""
    before = batch(read(0, 0, 200), read(1, 0, 50))
    after = advanced(advanced(FRESH, before), batch(read(0, 200, 1000)))
    again = to_read(after, "t", {0: (0, 200), 1: (0, 50)})
    assert again == (replace(read(0, 0, 200), went_back=1),)
    assert not set(batch(*again).files) & set(after.files)
    after = advanced(after, batch(*again))
    assert after.logs == (read(0, 0, 1000), *again, read(1, 0, 50))
    assert ReadProgress.of_plain(json.loads(json.dumps(after.plain()))) == after
    (more,) = to_read(after, "t", {0: (0, 1200), 1: (0, 50)})
    assert more == replace(read(0, 200, 1200), went_back=1)
    assert advanced(after, batch(more)).logs == (
        read(0, 0, 1000),
        replace(read(0, 0, 1200), went_back=1),
        read(1, 0, 50),
    )


def test_a_log_that_is_empty_again_is_remembered() -> None:
    """Else it would not be noticed when it has grown beyond what was read before; and twice is twice."""
    after = advanced(FRESH, batch(read(0, 0, 20)))
    (empty,) = to_read(after, "t", {0: (0, 0)})
    after = advanced(after, batch(empty, days=()))
    assert to_read(after, "t", {0: (0, 0)}) == ()
    (grown,) = to_read(after, "t", {0: (0, 30)})
    assert (grown.first, grown.next, grown.missed) == (0, 30, 0)
    (second,) = to_read(advanced(after, batch(grown)), "t", {0: (4, 9)})
    assert second == replace(read(0, 4, 9), went_back=2)


def test_a_state_of_before_is_read() -> None:
    """Without what was added since."""
    after = advanced(FRESH, batch(read(0, 0, 9)))
    plain = json.loads(json.dumps(after.plain()))
    for log in plain["logs"]:
        del log["went_back"]
    del plain["deleted"]
    assert ReadProgress.of_plain(plain) == after


def test_hours_are_stale_from_the_first_day_that_was_touched() -> None:
    """Until they are computed again, also by a later run."""
    after = advanced(FRESH, batch(read(0, 0, 9), days=("2026-11-22", "2026-11-21")))
    assert after.stale_from == "2026-11-21"
    assert advanced(after, batch(read(0, 9, 10), days=("2026-11-23",))).stale_from == "2026-11-21"
    assert recomputed(after).stale_from is None
    assert advanced(recomputed(after), batch(read(0, 9, 10), days=())).stale_from is None


def test_bad_records_add_up_and_a_few_are_named() -> None:
    """Over all runs."""
    after = advanced(advanced(FRESH, batch(read(0, 0, 9), bad=7)), batch(read(0, 9, 30), bad=8))
    assert after.bad == {"not_json": 15}
    assert len(after.bad_examples) == 10


def test_files_that_nobody_names_are_left_over() -> None:
    """A run put them there, and was killed before it said so."""
    after = advanced(FRESH, batch(read(0, 0, 9)))
    (kept,) = after.files
    other = file_name("2026-11-22", [read(0, 9, 12)], 0)
    assert left_over(after, [kept, other]) == {other}
    assert left_over(FRESH, [kept]) == {kept}


def test_a_day_may_be_deleted_a_file_may_not() -> None:
    """Whoever deletes a whole day wants it gone."""
    after = advanced(FRESH, batch(read(0, 0, 9), days=("2026-11-21", "2026-11-22")))
    old, new = after.files
    assert missing(after, [old, new]) == missing(after, [new]) == set()
    assert missing(after, [new, file_name("2026-11-21", [read(0, 9, 12)], 0)]) == {old}
    assert without(after, [old]).files == (new,)


def test_days_deleted_out_of_the_middle_are_remembered() -> None:
    """As long as something older is there: what was copied then looks as if it was not told."""
    after = advanced(FRESH, batch(read(0, 0, 9), days=("2026-11-20", "2026-11-21", "2026-11-22")))
    first, second, third = after.files
    assert without(after, [first]).deleted == ()
    middle = without(after, [second])
    assert (middle.files, middle.deleted) == ((first, third), ("2026-11-21",))
    assert ReadProgress.of_plain(json.loads(json.dumps(middle.plain()))) == middle
    assert without(middle, [first]).deleted == ()
    assert without(after, after.files).deleted == ()


def test_names_begin_with_what_spark_reads() -> None:
    """It passes over names that begin with an underscore, as topic ids may."""
    name = file_name("2026-11-22", [read(0, 5, 9, topic_id="_x"), read(1, 0, 3, topic_id="_x")], 2)
    assert name == "intervals/date=2026-11-22/read-_x-0.5-9_1.0-3-2.parquet"


def test_it_comes_back_from_json() -> None:
    """And what is none of ours is refused."""
    after = advanced(FRESH, batch(read(0, 0, 9), bad=2))
    assert ReadProgress.of_plain(json.loads(json.dumps(after.plain()))) == after
    plain = after.plain()
    wrong: list[Any] = [[], {}, {"version": 2}, {**plain, "logs": [{"x": 1}]}, {**plain, "more": 1}]
    for document in wrong:
        with pytest.raises(ValueError):
            ReadProgress.of_plain(document)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.booleans()), max_size=12))
def test_nothing_is_read_twice_nor_left_out(story: list[tuple[int, int, bool]]) -> None:
    """As the log grows, retention cuts, and runs are killed before they say what they read."""
    progress, start, end, counted, missed = FRESH, 0, 0, [0] * 1000, 0
    for grown, cut, killed in story:
        end += grown
        start = min(end, start + cut)
        new = to_read(progress, "t", {0: (start, end)})
        if killed:
            continue
        for log in new:
            for offset in range(log.first, log.next):
                counted[offset] += 1
            missed += log.missed
        progress = advanced(progress, batch(*new)) if new else progress
    if progress.logs:
        (log,) = progress.logs
        assert all(number <= 1 for number in counted)
        assert sum(counted) + missed == log.next - log.first
        assert log.missed == missed
