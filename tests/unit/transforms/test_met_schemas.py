"""Which schemas records have the ids of: by the record kernel and by its reference."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.transforms.framing import Framing
from mirror_ray.transforms.met_schemas import NOTHING_MET, MetSchemas, SchemaCollector, SchemasWanted
from tests.support.kernels import needs_kernel, without_kernel
from tests.unit.transforms.test_schema_ids import FRAMINGS, GUID, RECORDS, WAYS, Fields, batch_of, framed

EVERY = (0, 1 << 40)


def met(
    records: list[Fields], key: Framing, value: Framing, *, native: bool, most: int = 1000, leave_out: int = -1
) -> MetSchemas:
    """Of records behind the first one, without another."""
    wanted = SchemasWanted(key, value, (1, 1 << 40), ((leave_out, leave_out + 1),))
    with nullcontext() if native else without_kernel():
        collector = SchemaCollector(wanted, most)
        for _ in range(2):
            collector.take([batch_of(records)])
        return collector.found()


@needs_kernel
@given(RECORDS, FRAMINGS, FRAMINGS, st.integers(0, 4))
def test_the_kernel_meets_the_same_as_the_reference(
    records: list[Fields], key: Framing, value: Framing, leave_out: int
) -> None:
    """Whatever looks like an id, in headers, too."""
    found = [met(records, key, value, native=native, leave_out=leave_out) for native in (True, False)]
    assert found[0] == found[1]


@pytest.mark.parametrize("native", WAYS)
def test_what_is_decided_counts_and_the_rest_is_kept_apart(native: bool) -> None:
    """Of an undecided field a GUID under the serializers' own header is no chance."""
    guid = ((b"__key_schema_id", b"\x01" + GUID),)
    records: list[Fields] = [
        (framed(1), framed(1), ()),
        (framed(2), framed(3), ()),
        (None, framed(4), guid),
        (b"k", None, ()),
    ]
    found = met(records, "undecided", "framed", native=native, leave_out=9)
    assert found == MetSchemas(frozenset({3, 4, GUID}), frozenset({("key", 2)}))
    assert met(records, "plain", "plain", native=native) == NOTHING_MET


@pytest.mark.parametrize("native", WAYS)
def test_no_more_are_kept_than_memory_is_for(native: bool) -> None:
    """That there are more is said."""
    records: list[Fields] = [(None, framed(number), ()) for number in range(6)]
    found = met(records, "plain", "framed", native=native, most=3)
    assert (len(found.schemas), found.overflowed) == (3, True)
    assert not met(records, "plain", "framed", native=native, most=5).overflowed


def test_pieces_of_a_topic_are_put_together() -> None:
    """Each schema once, and whatever was left out of any."""
    one = MetSchemas(frozenset({1}), frozenset({("key", 7)}), True)
    assert one | MetSchemas(frozenset({2})) == MetSchemas(frozenset({1, 2}), frozenset({("key", 7)}), True)
