"""A partition with transforms against a model of the target broker: the target gets what they make of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.partition_transforms import ErrorPolicy, PartitionTransforms
from mirror_ray.replication.target_log import TargetContents, TargetLog
from mirror_ray.transforms import Record, Result, Transform
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from tests.support.batches import batch
from tests.support.factories import establish, parsed
from tests.unit.replication.test_partition_model import SPLITS, Source, World, actions, skips, sources


class Each(Transform):
    """A transform by a function of one record."""

    version = "1"
    pure = True

    def __init__(self, function: Callable[[Record], Result]) -> None:
        self._function = function

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        return [self._function(record) for record in records]


class Impure(Each):
    """One that does not promise anything."""

    pure = False


def mixed(record: Record) -> Result:
    """Of five records two are left out, one fails, one is changed, one stays; values are offsets."""
    value = record.value or b""
    match int(value) % 5:
        case 0 | 1:
            return None
        case 2:
            return ValueError(value.decode())
        case 3:
            return record._replace(value=b"changed " + value)
    return record


def expected(values: Sequence[bytes]) -> list[bytes]:
    """What ``mixed`` leaves of them."""
    return [b"changed " + value if int(value) % 5 == 3 else value for value in values if int(value) % 5 > 2]


class Transformed(World):
    """A partition whose records go through ``mixed``, and a dead letter topic."""

    def __init__(self, source: Source, errors: ErrorPolicy = "skip", step: Transform | None = None) -> None:
        self.errors, self.chain = errors, TransformChain((NamedTransform("mixed", step or Each(mixed)),), "mixed 1")
        self.letters: list[bytes] = []
        self.mixes = step is None
        super().__init__(source)

    def taken_over(self, anchor: OffsetPair, max_message_bytes: int = SPLITS) -> PartitionReplication:
        copy = super().taken_over(anchor, max_message_bytes)
        copy.transforms = PartitionTransforms(self.chain, copy.source, self.errors, self.source.skip)
        return copy

    def step(self, action: str, number: int) -> None:
        if self.copy.dead_letters is not None and action == "answer":
            self.write(self.copy)
        super().step(action, number)
        if self.mixes:
            self.check()

    def write(self, copy: PartitionReplication) -> None:
        """The dead letter topic takes what waits."""
        letters = copy.dead_letters
        assert letters is not None
        assert copy.transforms is not None
        self.letters += [failure.record.value or b"" for failure in letters.failures]
        copy.dead_letters_written(letters)

    def check(self) -> None:
        """What the position has passed was written, there or here."""
        position = self.copy.acknowledged.source_offset
        passed = [value for value in self.source.committed if int(value) < position]
        assert self.target.values[: len(expected(passed))] == expected(passed)
        if self.errors == "dead_letter":
            assert {value for value in passed if int(value) % 5 == 2} <= set(self.letters)


@settings(max_examples=200, deadline=None)
@given(sources, actions, skips, st.sampled_from(["skip", "dead_letter"]))
def test_nothing_lost_nothing_doubled(
    contents: list[tuple[str, int]],
    happenings: list[tuple[str, int]],
    skip: tuple[tuple[int, int], ...],
    errors: ErrorPolicy,
) -> None:
    """Whatever fails, from whatever anchor it is taken over, though most records never reach the target."""
    source = Source(skip=skip)
    for kind, size in contents:
        source.add(kind, size)
    world = Transformed(source, errors)
    for action, number in happenings:
        world.step(action, number)
        wanted = expected(source.committed)
        assert world.target.values == wanted[: len(world.target.values)]
    world.finish()
    assert world.target.values == expected(source.committed)
    assert world.copy.acknowledged == OffsetPair(source.end, len(world.target.values))
    assert world.copy.pipeline.size_bytes == 0
    if errors == "dead_letter":
        assert set(world.letters) == {value for value in source.committed if int(value) % 5 == 2}


def _source(records: int, of_a_batch: int = 5) -> Source:
    source = Source()
    for _ in range(records // of_a_batch):
        source.add("plain", of_a_batch)
    return source


def _all_on_the_target(world: Transformed) -> Transformed:
    world.finish()
    assert world.target.values == expected(world.source.committed)
    return world


def _log(world: Transformed) -> TargetLog:
    assert world.target.tail is not None
    return TargetLog(end=len(world.target.values), tail=parsed(world.target.tail))


def _taken_over(world: Transformed, step: Transform | None = None) -> PartitionReplication:
    """By a copier with other transforms, that compares by contents where numbers don't fit."""
    if step is not None:
        world.chain = TransformChain((NamedTransform("other", step),), "mixed 1")
    copy = world.taken_over(OffsetPair(0, 0))
    establish(copy, _log(world))
    return copy


def _pass(world: Transformed, copy: PartitionReplication) -> None:
    """Read the source, and where it is wanted the target's contents, until the place is known or given up."""
    for _ in range(20):
        if copy.needs_end:
            contents = None
            if copy.wants_contents:
                contents = TargetContents()
                contents.add(parsed(batch(0, list(enumerate(world.target.values)))))
            establish(copy, _log(world), contents)
        if copy.wants_fetch:
            records, aborted = world.source.fetch(copy.fetch_offset, 3)
            copy.source_answered(world.source.end, world.source.end)
            copy.process(copy.received(records), aborted)
        if copy.asks_source:
            copy.source_bounds(world.source.batches[0][0], world.source.end, world.source.end)


@pytest.mark.parametrize(
    "other",
    [
        lambda record: record,
        lambda record: None,
        lambda record: mixed(record) if int(record.value or b"0") != 8 else None,
        lambda record: mixed(record) if int(record.value or b"0") != 39 else record._replace(key=b"k"),
    ],
    ids=["keeps more", "keeps nothing", "lacks one", "changed the last one"],
)
def test_transforms_that_lied_about_being_pure_stop_the_partition(other: Callable[[Record], Result]) -> None:
    """What they make of the source is not what the target holds: where to go on can't be told, and is not guessed."""
    world = _all_on_the_target(Transformed(_source(40)))
    copy = _taken_over(world, Each(other))
    with pytest.raises(ReplicationFault, match="pure") as raised:
        _pass(world, copy)
    assert raised.value.fault.kind == "copy_lost"


def test_a_source_that_was_cleaned_since_is_matched() -> None:
    """Its records that are left, and what transforms make of them, are among those copied, the last one included."""
    world = _all_on_the_target(Transformed(_source(40)))
    del world.source.batches[1:4]
    copy = _taken_over(world)
    _pass(world, copy)
    assert (copy.state, copy.acknowledged) == (CopyState.RUNNING, OffsetPair(40, len(world.target.values)))


def test_a_source_whose_last_copied_record_was_cleaned_stops_the_partition() -> None:
    """Then what is behind it may be new, or come of other transforms."""
    world = _all_on_the_target(Transformed(_source(40)))
    del world.source.batches[-1]
    world.source.add("plain", 5)
    copy = _taken_over(world)
    with pytest.raises(ReplicationFault, match="copy had come to"):
        _pass(world, copy)


def test_what_is_not_pure_is_copied_again_from_the_anchor() -> None:
    """At least once: nothing is walked, so nothing is lost by what can't be told again."""
    world = _all_on_the_target(Transformed(_source(20)))
    world.chain = TransformChain((NamedTransform("impure", Impure(lambda record: None)),), "impure 1")
    copy = world.taken_over(OffsetPair(0, 0))
    copy.assignment = replace(copy.assignment, producer_id=-1)
    establish(copy, _log(world))
    assert copy.state is CopyState.RUNNING
    assert (copy.fetch_offset, copy.acknowledged.target_offset) == (0, len(world.target.values))


def test_a_failure_stops_the_partition_at_its_record() -> None:
    """What is before its batch is copied; the record is named, and nothing behind it is taken."""
    source = Source()
    source.add("plain", 2)
    source.add("plain", 5)
    world = Transformed(source, "stop")
    copy = world.copy
    establish(copy, TargetLog(end=0))
    records, aborted = source.fetch(0, 5)
    with pytest.raises(ReplicationFault, match="offset 2 of source partition t-0: mixed: ValueError: 2") as raised:
        copy.process(copy.received(records), aborted)
    trouble = raised.value.fault
    assert (trouble.kind, trouble.source_from, trouble.source_to) == ("transform_failed", 2, 3)
    assert copy.acknowledged == OffsetPair(2, 0)
    assert not copy.pipeline.ready


def test_a_batch_of_which_nothing_is_left_moves_the_position() -> None:
    """Also before anything was copied, and at once."""
    source = _source(4, 2)
    world = Transformed(source, step=Each(lambda record: None))
    world.finish()
    assert world.copy.acknowledged == OffsetPair(4, 0)
    assert world.target.values == []


def test_what_the_target_holds_of_a_batch_is_not_copied_again_after_its_dead_letters() -> None:
    """A place within a batch, behind which a record fails: the batch is fetched again, and taken from the place on."""
    source = Source()
    for size in (2, 7, 1):
        source.add("plain", size)
    world = Transformed(source, "dead_letter")
    happenings = [*["fetch"] * 3, "answer", "fetch", "send", "lose", "restart"]
    for action in happenings:
        world.step(action, 1)
    assert world.target.values == [b"changed 3"]
    _all_on_the_target(world)


def test_dead_letters_of_a_place_that_was_left_are_not_waited_for() -> None:
    """When the target's end is read anew the source may be another one from there: they are looked for again."""
    world = Transformed(_source(10), "dead_letter")
    copy = world.copy
    establish(copy, TargetLog(end=0))
    records, aborted = world.source.fetch(0, 5)
    copy.process(copy.received(records), aborted)
    letters = copy.dead_letters
    assert letters is not None
    assert [failure.record.offset for failure in letters.failures] == [2, 7]
    assert (copy.state.fetches, copy.fetch_offset, copy.acknowledged) == (False, 0, OffsetPair(0, 0))
    copy.lost()
    establish(copy, TargetLog(end=0))
    assert copy.state.fetches
    assert copy.transforms is not None
    copy.dead_letters_written(letters)
    copy.process(copy.received(world.source.fetch(0, 5)[0]), aborted)
    assert copy.dead_letters is not None
    assert not copy.state.fetches
