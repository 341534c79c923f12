"""What of a record stays as it is when its schema ids are translated."""

from __future__ import annotations

from mirror_ray.records.decode import record_tail
from mirror_ray.records.schema_id_records import FieldDecision
from mirror_ray.transforms.framing import without_ids
from tests.unit.transforms.test_chain import SOURCE
from tests.unit.transforms.test_schema_ids import GUID, KNOWN, framed, run


def test_without_ids_a_record_is_what_it_was_before_they_were_translated() -> None:
    """In the fields and in their headers; all else still tells records from one another."""
    guids = (b"__key_schema_id", b"\x01" + GUID)
    before = [(framed(17, b"key"), framed(18, b"value"), ()), (b"key", framed(17), (guids,))]
    entries = [*KNOWN, FieldDecision(SOURCE.topic, "key", True), FieldDecision(SOURCE.topic, "value", True)]
    done = run(before, entries, native=False)
    after = [record.tail for record in done.records.decoded(done.kept)]
    tails = [record_tail(*fields) for fields in before]
    assert not set(after) & set(tails)
    assert [*map(without_ids, after)] == [*map(without_ids, tails)]
    assert without_ids(tails[0]) != without_ids(record_tail(framed(17, b"key"), framed(18, b"other"), ()))
    plain = record_tail(b"key", b"\0\0\0", ((guids[0], GUID),))
    assert without_ids(plain) == plain
