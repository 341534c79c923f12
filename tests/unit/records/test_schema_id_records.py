"""The records of a flow's schema ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.records.schema_id_records import (
    FieldDecision,
    Forgotten,
    GuidTranslation,
    IdsDecision,
    IdTranslation,
    SchemaIdEntry,
    decode,
    encode,
)

ids = st.integers(0, 2**31 - 1)
guids = st.binary(min_size=16, max_size=16)
entries = st.one_of(
    st.builds(IdTranslation, ids, st.none() | ids),
    st.builds(GuidTranslation, guids, st.none() | guids),
    st.builds(FieldDecision, st.text(max_size=20), st.sampled_from(["key", "value"]), st.booleans()),
    st.builds(IdsDecision, st.sampled_from(["same", "translated"])),
)


@given(entries)
def test_an_entry_is_read_as_it_was_written(entry: SchemaIdEntry) -> None:
    """And a tombstone names what it deletes."""
    key, value = encode(entry)
    assert decode(key, value) == entry
    forgotten = decode(key, None)
    assert isinstance(forgotten, Forgotten)
    match entry:
        case FieldDecision():
            assert forgotten.key == (entry.topic, entry.field)
        case IdsDecision():
            assert forgotten.key is None
        case _:
            assert forgotten.key == entry.source


def test_what_a_newer_version_wrote_is_passed_over() -> None:
    """Whatever its value is."""
    assert decode(b'["rule",1]', b'{"x":1}') is None
    assert decode(b'["id","x"]', b'{"x":1}') is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"{}", b"{}"),
        (b"[]", b"{}"),
        (b"[1]", b"{}"),
        (b'["id",1]', b"[]"),
        (b'["id",1]', b"{}"),
        (b'["id",1]', b'{"target":"4"}'),
        (b'["id",1]', b'{"target":true}'),
        (b'["guid","zz"]', b'{"target":null}'),
        (b'["guid","00"]', b'{"target":null}'),
        (b'["field","t","key"]', b'{"framed":1}'),
        (b'["ids"]', b'{"ids":"other"}'),
        (b"\xff", b"{}"),
        (b"[" * 100_000, b"{}"),
    ],
)
def test_other_bytes_are_refused(key: bytes | None, value: bytes) -> None:
    """Nothing is guessed."""
    with pytest.raises(CorruptRecordError, match="schema ids"):
        decode(key, value)
