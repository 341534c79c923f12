"""Schema ids in records: what is translated, what waits, what fails; by the record kernel and by its reference."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import TopicPartition
from mirror_ray.model.schema_id_counts import NO_SCHEMA_IDS, SchemaIdCounts
from mirror_ray.records import kernel
from mirror_ray.records.batch import RecordBatch
from mirror_ray.records.decode import DecodedRecord, record_tail, records_of
from mirror_ray.records.repack import encode
from mirror_ray.records.schema_id_records import (
    FieldDecision,
    Forgotten,
    GuidTranslation,
    IdsDecision,
    IdTranslation,
    SchemaIdEntry,
)
from mirror_ray.transforms import FilterByKey, InsertHeader, Record
from mirror_ray.transforms.chain import NamedTransform, TransformChain, TransformedRecords
from mirror_ray.transforms.columns import RecordColumns, columns_of
from mirror_ray.transforms.framing import Framing
from mirror_ray.transforms.loading import TransformChains
from mirror_ray.transforms.schema_ids import SchemaIdMap, SchemaIdRules, TopicSchemaIds
from tests.support.kernels import needs_kernel, without_kernel
from tests.support.transforms import by_first, suffix, transforms
from tests.unit.records.test_kernel import cases
from tests.unit.transforms.test_chain import SOURCE, Each
from tests.unit.transforms.test_columns import WIDE, Case

GUID, TARGET_GUID, ABSENT_GUID = bytes(range(16)), bytes(range(16, 32)), b"a" * 16
KNOWN: tuple[SchemaIdEntry, ...] = (
    IdTranslation(17, 4),
    IdTranslation(18, 70_000),
    IdTranslation(19, None),
    GuidTranslation(GUID, TARGET_GUID),
    GuidTranslation(ABSENT_GUID, None),
)
DECIDED = (FieldDecision(SOURCE.topic, "key", False), FieldDecision(SOURCE.topic, "value", True))
WAYS = [pytest.param(True, marks=needs_kernel, id="kernel"), pytest.param(False, id="reference")]

Header = tuple[bytes, bytes | None]
Fields = tuple[bytes | None, bytes | None, tuple[Header, ...]]


def framed(number: int, data: bytes = b"") -> bytes:
    """What a serializer writes."""
    return b"\x00" + number.to_bytes(4, "big", signed=True) + data


def batch_of(records: Sequence[Fields]) -> RecordBatch:
    """At offsets from 0 on."""
    return encode([DecodedRecord(at, 1, record_tail(*fields)) for at, fields in enumerate(records)], "none")


def opened(records: Sequence[Fields], *, native: bool) -> RecordColumns:
    """In columns of one of the two kinds."""
    with nullcontext() if native else without_kernel():
        return columns_of([batch_of(records)], 0, ())


def run(
    records: Sequence[Fields], entries: Sequence[SchemaIdEntry], *, native: bool, chain: TransformChain | None = None
) -> TransformedRecords:
    """By a chain that translates alone, or by another one."""
    ids = TopicSchemaIds(SchemaIdMap(entries), SOURCE.topic, framed=False)
    chain = chain or TransformChain((), "ids", "", ids)
    return chain.run(SOURCE, opened(records, native=native))


def values(done: TransformedRecords) -> list[bytes | None]:
    """Of what is kept."""
    return [record.value for record in done.records.decoded(done.kept)]


DATA = st.one_of(
    st.none(),
    st.binary(max_size=6),
    st.builds(framed, st.sampled_from((-1, 0, 17, 18, 19, 20, 1 << 30)), st.binary(max_size=3)),
)
GUIDS = st.builds(lambda guid: b"\x01" + guid, st.sampled_from((GUID, ABSENT_GUID, b"m" * 16, b"short")))
NAMES = st.sampled_from((b"__key_schema_id", b"__value_schema_id", b"h", b"__value_schema_ids"))
HEADERS = st.lists(st.tuples(NAMES, st.one_of(DATA, GUIDS)), max_size=3)
RECORDS = st.lists(st.tuples(DATA, DATA, HEADERS.map(tuple)), min_size=1, max_size=6)
FRAMINGS = st.sampled_from(get_args(Framing))


@needs_kernel
@given(RECORDS, FRAMINGS, FRAMINGS, st.data())
def test_the_kernel_translates_as_the_reference(
    records: list[Fields], key: Framing, value: Framing, data: st.DataObject
) -> None:
    """Of any records, also of those that a transform has changed: the same bytes, counts and issues."""
    known = SchemaIdMap(KNOWN)
    numbers: Sequence[int] = range(len(records))
    if data.draw(st.booleans()):
        numbers = sorted(data.draw(st.sets(st.sampled_from(list(numbers)))))
    new = {number: data.draw(DATA) for number in data.draw(st.sets(st.sampled_from(range(len(records)))))}
    found = []
    for native in (True, False):
        columns = opened(records, native=native)
        changed = [Record(b"new", content, (), 5, "t", 0, number) for number, content in new.items()]
        assert not changed or not columns.change(list(new), changed)
        before = columns.decoded(range(len(records)))
        done = columns.translate(numbers, known, key=key, value=value)
        after = columns.decoded(range(len(records)))
        assert [len(one.tail) for one in before] == [len(one.tail) for one in after]
        if any(issue.kind != "absent-id" for issue in done.issues):
            assert before == after
            assert not done.translated
        found.append((done, after))
    assert found[0] == found[1]


@pytest.mark.parametrize("native", WAYS)
def test_ids_are_translated_and_all_else_stays(native: bool) -> None:
    """A key that looks framed in a field that is not, and what has no id in one that is."""
    records: list[Fields] = [(framed(99), framed(17, b"a"), ()), (None, b"plain", ()), (b"k", None, ())]
    done = run(records, (*KNOWN, *DECIDED), native=native)
    assert values(done) == [framed(4, b"a"), b"plain", None]
    assert [record.key for record in done.records.decoded(done.kept)] == [framed(99), None, b"k"]
    assert (done.failures, done.waits) == ([], None)


@pytest.mark.parametrize("native", WAYS)
def test_an_id_that_is_not_known_yet_is_waited_for(native: bool) -> None:
    """Nothing is kept; of what lies before it a failure is told, behind it none."""
    records: list[Fields] = [(None, framed(number), ()) for number in (19, 17, 20, 20, 21, 19)]
    done = run(records, (*KNOWN, *DECIDED), native=native)
    assert (list(done.kept), [failure.record.offset for failure in done.failures]) == ([], [0])
    assert "schema id 19, which the source registry does not have" in str(done.failures[0])
    assert done.waits is not None
    assert (done.waits.offset, [issue.schema for issue in done.waits.lacks]) == (2, [20, 21])


@pytest.mark.parametrize("native", WAYS)
def test_a_record_with_an_absent_and_a_missing_id_waits_first(native: bool) -> None:
    """So that nothing of it depends on when which id became known."""
    done = run(
        [(framed(19), framed(20), ()), (None, framed(20), ())],
        (*KNOWN, FieldDecision(SOURCE.topic, "key", True), DECIDED[1]),
        native=native,
    )
    assert (list(done.kept), done.failures) == ([], [])
    assert done.waits is not None
    assert done.waits.offset == 0


@pytest.mark.parametrize("native", WAYS)
def test_a_field_that_is_undecided_waits_once_something_looks_framed(native: bool) -> None:
    """What does not goes on: it comes out the same however it is decided."""
    assert values(run([(None, b"text", ()), (b"k", None, ())], KNOWN, native=native)) == [b"text", None]
    done = run([(None, b"text", ()), (None, framed(17), ())], KNOWN, native=native)
    assert done.waits is not None
    assert (done.waits.offset, done.waits.lacks[0].kind) == (1, "undecided-field")
    header = ((b"__value_schema_id", b"\x01" + GUID),)
    assert run([(None, b"text", header)], KNOWN, native=native).waits is not None
    (kept,) = (done := run([(None, b"text", header)], (*KNOWN, *DECIDED), native=native)).records.decoded(done.kept)
    assert kept.fields()[2] == ((b"__value_schema_id", b"\x01" + TARGET_GUID),)


@pytest.mark.parametrize("native", WAYS)
def test_transforms_see_the_sources_ids(native: bool) -> None:
    """And what they make is translated; what they leave out is not waited for."""
    seen: list[bytes | None] = []

    def step(record: Record) -> Record | None:
        seen.append(record.value)
        value = record.value or b""
        return None if value == framed(99) else record._replace(value=framed(18) if value == b"new" else value + b"!")

    ids = TopicSchemaIds(SchemaIdMap((*KNOWN, *DECIDED)), SOURCE.topic, framed=False)
    chain = TransformChain((NamedTransform("step", Each(step)),), "it", "", ids)
    records: list[Fields] = [(None, value, ()) for value in (framed(17), framed(99), b"new")]
    assert values(run(records, (), native=native, chain=chain)) == [framed(4, b"!"), framed(70_000)]
    assert seen == [framed(17), framed(99), b"new"]


@pytest.mark.parametrize("native", WAYS)
def test_a_failure_has_the_record_of_the_source(native: bool) -> None:
    """Not what transforms have made of it: it may go to the dead letter topic."""
    ids = TopicSchemaIds(SchemaIdMap((*KNOWN, *DECIDED)), SOURCE.topic, framed=False)
    step = Each(lambda record: record._replace(key=b"new", value=framed(19), headers=(), timestamp_ms=9))
    chain = TransformChain((NamedTransform("step", step),), "it", "", ids)
    fields: Fields = (b"k", b"v", ((b"h", None),))
    (failure,) = run([fields], (), native=native, chain=chain).failures
    assert failure.record == DecodedRecord(0, 1, record_tail(*fields))


def test_a_route_waits_and_fails_as_all_do() -> None:
    """Wherever a record goes, its chains agree on it."""
    for destination, kept in (("", [b"x"]), ("eu", []), ("us", [])):
        chains = TransformChains(
            transforms(by_first()).steps, destination=destination, schema_ids=rules(*KNOWN, framed=(".*",))
        )
        chain = chains.chain(SOURCE.topic)
        assert chain is not None
        header = ((b"__value_schema_id", framed(19)),)
        done = run([(None, b"europe", header), (None, b"x", ())], (), native=False, chain=chain)
        assert (values(done), len(done.failures)) == (kept, 1)
        assert done.counts == SchemaIdCounts(unframed=len(kept))
        done = run(
            [(None, b"x", ()), (None, b"usa", ((b"__value_schema_id", framed(20)),))], (), native=False, chain=chain
        )
        assert done.waits is not None


def rules(*entries: SchemaIdEntry, **patterns: Any) -> SchemaIdRules:
    """Of a flow that translates."""
    return SchemaIdRules(SchemaIdMap(entries), exempt=lambda topic: topic == "heartbeats", **patterns)


def test_patterns_decide_first() -> None:
    """A topic that is plain has no chain; of one that is framed no decision is looked for."""
    chains = TransformChains((), schema_ids=rules(framed=("orders",), plain=("logs.*",)))
    assert chains.chain("logs-1") is None
    assert chains.chain("heartbeats") is None
    orders, other = chains.chain("orders"), chains.chain("other")
    assert orders is not None
    assert other is not None
    assert orders.schema_ids is not None
    assert other.schema_ids is not None
    assert (orders.schema_ids.framing("key"), other.schema_ids.framing("key")) == ("framed", "undecided")
    assert other.schema_ids.known is not None
    other.schema_ids.known.update([FieldDecision("other", "key", False)])
    assert other.schema_ids.framing("key") == "plain"


def test_the_identity_says_that_ids_are_translated() -> None:
    """With and without transforms; without ids it is as it always was."""
    plain = TransformChains(transforms(suffix()).steps)
    both = TransformChains(transforms(suffix()).steps, schema_ids=rules())
    alone = TransformChains((), schema_ids=rules())
    assert both.identity("t") == f"{plain.identity('t')} + schema ids translated"
    assert alone.identity("t") == "schema ids translated"
    chain = alone.chain("t")
    assert chain is not None
    assert (chain.pure, chain.routes, chain.reads) == (True, False, frozenset())


def test_without_a_map_records_are_counted_as_they_are() -> None:
    """For those who look which records were copied, by a chain of this identity."""
    chain = TransformChains((), schema_ids=SchemaIdRules(None)).chain("t")
    assert chain is not None
    records = [DecodedRecord(0, 1, record_tail(None, framed(99)))]
    assert chain.apply(TopicPartition("t", 0), records).kept == records


@pytest.mark.parametrize("native", WAYS)
def test_what_was_forgotten_is_decided_anew(native: bool) -> None:
    """Entries in order; after a restart of the topic nothing is known."""
    known = SchemaIdMap((*KNOWN, *DECIDED, IdsDecision("translated")))
    known.update([Forgotten(17), Forgotten(GUID), Forgotten((SOURCE.topic, "value")), Forgotten(None)])
    ids = TopicSchemaIds(known, SOURCE.topic, framed=False)
    chain = TransformChain((), "ids", "", ids)

    def lacks(*records: Fields) -> list[str]:
        waits = chain.run(SOURCE, opened(records, native=native)).waits
        return [] if waits is None else [issue.kind for issue in waits.lacks]

    header = ((b"__value_schema_id", b"\x01" + GUID),)
    assert lacks((None, framed(17), ())) == ["undecided-field"]
    known.update([DECIDED[1], Forgotten(18), IdTranslation(18, 5)])
    assert lacks((None, framed(17), header), (None, framed(17), ())) == ["missing-id", "missing-id"]
    assert lacks((None, framed(18), ())) == []
    known.clear()
    assert (known.ids, known.guids, known.framing(SOURCE.topic, "value")) == ({}, {}, "undecided")
    known.update([DECIDED[1]])
    assert lacks((None, framed(18), ())) == ["missing-id"]


def test_records_are_applied_up_to_one_that_waits() -> None:
    """For those who compare copies: what follows was not copied."""
    ids = TopicSchemaIds(SchemaIdMap((*KNOWN, *DECIDED)), SOURCE.topic, framed=False)
    numbers = (17, 19, 18, 20, 17)
    records = [DecodedRecord(at, 1, record_tail(None, framed(number))) for at, number in enumerate(numbers)]
    result = TransformChain((), "ids", "", ids).apply(SOURCE, records)
    assert [record.offset for record in result.kept] == [0, 2]
    assert [failure.record.offset for failure in result.failures] == [1]


def test_steps_before_are_not_disturbed() -> None:
    """A filter that reads keys alone, a header that is put on."""
    for step in (FilterByKey("k.*"), InsertHeader("h", "1")):
        ids = TopicSchemaIds(SchemaIdMap(KNOWN), SOURCE.topic, framed=True)
        chain = TransformChain((NamedTransform("step", step),), "it", "", ids)
        assert values(run([(b"k", framed(17), ())], (), native=False, chain=chain)) == [framed(4)]


@needs_kernel
@given(cases(), FRAMINGS, FRAMINGS, st.sampled_from((0, 300, WIDE)))
def test_in_one_pass_it_comes_out_the_same(case: Case, key: Framing, value: Framing, merge_bytes: int) -> None:
    """Batches of every magic and codec, from any offset on, without any ranges; or something is in the way."""
    batches, from_offset, leave_out = case
    known = SchemaIdMap(KNOWN)
    columns = columns_of(batches, from_offset, leave_out)
    done = columns.translate(range(len(columns)), known, key=key, value=value)
    made = kernel.repack_translated(
        batches,
        known.native,
        key=key,
        value=value,
        codec="none",
        merge_bytes=merge_bytes,
        max_batch_bytes=WIDE,
        from_offset=from_offset,
        leave_out=leave_out,
    )
    assert (made is None) is bool(done.issues)
    if made is not None:
        assert sum((piece.schema_ids for piece in made), NO_SCHEMA_IDS) == SchemaIdCounts(*done[:2])
        found = [record for piece in made for record in records_of(piece.batch)]
        wanted = columns.decoded(range(len(columns)))
        assert [(record.timestamp, record.tail) for record in found] == [(one.timestamp, one.tail) for one in wanted]
        runs = [first + at for piece in made for first, count in piece.runs for at in range(count)]
        assert runs == [record.offset for record in wanted]


@needs_kernel
@given(RECORDS, FRAMINGS, FRAMINGS)
def test_in_one_pass_ids_come_out_the_same(records: list[Fields], key: Framing, value: Framing) -> None:
    """Of records that have some."""
    known, batch = SchemaIdMap(KNOWN), batch_of(records)
    columns = columns_of([batch], 0, ())
    done = columns.translate(range(len(columns)), known, key=key, value=value)
    made = kernel.repack_translated(
        [batch], known.native, key=key, value=value, codec="none", merge_bytes=0, max_batch_bytes=WIDE, from_offset=0
    )
    assert (made is None) is bool(done.issues)
    if made is not None:
        assert made[0].schema_ids == SchemaIdCounts(*done[:2])
        assert [one.tail for one in records_of(made[0].batch)] == [
            one.tail for one in columns.decoded(range(len(columns)))
        ]
