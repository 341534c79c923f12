"""Every row of the transition table, taken by a real partition; and the page that is generated from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

import mirror_ray
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.fault import FaultKind
from mirror_ray.records.batch import iter_batches, rewrite
from mirror_ray.records.schema_id_records import IdTranslation
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import (
    OVER_BY,
    TRANSITIONS,
    CopyState,
    Instruction,
    StateEvent,
    UnexpectedEventError,
)
from mirror_ray.replication.partition_states_page import markdown
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.replication.target_log import TargetContents, TargetLog
from mirror_ray.transforms.chain import TransformChain
from mirror_ray.transforms.loading import TransformChains
from mirror_ray.transforms.schema_ids import SchemaIdMap, TopicSchemaIds
from tests.support.batches import batch
from tests.support.factories import assignment, fetched, parsed, replication
from tests.support.transforms import suffix, transforms

_DOCS = Path(mirror_ray.__file__).parents[1] / "docs" / "partition-states.md"
_ONE, _TWO = batch(0, [(0, b"a"), (1, b"b")]), batch(2, [(0, b"c"), (1, b"d")])
_ERROR = MirrorError("it is forbidden")
#: A value that begins with a schema id.
_FRAMED = b"\x00\x00\x00\x00%c"


def _behind() -> TargetLog:
    """The target holds one record more than was acknowledged."""
    written = parsed(batch(0, [(0, b"a")]))
    rewrite(written, 1, 0, 0)
    return TargetLog(end=1, tail=iter_batches(written.view)[0])


def _running() -> PartitionReplication:
    """Two batches are in flight."""
    copy = replication(assignment())
    copy.established(TargetLog(end=0))
    copy.placed()
    fetched(copy, _ONE, _TWO)
    copy.pipeline.deep = True
    copy.take()
    copy.take()
    return copy


def _realigning(producer_id: int = 1) -> PartitionReplication:
    copy = replication(assignment(producer_id=producer_id))
    copy.established(_behind())
    copy.placed()
    return copy


def _after(*steps: Callable[[PartitionReplication], object]) -> Callable[[], PartitionReplication]:
    """A running partition to which this happened."""

    def make() -> PartitionReplication:
        copy = _running()
        for step in steps:
            step(copy)
        return copy

    return make


def _failing() -> PartitionReplication:
    """A partition whose transform fails on the record ``bad``, with a batch in flight."""
    chain = TransformChains(transforms(suffix(), errors="dead_letter").steps).chain("t")
    assert chain is not None
    copy = replication(assignment())
    copy.transforms = PartitionTransforms(chain, copy.source, "dead_letter")
    copy.established(TargetLog(end=0))
    copy.placed()
    fetched(copy, _ONE)
    copy.take()
    return copy


def _awaiting() -> PartitionReplication:
    copy = _failing()
    fetched(copy, batch(2, [(0, b"bad")]))
    return copy


def _translating(log: TargetLog | None = None) -> PartitionReplication:
    """A partition whose schema ids are translated, with a batch in flight; ``log``: of what the target has more."""
    ids = TopicSchemaIds(SchemaIdMap([IdTranslation(17, 4)]), "t", framed=True)
    copy = replication(assignment())
    copy.transforms = PartitionTransforms(TransformChain((), "ids", "", ids), copy.source)
    copy.established(log or TargetLog(end=0))
    copy.placed()
    if log is None:
        fetched(copy, batch(0, [(0, _FRAMED % 17), (1, b"b")]))
        copy.take()
    return copy


def _lacking(copy: PartitionReplication) -> PartitionReplication:
    """It has met an id that is not known."""
    fetched(copy, batch(copy.fetch_offset, [(0, _FRAMED % 18)]))
    return copy


def _learned(copy: PartitionReplication) -> None:
    assert copy.transforms is not None
    ids = copy.transforms.chain.schema_ids
    assert ids is not None
    assert ids.known is not None
    ids.known.update([IdTranslation(18, 5)])
    copy.schema_ids_learned()


def _asked(copy: PartitionReplication) -> PartitionReplication:
    copy.out_of_range()
    return copy


def _at_end(producer_id: int = 1) -> PartitionReplication:
    """The source ended before the record that the target holds."""
    copy = _realigning(producer_id)
    copy.source_answered(0, 0)
    fetched(copy)
    return copy


def _partly_cleaned() -> PartitionReplication:
    """Both sides were cleaned; of two source records the target holds the first one alone."""
    copy = replication(assignment())
    copy.position.wants_contents = True
    contents = TargetContents()
    contents.add(parsed(batch(0, [(0, b"a"), (1, b"gone")])))
    written = parsed(batch(0, [(0, b"-"), (1, b"-"), (2, b"-")]))
    rewrite(written, 1, 0, 0)
    copy.established(TargetLog(end=3, tail=iter_batches(written.view)[0]), contents)
    copy.placed()
    copy.source_answered(4, 4)
    fetched(copy, batch(0, [(0, b"a")], 2), batch(3, [(0, b"new")]))
    return copy


#: A partition in each state from which something follows, with batches in flight where that is possible.
_STARTS: dict[CopyState, Callable[[], PartitionReplication]] = {
    CopyState.ESTABLISHING: _after(lambda copy: copy.interrupt(None)),
    CopyState.REFUSED: _after(lambda copy: copy.failed()),
    CopyState.STOPPED: _after(lambda copy: copy.stop(_ERROR)),
    CopyState.STOPPED_REFUSED: _after(lambda copy: copy.failed(), lambda copy: copy.stop(_ERROR)),
    CopyState.UNPLACED: _after(lambda copy: copy.leader_moved()),
    CopyState.REALIGNING: _realigning,
    CopyState.RUNNING: _running,
    CopyState.ASKING_SOURCE: lambda: _asked(_running()),
    CopyState.AWAITING_DEAD_LETTERS: _awaiting,
    CopyState.AWAITING_SCHEMA_IDS: lambda: _lacking(_translating()),
    CopyState.BLOCKED: _after(lambda copy: copy.block(_ERROR)),
    CopyState.DRAINING: _after(lambda copy: copy.drain()),
    CopyState.LEAVING: _after(lambda copy: copy.interrupt(None), lambda copy: copy.drain()),
}


#: Where the events need a partition of another kind.
_SPECIAL_STARTS: dict[tuple[CopyState, StateEvent], Callable[[], PartitionReplication]] = {
    (CopyState.RUNNING, StateEvent.RECORDS_FAILED): _failing,
    (CopyState.RUNNING, StateEvent.SCHEMA_IDS_MISSING): _translating,
    (CopyState.REALIGNING, StateEvent.SCHEMA_IDS_MISSING): lambda: _translating(_behind()),
    (CopyState.AWAITING_SCHEMA_IDS, StateEvent.SCHEMA_IDS_KNOWN_TO_REALIGN): lambda: _lacking(_translating(_behind())),
    (CopyState.UNPLACED, StateEvent.PLACED_TO_REALIGN): lambda: _moved(_realigning()),
    (CopyState.ASKING_SOURCE, StateEvent.BOUNDS_FIT_TO_REALIGN): lambda: _asked(_realigning()),
    (CopyState.ASKING_SOURCE, StateEvent.CLEANED): _at_end,
    (CopyState.ASKING_SOURCE, StateEvent.REALIGNED): lambda: _at_end(-1),
    (CopyState.ASKING_SOURCE, StateEvent.FETCH_AGAIN): _partly_cleaned,
}


def _moved(copy: PartitionReplication) -> PartitionReplication:
    copy.leader_moved()
    return copy


def _established(copy: PartitionReplication) -> None:
    copy.pipeline.lose()
    copy.established(TargetLog(end=0))


def _end_reached(copy: PartitionReplication) -> None:
    copy.source_answered(0, 0)
    fetched(copy)


def _realigned(copy: PartitionReplication) -> None:
    if copy.state is CopyState.REALIGNING:
        fetched(copy, _ONE)
    else:
        copy.source_bounds(0, 0, 0)


def _cleaned(copy: PartitionReplication) -> None:
    if copy.state is CopyState.REALIGNING:
        fetched(copy, batch(0, [(0, b"another"), (1, b"b")]))
    else:
        copy.source_bounds(0, 0, 0)


def _written(copy: PartitionReplication) -> None:
    assert copy.dead_letters is not None
    copy.dead_letters_written(copy.dead_letters)


_HAPPENS: dict[StateEvent, Callable[[PartitionReplication], object]] = {
    StateEvent.TARGET_END_READ: _established,
    StateEvent.PLACED: lambda copy: copy.placed(),
    StateEvent.PLACED_TO_REALIGN: lambda copy: copy.placed(),
    StateEvent.REALIGNED: _realigned,
    StateEvent.END_REACHED: _end_reached,
    StateEvent.OUT_OF_RANGE: lambda copy: copy.out_of_range(),
    StateEvent.BOUNDS_FIT: lambda copy: copy.source_bounds(0, 9, 9),
    StateEvent.BOUNDS_FIT_TO_REALIGN: lambda copy: copy.source_bounds(0, 9, 9),
    StateEvent.CLEANED: _cleaned,
    StateEvent.FETCH_AGAIN: lambda copy: copy.source_bounds(0, 4, 4),
    StateEvent.TARGET_GROWS: lambda copy: copy.target_grows(),
    StateEvent.LEADER_MOVED: lambda copy: copy.leader_moved(),
    StateEvent.RECORDS_FAILED: lambda copy: fetched(copy, batch(2, [(0, b"bad")])),
    StateEvent.DEAD_LETTERS_WRITTEN: _written,
    StateEvent.SCHEMA_IDS_MISSING: _lacking,
    StateEvent.SCHEMA_IDS_KNOWN: _learned,
    StateEvent.SCHEMA_IDS_KNOWN_TO_REALIGN: _learned,
    StateEvent.BATCH_UNUSABLE: lambda copy: copy.block(_ERROR),
    StateEvent.BATCH_REFUSED: lambda copy: copy.failed(),
    StateEvent.CONNECTION_LOST: lambda copy: copy.lost(),
    StateEvent.INTERRUPTED: lambda copy: copy.interrupt("the leader moved"),
    StateEvent.FAILED: lambda copy: copy.stop(_ERROR),
    StateEvent.DRAIN: lambda copy: copy.drain(),
    StateEvent.REMOVE: lambda copy: copy.remove(),
}


@pytest.mark.parametrize(("state", "event"), TRANSITIONS, ids=lambda part: part.name)
def test_each_row_is_taken_by_a_partition(state: CopyState, event: StateEvent) -> None:
    """From a partition that is really in the state, by what really happens to it."""
    copy = _SPECIAL_STARTS.get((state, event), _STARTS[state])()
    assert copy.state is state
    copy.take_instructions()
    _HAPPENS[event](copy)
    row = TRANSITIONS[state, event]
    assert copy.state is row.finish
    assert set(copy.take_instructions()) == set(row.instructions) - {Instruction.DROP}
    if Instruction.DROP in row.instructions:
        assert not copy.pipeline.ready
        assert not copy.pipeline.uncommitted


def test_a_pair_outside_the_table_is_an_error() -> None:
    """Nothing is guessed."""
    copy = _running()
    with pytest.raises(UnexpectedEventError, match="PLACED in state RUNNING"):
        copy.placed()
    assert copy.state is CopyState.RUNNING


def test_each_kind_of_fault_is_over_some_day() -> None:
    """And every other error, too."""
    assert OVER_BY.keys() == {*get_args(FaultKind), None}
    assert all(OVER_BY.values())


def test_the_page_is_current() -> None:
    """``python -m mirror_ray.replication.partition_states_page`` writes it."""
    assert _DOCS.read_text() == markdown()
