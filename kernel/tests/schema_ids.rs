//! Schema ids are changed where they are ids, to the byte, and all else stays.

mod support;

use std::collections::HashMap;

use _kernel::codecs::Codec;
use _kernel::columns::{Change, Columns, Field, Packing};
use _kernel::fields::{HeaderField, tail_of};
use _kernel::repack::{Repacking, repack_translated};
use _kernel::schema_ids::Framing::{Framed, Plain, Undecided};
use _kernel::schema_ids::{Framing, IdCounts, Issue, Kind, Schema, Translated, Translations};
use proptest::prelude::*;
use support::{Owned, batch, records_of};

const KNOWN: [u8; 16] = [7; 16];
const TARGET: [u8; 16] = [8; 16];

fn translations() -> Translations {
    Translations {
        ids: HashMap::from([(17, Some(4)), (18, Some(70_000)), (19, None)]),
        guids: HashMap::from([(KNOWN, Some(TARGET)), ([9; 16], None)]),
    }
}

fn framed(id: i32, data: &[u8]) -> Vec<u8> {
    [&[0], &id.to_be_bytes()[..], data].concat()
}

fn opened(tails: &[Vec<u8>]) -> Columns {
    let records: Vec<Owned> = (0..).zip(tails).map(|(offset, tail)| (offset, 1, tail.clone())).collect();
    let data = batch(&records, Codec::None, 0);
    Columns::read(&[&data], 0, &[]).unwrap()
}

fn tails(columns: &Columns) -> Vec<Vec<u8>> {
    columns.records().map(|record| record.tail.to_vec()).collect()
}

fn translate(columns: &mut Columns, framing: [Framing; 2]) -> Translated {
    columns.translate(0..columns.len(), &translations(), framing).unwrap()
}

fn value(value: &[u8]) -> Vec<u8> {
    tail_of(None, Some(value), &[])
}

fn guid_header(guid: [u8; 16]) -> Vec<u8> {
    [&[1], &guid[..]].concat()
}

#[test]
fn both_fields_are_translated_and_null_ones_are_not_counted() {
    let (key, other) = (framed(17, b""), framed(18, b"data"));
    let mut columns =
        opened(&[tail_of(Some(&key), Some(&other), &[]), tail_of(None, None, &[]), tail_of(Some(b"k"), None, &[])]);
    let done = translate(&mut columns, [Framed, Framed]);
    assert_eq!(done, Translated { translated: 2, unframed: 1, issues: Vec::new() });
    let expected = tail_of(Some(&framed(4, b"")), Some(&framed(70_000, b"data")), &[]);
    assert_eq!(tails(&columns), [expected, tail_of(None, None, &[]), tail_of(Some(b"k"), None, &[])]);
}

#[test]
fn what_is_plain_or_no_id_stays() {
    let no_ids = [framed(0, b""), framed(-1, b"1"), framed(17, b"")[..4].to_vec(), vec![1, 0, 0, 0, 17], Vec::new()];
    let before: Vec<_> = no_ids.iter().map(|bytes| value(bytes)).collect();
    for (framing, unframed) in [(Plain, 0), (Undecided, 0), (Framed, 5)] {
        let mut columns = opened(&before);
        assert_eq!(translate(&mut columns, [framing; 2]), Translated { unframed, ..Translated::default() });
        assert_eq!(tails(&columns), before);
    }
    let mut columns = opened(&[value(&framed(99, b""))]);
    assert_eq!(translate(&mut columns, [Framed, Plain]), Translated::default());
}

#[test]
fn a_header_counts_and_not_what_the_data_begins_with() {
    let (id, guid) = (framed(17, b""), guid_header(KNOWN));
    let looks_framed = framed(99, b"data");
    let headers: [HeaderField; 3] =
        [(b"h", None), (b"__value_schema_id", Some(&guid)), (b"__value_schema_id", Some(&id))];
    let mut columns = opened(&[tail_of(Some(b"key"), Some(&looks_framed), &headers)]);
    let done = translate(&mut columns, [Plain, Framed]);
    assert_eq!(done, Translated { translated: 2, ..Translated::default() });
    let (id, guid) = (framed(4, b""), guid_header(TARGET));
    let headers: [HeaderField; 3] =
        [(b"h", None), (b"__value_schema_id", Some(&guid)), (b"__value_schema_id", Some(&id))];
    assert_eq!(tails(&columns), [tail_of(Some(b"key"), Some(&looks_framed), &headers)]);
    // Null, too long, of another kind: they say nothing.
    for odd in [None, Some(&b"\0\0\0\0\x11\0"[..]), Some(&b"\x02\0\0\0\x11"[..]), Some(&[1; 16][..])] {
        let before = tail_of(Some(&framed(17, b"k")), None, &[(b"__key_schema_id", odd)]);
        let mut columns = opened(&[before]);
        assert_eq!(translate(&mut columns, [Framed, Framed]).translated, 1);
        assert_eq!(tails(&columns), [tail_of(Some(&framed(4, b"k")), None, &[(b"__key_schema_id", odd)])]);
    }
}

#[test]
fn a_record_with_an_absent_id_is_left_as_it_is() {
    let (known, absent) = (framed(17, b""), framed(19, b""));
    let guid = guid_header([9; 16]);
    let before = [
        tail_of(Some(&known), Some(&absent), &[]),
        tail_of(Some(&known), None, &[]),
        tail_of(None, Some(b"v"), &[(b"__value_schema_id", Some(&guid))]),
    ];
    let mut columns = opened(&before);
    let done = translate(&mut columns, [Framed, Framed]);
    let issue = |number, schema| Issue { number, field: 1, schema, kind: Kind::Absent };
    let issues = vec![issue(0, Schema::Id(19)), issue(2, Schema::Guid([9; 16]))];
    assert_eq!(done, Translated { translated: 1, unframed: 0, issues });
    assert_eq!(tails(&columns), [before[0].clone(), tail_of(Some(&framed(4, b"")), None, &[]), before[2].clone()]);
}

#[test]
fn nothing_is_translated_while_anything_is_missing() {
    for (id, framing, kind) in [(20, Framed, Kind::Missing), (17, Undecided, Kind::Undecided)] {
        let one = framed(id, b"");
        let known = framed(18, b"");
        let before = [tail_of(Some(&known), Some(b"x"), &[]), tail_of(Some(&known), Some(&one), &[])];
        let before = [&before[..], &before[1..]].concat();
        let mut columns = opened(&before);
        let done = translate(&mut columns, [Framed, framing]);
        // Told once, at the first of its records.
        assert_eq!(done.issues, [Issue { number: 1, field: 1, schema: Schema::Id(id), kind }]);
        assert_eq!((done.translated, tails(&columns)), (0, before));
        // What comes before it can be.
        assert_eq!(columns.translate([0], &translations(), [Framed, framing]).unwrap().translated, 1);
    }
}

#[test]
fn what_a_transform_has_made_of_a_record_counts() {
    let mut columns = opened(&[value(&framed(99, b"old")), value(&framed(17, b"kept"))]);
    let new = framed(18, b"new");
    let headers = Field::Given(vec![(&b"h"[..], None)]);
    let change = Change { timestamp: 5, key: Field::Kept, value: Field::Given(Some(&new)), headers };
    columns.change(0, &change).unwrap();
    assert_eq!(translate(&mut columns, [Framed, Framed]).translated, 2);
    let made = tail_of(None, Some(&framed(70_000, b"new")), &[(b"h", None)]);
    assert_eq!(tails(&columns), [made.clone(), value(&framed(4, b"kept"))]);
    let how = Packing { codec: Codec::None, merge_bytes: 0, max_batch_bytes: 1 << 20 };
    let pieces = columns.pack(&[0, 1], &how).unwrap();
    let packed: Vec<_> = records_of(&pieces[0].bytes).unwrap().0.into_iter().map(|record| record.2).collect();
    assert_eq!(packed, [made, value(&framed(4, b"kept"))]);
    assert!(columns.translate([2], &translations(), [Framed, Framed]).is_err());
}

#[test]
fn what_is_repacked_is_translated_on_the_way_or_not_at_all() {
    let how =
        Repacking { codec: Codec::None, merge_bytes: 0, max_batch_bytes: 1 << 20, from_offset: 1, leave_out: &[] };
    let repacked = |ids: [i32; 3]| {
        let records: Vec<Owned> = (0..).zip(ids).map(|(offset, id)| (offset, 1, value(&framed(id, b"v")))).collect();
        let data = batch(&records, Codec::Zstd, 0);
        let made = repack_translated(&[&data], &how, &translations(), [Plain, Framed]).unwrap();
        made.map(|(pieces, counts)| (records_of(&pieces[0].bytes).unwrap().0, counts))
    };
    let (made, counts) = repacked([19, 17, 18]).unwrap();
    assert_eq!(counts, IdCounts { translated: 2, unframed: 0 });
    // No number is 0.
    assert_eq!(repacked([17, 0, 18]).unwrap().1, IdCounts { translated: 1, unframed: 1 });
    assert_eq!(made[0], (1, 1, value(&framed(4, b"v"))));
    assert_eq!(made[1], (2, 1, value(&framed(70_000, b"v"))));
    assert_eq!((repacked([17, 17, 19]), repacked([17, 20, 17])), (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_but_ids_is_changed(
        fields in prop::collection::vec((prop::option::of(prop::collection::vec(0..20_u8, 0..8)), 0..3_usize), 1..8),
    ) {
        let (id, guid) = (framed(17, b""), guid_header(KNOWN));
        let headers: [HeaderField; 2] = [(b"__key_schema_id", Some(&id)), (b"__key_schema_id", Some(&guid))];
        let before: Vec<_> = fields
            .iter()
            .map(|(value, headers_count)| tail_of(Some(b"k"), value.as_deref(), &headers[..*headers_count]))
            .collect();
        let mut columns = opened(&before);
        let done = translate(&mut columns, [Framed, Framed]);
        let differing: usize = before.iter().zip(tails(&columns)).map(|(one, other)| {
            assert_eq!(one.len(), other.len());
            usize::from(*one != other)
        }).sum();
        prop_assert!(differing <= done.translated);
        let waits = done.issues.iter().any(|issue| issue.kind != Kind::Absent);
        prop_assert!(!waits || (done.translated, differing) == (0, 0));
    }
}
