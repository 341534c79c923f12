"""What is compared is divided among tasks and put together again: nothing twice, nothing left out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import MirrorError
from mirror_ray.spark.verification_pieces import PIECES_OF_A_TASK, JobPiece, merged, pieces_of, tasks_of
from mirror_ray.transforms.met_schemas import MetSchemas
from mirror_ray.verification.first_pass import InProcessFirstPass, TooManyKeysError
from mirror_ray.verification.job import CompareJob, FirstPassResult
from mirror_ray.verification.ranges import ComparedRange, PositionPair
from tests.support.factories import compare_job
from tests.unit.records.strategies import Plain
from tests.unit.verification.logged import batch_of
from tests.unit.verification.test_last_records import log_of

pytestmark = pytest.mark.usefixtures("either")


@st.composite
def jobs(draw: st.DrawFn) -> CompareJob:
    """Ranges of any sizes, of which some are chosen."""
    cuts = sorted(draw(st.sets(st.integers(0, 5000), min_size=2, max_size=30)))
    ranges = [ComparedRange(first, end, first, end) for first, end in pairwise(cuts)]
    chosen = draw(st.sets(st.integers(0, len(ranges) - 1), min_size=1))
    job = compare_job(PositionPair(cuts[0], cuts[0]), PositionPair(cuts[-1], cuts[-1]), *ranges)
    return replace(job, chosen=tuple(sorted(chosen)))


@given(jobs(), st.integers(1, 2000), st.data())
def test_every_chosen_range_is_in_one_piece(job: CompareJob, most_offsets: int, data: st.DataObject) -> None:
    """Ranges that differ have their numbers in the whole job again."""
    pieces = list(pieces_of(3, job, most_offsets))
    assert [number for piece in pieces for number in piece.chosen] == list(job.chosen)
    assert all(piece.job.chosen_ranges == [job.ranges[number] for number in piece.chosen] for piece in pieces)
    for piece in pieces:
        *before, _ = piece.job.ranges
        assert sum(span.source_end - span.source for span in before) < most_offsets
    differing = data.draw(st.sets(st.sampled_from(job.chosen)))
    results = [
        (
            piece,
            FirstPassResult(
                records=7,
                ranges=tuple(n for n, at in enumerate(piece.chosen) if at in differing),
                met=MetSchemas(frozenset({piece.chosen[0]})),
            ),
        )
        for piece in reversed(pieces)
    ]
    found = merged(results)
    assert found.met.schemas == {piece.chosen[0] for piece in pieces}
    assert (found.ranges, found.records) == (tuple(sorted(differing)), 7 * len(pieces))


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 9))
def test_every_piece_is_in_one_task(kinds: list[bool], cores: int) -> None:
    """A compacted partition has a task for itself; others share one, if there are more than cores."""
    job = compare_job(PositionPair(0, 0), PositionPair(1, 1))
    pieces = [JobPiece(number, replace(job, compacted=compacted), (0,)) for number, compacted in enumerate(kinds)]
    tasks = tasks_of(pieces, cores)
    assert sorted(piece.number for task in tasks for piece in task) == list(range(len(pieces)))
    assert all(0 < len(task) <= PIECES_OF_A_TASK for task in tasks)
    assert all(len(task) == 1 for task in tasks if task[0].job.compacted)
    ranges = kinds.count(False)
    assert len(tasks) >= kinds.count(True) + min(ranges, cores)


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=60), st.integers(0, 3), st.data())
def test_parts_of_the_keys_are_all_keys(contents: list[tuple[int, bool]], times: int, data: st.DataObject) -> None:
    """Divided however often, the result is that of the whole; also of the order, and of a sample."""
    mine = [
        Plain(offset=at, timestamp=5, key=b"%d" % key if key else None, value=b"" if whole else None)
        for at, (key, whole) in enumerate(contents)
    ]
    theirs = list(mine)
    if data.draw(st.booleans()):
        del theirs[data.draw(st.integers(0, len(mine) - 1))]
    if data.draw(st.booleans()) and len(theirs) > 1:
        theirs[0] = replace(theirs[0], key=theirs[-1].key)
    job = compare_job(PositionPair(0, 0), PositionPair(60, 60), compacted=True)
    job = replace(job, key_fraction=data.draw(st.sampled_from((1.0, 0.3))))
    logs = log_of([batch_of(mine)]), log_of([batch_of(theirs)] if theirs else [])
    pieces = list(pieces_of(0, job))
    for _ in range(times):
        at = data.draw(st.integers(0, len(pieces) - 1))
        pieces[at : at + 1] = pieces[at].divided()

    def result(one: CompareJob) -> FirstPassResult:
        (found,) = asyncio.run(InProcessFirstPass(lambda _: logs).run([one]))
        return found

    assert merged((piece, result(piece.job)) for piece in pieces) == result(job)


def test_keys_are_divided_as_often_as_it_takes_and_no_further() -> None:
    """Also where all have one checksum, which nobody but an attacker brings about."""
    (piece,) = pieces_of(0, compare_job(PositionPair(0, 0), PositionPair(1, 1), compacted=True))
    for _ in range(6):
        piece = piece.divided()[0]
    with pytest.raises(MirrorError, match=r"t-0: one part of 4,096 of its keys is still too large .* --sample"):
        piece.divided()


async def test_keys_that_take_too_much_memory_are_noticed() -> None:
    """After the answer that brought them."""
    keys = [Plain(offset=at, timestamp=5, key=b"key %d" % at) for at in range(50)]
    logs = log_of([batch_of(keys)]), log_of([batch_of(keys)])
    job = compare_job(PositionPair(0, 0), PositionPair(50, 50), compacted=True)
    (found,) = await InProcessFirstPass(lambda _: logs, max_key_bytes=100_000).run([job])
    assert found.keys == 50
    with pytest.raises(TooManyKeysError, match="t-0: its keys take more than 1,000 bytes"):
        await InProcessFirstPass(lambda _: logs, max_key_bytes=1000).run([job])
