"""The transforms that come with mirror-ray."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.transforms import FilterByKey, InsertHeader, MaskJsonFields, Record


def _record(key: bytes | None = b"k", value: bytes | None = b"v", **fields: object) -> Record:
    return Record(key, value, (), 7, "orders", 0, 41)._replace(**fields)  # type: ignore[arg-type]


def _masked(value: bytes | None, fields: str = "user.email") -> object:
    (result,) = MaskJsonFields(fields)([_record(value=value)])
    return result.value if isinstance(result, Record) else result


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        (b'{"user": {"email": "a@b", "n": 1}}', b'{"user":{"email":"***","n":1}}'),
        (b'{"user":{"\\u0065mail":"a@b"}}', b'{"user":{"email":"***"}}'),
        (b'{"user":[{"email":1},{"x":2},{"email":[3]}]}', b'{"user":[{"email":"***"},{"x":2},{"email":"***"}]}'),
        (b'{"user":{"email":"a","email":"b"}}', b'{"user":{"email":"***"}}'),
        ('{"user":{"email":"a"},"ort":"Köln"}'.encode(), '{"user":{"email":"***"},"ort":"Köln"}'.encode()),
        (None, None),
    ],
    ids=["nested", "escaped name", "in a list", "twice", "not ASCII", "tombstone"],
)
def test_a_field_is_masked_wherever_it_is(value: bytes | None, masked: bytes | None) -> None:
    """Escapes, lists and repeated names hide nothing."""
    assert _masked(value) == masked


@pytest.mark.parametrize("value", [b'{ "user" : "none" }', b"[1, 2]", b"3", b'{"email": 1.50}'])
def test_a_value_without_the_field_stays_byte_by_byte(value: bytes) -> None:
    """Nothing is written anew that need not be."""
    assert _masked(value) == value


@pytest.mark.parametrize("value", [b"", b"{", b"\xff\xfe{", b"[" * 100_000], ids=["empty", "cut", "bytes", "deep"])
def test_what_is_no_json_is_an_error_of_its_record_alone(value: bytes) -> None:
    """It may hold what was to be masked, so it must not pass."""
    good = _record(value=b'{"user":{"email":1}}')
    first, second, third = MaskJsonFields(["user.email"])([good, _record(value=value), good])
    assert isinstance(second, ValueError | RecursionError)
    assert isinstance(first, Record)
    assert first == third


@given(keys=st.lists(st.none() | st.binary(max_size=6)))
def test_a_filter_and_its_opposite_share_the_records(keys: list[bytes | None]) -> None:
    """What the one keeps the other leaves out, for any bytes."""
    records = [_record(key=key) for key in keys]
    kept, others = FilterByKey("[a-m].*")(records), FilterByKey("[a-m].*", drop="true")(records)
    for record, one, other in zip(records, kept, others, strict=True):
        assert {id(one), id(other)} == {id(record), id(None)}
    assert all(one is None for record, one in zip(records, kept, strict=True) if record.key is None)


def test_a_pattern_matches_the_whole_key() -> None:
    """As topic patterns do."""
    assert FilterByKey("eu")([_record(key=b"eu-1")]) == [None]


def test_a_header_comes_behind_the_others() -> None:
    """Or takes the place of those of its name."""
    record = _record(headers=(("site", b"x"), ("a", None), ("site", b"y")))
    added, replaced = (InsertHeader("site", "eu", replace=replace)([record])[0] for replace in (False, True))
    assert isinstance(added, Record)
    assert isinstance(replaced, Record)
    assert added == record._replace(headers=(*record.headers, ("site", b"eu")))
    assert replaced.headers == (("a", None), ("site", b"eu"))


@pytest.mark.parametrize(
    "build",
    [
        lambda: MaskJsonFields(""),
        lambda: MaskJsonFields(["a..b"]),
        lambda: MaskJsonFields([]),
        lambda: FilterByKey("["),
        lambda: FilterByKey(".*", drop="maybe"),
        lambda: InsertHeader("", "v"),
    ],
)
def test_options_that_make_no_sense_are_refused(build: object) -> None:
    """When the configuration is loaded, not at the first record."""
    with pytest.raises(ValueError):
        build()  # type: ignore[operator]
