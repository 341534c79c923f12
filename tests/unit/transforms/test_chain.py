"""Transforms on the records of a batch: against a plain statement of what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.settings import FlowSettings, TransformStep
from mirror_ray.config.transforms import flow_chains
from mirror_ray.model.errors import CorruptBatchError
from mirror_ray.model.names import FlowName, TopicPartition
from mirror_ray.records import decode
from mirror_ray.records.batch import CODECS, Codec, iter_batches
from mirror_ray.records.decode import record_tail, records_of
from mirror_ray.records.repack import encode, pack
from mirror_ray.transforms import Record, Result, Transform
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from mirror_ray.transforms.columns import DecodedColumns, read_records
from mirror_ray.transforms.loading import TransformChains, load_step
from mirror_ray.transforms.record import encode_fields
from tests.unit.records.strategies import Plain, plain_records

SOURCE = TopicPartition("orders", 3)


def values(name: str, options: Mapping[str, Any] | None = None, topics: tuple[str, ...] = (".*",)) -> TransformStep:
    """A step of the configuration."""
    return TransformStep(type=name, options=dict(options or {}), topics=topics)


class Each(Transform):
    """A transform by a function of one record."""

    version = "1"
    pure = True

    def __init__(self, function: Callable[[Record], Result] = lambda record: record) -> None:
        self._function = function

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        return [self._function(record) for record in records]


class Mute(Each):
    """Says nothing of itself."""

    version = ""


class Vague(Each):
    """A text where texts should be."""

    reads = "key"


class Wrong(Each):
    """A field that there is not."""

    reads = ("keys",)


class Short(Each):
    """A filter as it must not be written."""

    pure = False

    def __call__(self, records: Sequence[Record]) -> list[Result]:
        return [*records[1:]]


def _chain(*functions: Callable[[Record], Result]) -> TransformChain:
    return TransformChain(
        tuple(NamedTransform(f"step {number}", Each(function)) for number, function in enumerate(functions)), "it"
    )


def _records(*values: bytes | None, first: int = 10) -> list[decode.DecodedRecord]:
    return [decode.DecodedRecord(first + n, 1000 + n, record_tail(None, value)) for n, value in enumerate(values)]


def _decoded(record: Plain) -> decode.DecodedRecord:
    return decode.DecodedRecord(record.offset, record.timestamp, record_tail(*record.body()))


def _outcome(number: int, record: Record) -> Result:
    match number:
        case 0:
            return None
        case 1:
            return ValueError("no")
        case 2:
            return record._replace(value=None, timestamp_ms=5, headers=(*record.headers, ("ä", b"1")))
        case 3:
            return record._replace(key=b"k" * 100)
    return record


@given(records=plain_records())
def test_a_record_is_what_it_was_when_it_is_closed_again(records: list[Plain]) -> None:
    """Byte by byte, whatever its lengths; a header's name that is no UTF-8, too."""
    odd = Plain(offset=records[-1].offset + 1, timestamp=1, headers=((b"\xff", b"x"),))
    decoded = [_decoded(record) for record in (*records, odd)]
    parsed = read_records(DecodedColumns(decoded), SOURCE)
    assert [encode_fields(record.offset, *record[:4]) for record in parsed] == decoded
    assert [record.value for record in parsed] == [record.value for record in (*records, odd)]


@given(records=plain_records(), data=st.data(), codec=st.sampled_from(CODECS))
def test_a_batch_that_was_transformed_is_what_a_list_would_be(
    records: list[Plain], data: st.DataObject, codec: Codec
) -> None:
    """Decoded, sent through two steps, packed: the same as record after record by hand; offsets are the source's."""
    outcomes = st.dictionaries(st.sampled_from([record.offset for record in records]), st.integers(0, 6))
    plans = [data.draw(outcomes), data.draw(outcomes)]
    expected: list[decode.DecodedRecord] = []
    failed: list[int] = []
    for record in records:
        result: Result = read_records(DecodedColumns([_decoded(record)]), SOURCE)[0]
        for plan in plans:
            if isinstance(result, Record):
                result = _outcome(plan.get(record.offset, 9), result)
        if isinstance(result, Record):
            expected.append(encode_fields(result.offset, *result[:4]))
        elif result is not None:
            failed.append(record.offset)
    chain = _chain(*(lambda record, plan=plan: _outcome(plan.get(record.offset, 9), record) for plan in plans))
    outcome = chain.apply(SOURCE, [_decoded(record) for record in records])
    assert outcome.kept == expected
    assert [failure.record.offset for failure in outcome.failures] == failed
    batch = encode([_decoded(record) for record in records], codec)._replace(last_offset_delta=records[-1].offset + 5)
    pieces = pack(outcome.kept, batch, max_batch_bytes=300_000)
    found = [record for piece in pieces for record in records_of(iter_batches(piece.batch.view)[0])]
    assert [record[1:] for record in found] == [record[1:] for record in expected]
    runs = [offset for piece in pieces for first, count in piece.runs for offset in range(first, first + count)]
    assert runs == [record.offset for record in expected]
    assert all(piece.batch.last_offset_delta + 1 == piece.batch.count for piece in pieces)
    assert not pieces or pieces[-1].next_source_offset == batch.next_offset


def test_a_record_that_is_not_changed_is_not_written_anew() -> None:
    """Its very bytes go on."""
    records = _records(b"a", b"b")
    outcome = _chain(lambda record: record if record.offset == 10 else record._replace(value=b"B")).apply(
        SOURCE, records
    )
    assert outcome.kept[0] is records[0]
    assert outcome.kept[1].value == b"B"


def test_an_exception_is_its_records_alone() -> None:
    """The others are asked for one by one."""

    def raises(record: Record) -> Result:
        if record.value == b"bad":
            raise KeyError("field")
        return record

    outcome = _chain(raises).apply(SOURCE, _records(b"a", b"bad", b"c"))
    assert [record.value for record in outcome.kept] == [b"a", b"c"]
    (failure,) = outcome.failures
    assert failure.record.offset == 11
    assert str(failure) == "step 0: KeyError: 'field'"


@pytest.mark.parametrize(
    "outcome",
    [
        lambda record: record._replace(offset=99),
        lambda record: record._replace(topic="other"),
        lambda record: record._replace(value="text"),
        lambda record: record._replace(timestamp_ms="now"),
        lambda record: record._replace(timestamp_ms=1 << 63),
        lambda record: record._replace(headers=((b"name", b"v"),)),
        lambda record: b"bytes",
    ],
)
def test_results_that_are_none_are_errors(outcome: Callable[[Record], Any]) -> None:
    """Wrong types, another place: the record fails and none is written."""
    found = _chain(outcome).apply(SOURCE, _records(b"a"))
    assert (found.kept, len(found.failures)) == ([], 1)


def test_a_filter_that_shortens_its_list_is_told_so() -> None:
    """It would shift every record behind."""
    found = TransformChain((NamedTransform("short", Short()),), "it").apply(SOURCE, _records(b"a", b"b"))
    assert not found.kept
    assert "None in its place" in str(found.failures[0])


def test_a_step_that_is_left_without_records_is_not_called() -> None:
    """There is nothing that it could do."""

    def never(record: Record) -> Result:
        raise AssertionError(record)

    assert _chain(lambda record: None, never).apply(SOURCE, _records(b"a", b"b")) == ([], [])


def test_bytes_that_are_no_record_are_no_failure_of_a_transform() -> None:
    """The source is damaged: no policy for errors may pass over that."""
    with pytest.raises(CorruptBatchError):
        _chain(lambda record: record).apply(SOURCE, [decode.DecodedRecord(1, 2, b"\x02a\x7f")])


# ---- loading


def test_topics_get_the_steps_whose_patterns_they_match() -> None:
    """In order; a topic that none is for has no chain at all."""
    chains = TransformChains(
        [
            values("mirror_ray.transforms:FilterByKey", {"pattern": "a"}, ("orders", "users")),
            values("mirror_ray.transforms:InsertHeader", {"name": "n", "value": "v"}, ("users",)),
        ]
    )
    assert chains.chain("other") is None
    assert chains.identity("other") == ""
    both, one = chains.chain("users"), chains.chain("orders")
    assert both is not None
    assert one is not None
    assert [step.name for step in both.steps] == [
        "mirror_ray.transforms:FilterByKey",
        "mirror_ray.transforms:InsertHeader",
    ]
    assert both.identity != one.identity
    assert chains.chain("users") is both


def test_heartbeats_stay_as_they_are() -> None:
    """Though a pattern of all topics matches: what is filtered or masked there would break whoever watches them."""
    steps = {"steps": [{"type": "mirror_ray.transforms:FilterByKey", "options": {"pattern": "a"}}]}
    flow = FlowSettings.model_validate({"name": FlowName("A", "B"), "enabled": True, "transforms": steps})
    chains = flow_chains(flow, lambda: ("a", "b"))
    assert chains.chain("orders") is not None
    assert chains.chain("heartbeats") is chains.chain("C.heartbeats") is None


def test_an_identity_tells_options_and_purity_apart() -> None:
    """And is the same in every process."""
    name = "mirror_ray.transforms:InsertHeader"
    one, same, other = (
        TransformChains([values(name, options)]).identity("t")
        for options in ({"name": "a", "value": "b"}, {"value": "b", "name": "a"}, {"name": "a", "value": "c"})
    )
    assert one == same
    assert one.startswith("mirror_ray.transforms:InsertHeader 1 (")
    assert one != other
    impure = TransformChains([values(f"{__name__}:Short")])
    assert impure.identity("t").endswith(", not pure)")


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("mirror_ray.transforms.FilterByKey", {}, "package.module:name"),
        ("no.such.module:Mask", {}, "can't be imported"),
        ("mirror_ray.transforms:Mask", {}, "can't be imported"),
        ("mirror_ray.transforms:FilterByKey", {}, "pattern"),
        ("mirror_ray.transforms:FilterByKey", {"patern": "x"}, "patern"),
        ("mirror_ray.transforms:FilterByKey", {"pattern": "["}, "regular expression"),
        ("builtins:dict", {}, "nothing to call"),
        (f"{__name__}:Mute", {}, "version"),
        (f"{__name__}:Vague", {}, "reads must be a collection of key, value, headers"),
        (f"{__name__}:Wrong", {}, "reads must be a collection of key, value, headers"),
    ],
)
def test_what_cannot_be_loaded_says_why(name: str, options: dict[str, Any], text: str) -> None:
    """Each mistake in the configuration names what is wrong."""
    with pytest.raises(ValueError, match=text):
        load_step(values(name, options))
