"""A partition whose schema ids are translated, against a model of the broker: what is not known is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_ray.model.offset_pair import OffsetPair
from mirror_ray.model.schema_id_counts import SchemaIdCounts
from mirror_ray.records.decode import records_of
from mirror_ray.records.schema_id_records import FieldDecision, IdTranslation, SchemaIdEntry
from mirror_ray.replication.faults import ReplicationFault
from mirror_ray.replication.partition import PartitionReplication
from mirror_ray.replication.partition_states import CopyState
from mirror_ray.replication.partition_transforms import ErrorPolicy, PartitionTransforms
from mirror_ray.replication.target_log import TargetLog
from mirror_ray.transforms import Record
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from mirror_ray.transforms.schema_ids import SchemaIdMap, TopicSchemaIds
from tests.support.batches import batch
from tests.support.factories import assignment, establish, fetched, parsed, replication
from tests.unit.replication.test_partition_model import SPLITS, Source, World, actions, skips, sources
from tests.unit.replication.test_transformed_partition import Each

#: Schemas by offset: a value's id is 1 to 7; of these one is absent, and one is no id.
SCHEMAS, ABSENT, NONE = 7, 3, 5


def framed(number: int, data: bytes) -> bytes:
    """As a serializer writes it."""
    return b"\x00" + number.to_bytes(4, "big") + data


def of_a_schema(record: Record) -> Record:
    """Sources have their offset as value: an id before it, as if it had been there."""
    number = 1 + int(record.value or b"0") % SCHEMAS
    return record if number == NONE else record._replace(value=framed(number, record.value or b""))


def expected(values: Sequence[bytes]) -> list[bytes]:
    """What the target gets of them."""
    numbers = [(1 + int(value) % SCHEMAS, value) for value in values]
    return [value if number == NONE else framed(100 + number, value) for number, value in numbers if number != ABSENT]


class FramedSource(Source):
    """One whose producers have written the ids."""

    def value(self, offset: int) -> bytes:
        number = 1 + offset % SCHEMAS
        return b"%d" % offset if number == NONE else framed(number, b"%d" % offset)

    def offset(self, value: bytes) -> int:
        return int(value.rpartition(b"\x00")[2].lstrip(bytes(range(SCHEMAS + 1))))


class Translated(World):
    """A partition of which the schema ids become known one by one, in any order."""

    def __init__(self, source: Source, errors: ErrorPolicy, order: Sequence[int]) -> None:
        self.errors = errors
        self.entries: list[SchemaIdEntry] = [
            IdTranslation(number, None if number == ABSENT else 100 + number) for number in order
        ]
        self.entries.insert(len(order) // 2, FieldDecision("t", "value", True))
        self.known = SchemaIdMap()
        self.letters: list[bytes] = []
        super().__init__(source)

    def taken_over(self, anchor: OffsetPair, max_message_bytes: int = SPLITS) -> PartitionReplication:
        """Whoever takes over has read what is known by now."""
        copy = super().taken_over(anchor, max_message_bytes)
        steps = () if isinstance(self.source, FramedSource) else (NamedTransform("schemas", Each(of_a_schema)),)
        chain = TransformChain(steps, "it", "", TopicSchemaIds(self.known, "t", framed=False))
        copy.transforms = PartitionTransforms(chain, copy.source, self.errors, self.source.skip)
        return copy

    def step(self, action: str, number: int) -> None:
        letters = self.copy.dead_letters
        if letters is not None and action == "answer":
            self.letters += [failure.record.value or b"" for failure in letters.failures]
            self.copy.dead_letters_written(letters)
        if action == "anchor" or (action == "fetch" and number == 1):
            self.learn()
        super().step(action, number)
        waits = self.copy.schema_ids_awaited
        if waits is not None:
            assert waits.offset == self.copy.process_offset or not self.copy.position.known
            assert f"offset {waits.offset} of source partition t-0" in (self.copy.report().reason or "")

    def learn(self) -> None:
        """The sync has found one more."""
        if self.entries:
            self.known.update([self.entries.pop()])
            self.copy.schema_ids_learned()

    def finish(self) -> None:
        """In the end all are known."""
        while self.entries:
            self.learn()
        super().finish()


@settings(max_examples=300, deadline=None)
@given(
    sources,
    actions,
    skips,
    st.sampled_from(["skip", "dead_letter"]),
    st.permutations(range(1, SCHEMAS + 1)),
    st.sampled_from([Source, FramedSource]),
)
def test_nothing_lost_nothing_doubled_nothing_untranslated(
    contents: list[tuple[str, int]],
    happenings: list[tuple[str, int]],
    skip: tuple[tuple[int, int], ...],
    errors: ErrorPolicy,
    order: list[int],
    kind_of_source: type[Source],
) -> None:
    """Whatever fails, from whatever anchor it is taken over, whenever which id is known; also without transforms."""
    source = kind_of_source(skip=skip)
    for kind, size in contents:
        source.add(kind, size)
    world = Translated(source, errors, order)
    plain = [b"%d" % source.offset(value) for value in source.committed]
    for action, number in happenings:
        world.step(action, number)
        assert world.target.values == expected(plain)[: len(world.target.values)]
    world.finish()
    assert world.target.values == expected(plain)
    assert world.copy.acknowledged == OffsetPair(source.end, len(world.target.values))
    assert world.copy.pipeline.size_bytes == 0
    assert world.copy.report().state == "copying"
    if errors == "dead_letter":
        absent = {value for value in source.committed if 1 + source.offset(value) % SCHEMAS == ABSENT}
        assert set(world.letters) == absent


def translating(
    *entries: SchemaIdEntry, errors: ErrorPolicy = "stop", merge: bool = False, log: TargetLog | None = None
) -> tuple[PartitionReplication, SchemaIdMap]:
    """A partition of a topic whose fields are framed, and what is known for it."""
    known = SchemaIdMap(entries)
    copy = replication(assignment(), merge=merge)
    chain = TransformChain((), "ids", "", TopicSchemaIds(known, "t", framed=True))
    copy.transforms = PartitionTransforms(chain, copy.source, errors)
    establish(copy, log or TargetLog(end=0))
    return copy, known


def of_ids(first: int, *numbers: int) -> bytes:
    """A batch of records with these ids, from an offset on."""
    return batch(first, [(at, framed(number, b"%d" % (first + at))) for at, number in enumerate(numbers)])


@pytest.mark.parametrize("merge", [False, True])
def test_what_lies_before_the_record_is_sent(merge: bool) -> None:
    """Within its batch, too; the report names what is waited for, and it goes on from there."""
    copy, known = translating(IdTranslation(1, 11), merge=merge)
    copy.source_answered(6, 6)
    fetched(copy, of_ids(0, 1, 1), of_ids(2, 1, 2, 1), of_ids(5, 1))
    assert [(sent.source_first, sent.count) for sent in copy.pipeline.ready] == [(0, 2), (2, 1)]
    assert (copy.state, copy.fetch_offset, copy.state.fetches) == (CopyState.AWAITING_SCHEMA_IDS, 3, False)
    for at in (0, 2):
        copy.take()
        copy.answered(at)
    report = copy.report()
    assert (report.state, report.trouble, report.position) == ("copying", None, 3)
    assert report.reason == (
        "waits: the value of the record at offset 3 of source partition t-0 has schema id 2, which is not in the "
        "target's registry yet"
    )
    known.update([IdTranslation(9, 9)])
    copy.schema_ids_learned()
    assert copy.state is CopyState.AWAITING_SCHEMA_IDS
    known.update([IdTranslation(2, 12)])
    copy.schema_ids_learned()
    assert (copy.state, copy.report().reason) == (CopyState.RUNNING, None)
    copy.take_instructions()
    fetched(copy, of_ids(2, 1, 2, 1), of_ids(5, 1))
    sent = [record.value for outgoing in copy.pipeline.ready for record in records_of(outgoing.batch)]
    assert sent == [framed(12, b"3"), framed(11, b"4"), framed(11, b"5")]


def test_a_wait_of_long_is_shown_as_a_fault_and_ends_by_itself() -> None:
    """It names the record, the id and what to do; nobody is asked to decide."""
    copy, known = translating()
    fetched(copy, of_ids(0, 2))
    copy.schema_ids_overdue()
    report = copy.report()
    fault = report.trouble
    assert fault is not None
    assert (report.state, fault.kind, fault.source_from, fault.source_to) == ("stopped", "schema_missing", 0, 1)
    assert "offset 0 of source partition t-0 has schema id 2" in (report.reason or "")
    assert "schemas.subjects" in (report.reason or "")
    known.update([IdTranslation(2, 12)])
    copy.schema_ids_learned()
    report = copy.report()
    assert (report.state, report.reason, report.trouble) == ("copying", None, None)
    assert copy.state is CopyState.RUNNING
    copy.schema_ids_overdue()
    assert copy.report().state == "copying"


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("steps", [(), (NamedTransform("each", Each(lambda record: record)),)])
def test_what_was_acknowledged_is_counted(merge: bool, steps: tuple[NamedTransform, ...]) -> None:
    """Ids that were translated, and what had none; nothing before the target has it."""
    copy, _ = translating(IdTranslation(1, 11), merge=merge)
    assert copy.transforms is not None
    copy.transforms.chain = replace(copy.transforms.chain, steps=steps)
    fetched(copy, of_ids(0, 1, 0, 1), of_ids(3, 1))
    assert copy.report().schema_ids == SchemaIdCounts()
    for outgoing in list(copy.pipeline.ready):
        copy.take()
        copy.answered(outgoing.target_offset)
    assert copy.report().schema_ids == SchemaIdCounts(translated=3, unframed=1)


def test_a_partition_without_ids_counts_none() -> None:
    """That is not 0."""
    assert replication(assignment()).report().schema_ids is None


def test_an_undecided_field_names_the_setting() -> None:
    """And goes on once it is decided, to wait for the id then."""
    copy, known = translating()
    chain = TransformChain((), "ids", "", TopicSchemaIds(known, "t", framed=False))
    assert copy.transforms is not None
    copy.transforms.chain = chain
    fetched(copy, of_ids(0, 2))
    copy.schema_ids_overdue()
    assert "schemas.topics.exclude" in (copy.report().reason or "")
    known.update([FieldDecision("t", "value", True)])
    copy.schema_ids_learned()
    fetched(copy, of_ids(0, 2))
    assert "which is not in the target's registry yet" in (copy.report().reason or "")
    known.update([IdTranslation(2, 12)])
    copy.schema_ids_learned()
    fetched(copy, of_ids(0, 2))
    assert len(copy.pipeline.ready) == 1


def test_an_absent_id_fails_by_the_policy() -> None:
    """Before one that is missing; behind it nobody looks yet."""
    copy, _ = translating(IdTranslation(1, 11), IdTranslation(3, None))
    with pytest.raises(ReplicationFault, match="schema ids: AbsentSchemaError: its value has schema id 3") as raised:
        fetched(copy, of_ids(0, 1, 3, 2))
    assert raised.value.fault.source_from == 1
    copy, _ = translating(IdTranslation(1, 11), IdTranslation(3, None), errors="skip")
    fetched(copy, of_ids(0, 1, 3, 2, 3))
    assert copy.transforms is not None
    assert (copy.transforms.failed, copy.fetch_offset) == (1, 2)
    copy, _ = translating(IdTranslation(1, 11), IdTranslation(3, None), errors="dead_letter")
    fetched(copy, of_ids(0, 1, 3, 2, 3), of_ids(4, 3))
    letters = copy.dead_letters
    assert letters is not None
    assert [failure.record.offset for failure in letters.failures] == [1]
    copy.dead_letters_written(letters)
    fetched(copy, of_ids(0, 1, 3, 2, 3), of_ids(4, 3))
    assert (copy.state, copy.fetch_offset) == (CopyState.AWAITING_SCHEMA_IDS, 2)
    assert [sent.count for sent in copy.pipeline.ready] == [1]


def test_what_was_copied_is_recognised_once_its_id_is_known() -> None:
    """A replicator that takes over and has not heard of an id yet waits, and then finds its place."""
    first, _ = translating(IdTranslation(1, 11), IdTranslation(2, 12))
    fetched(first, of_ids(0, 1, 2))
    sent = first.take().batch
    copy, known = translating(IdTranslation(1, 11), log=TargetLog(end=2, tail=parsed(sent.view)))
    fetched(copy, of_ids(0, 1, 2), of_ids(2, 1))
    assert (copy.state, copy.fetch_offset, copy.fetch_epoch) == (CopyState.AWAITING_SCHEMA_IDS, 0, -1)
    known.update([IdTranslation(2, 12)])
    copy.schema_ids_learned()
    assert copy.state is CopyState.REALIGNING
    fetched(copy, of_ids(0, 1, 2), of_ids(2, 1))
    assert (copy.state, copy.acknowledged.source_offset) == (CopyState.RUNNING, 2)
    assert [outgoing.source_first for outgoing in copy.pipeline.ready] == [2]


def test_dead_letters_behind_a_part_of_a_batch_are_written_after_a_crash() -> None:
    """The place lies behind the part: what fails in the rest was not looked at before."""
    first, _ = translating(IdTranslation(1, 11))
    fetched(first, of_ids(0, 1, 3))
    sent = first.take().batch
    log = TargetLog(end=1, tail=parsed(sent.view))
    copy, _ = translating(IdTranslation(1, 11), IdTranslation(3, None), errors="dead_letter", log=log)
    fetched(copy, of_ids(0, 1, 3))
    letters = copy.dead_letters
    assert letters is not None
    assert [failure.record.offset for failure in letters.failures] == [1]


def test_a_place_before_what_waits_in_its_batch_is_found() -> None:
    """What is not known yet lies behind all that was copied."""
    first, _ = translating(IdTranslation(1, 11))
    fetched(first, of_ids(0, 1, 1, 2))
    sent = first.take().batch
    copy, _ = translating(IdTranslation(1, 11), log=TargetLog(end=2, tail=parsed(sent.view)))
    fetched(copy, of_ids(0, 1, 1, 2))
    assert (copy.state, copy.fetch_offset) == (CopyState.AWAITING_SCHEMA_IDS, 2)
    assert (copy.position.known, copy.acknowledged.source_offset) == (True, 2)
    assert not copy.pipeline.ready
