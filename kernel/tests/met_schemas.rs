//! Which schemas records have the ids of.

mod support;

use std::collections::HashSet;

use _kernel::codecs::Codec;
use _kernel::fields::tail_of;
use _kernel::met_schemas::MetSchemas;
use _kernel::schema_ids::Framing::{Framed, Plain, Undecided};
use _kernel::schema_ids::{Framing, Schema};
use support::{Owned, batch};

const GUID: [u8; 16] = [7; 16];

fn framed(id: i32) -> Vec<u8> {
    [&[0], &id.to_be_bytes()[..], b"data"].concat()
}

fn met(tails: &[Vec<u8>], framing: [Framing; 2], most: usize) -> MetSchemas {
    let mut met = MetSchemas::new(framing, most);
    let records: Vec<Owned> = (0..).zip(tails).map(|(offset, tail)| (offset, 1, tail.clone())).collect();
    met.take(&[&batch(&records, Codec::Zstd, 0)], &(1..1000), &[(3, 5)]).unwrap();
    met
}

fn values(ids: impl IntoIterator<Item = i32>) -> Vec<Vec<u8>> {
    ids.into_iter().map(|id| tail_of(None, Some(&framed(id)), &[])).collect()
}

#[test]
fn each_id_in_the_span_is_met_once() {
    let found = met(&values([1, 2, 2, 3, 4, 2, 5, 0, -1]), [Plain, Framed], 10);
    let [key, value] = found.found();
    assert_eq!(*value.0, HashSet::from([Schema::Id(2), Schema::Id(5)]));
    assert!(value.1.is_empty() && key.0.is_empty() && !found.overflowed());
}

#[test]
fn a_header_counts_and_not_what_the_data_begins_with() {
    let guid = [&[1], &GUID[..]].concat();
    let tail = tail_of(Some(&framed(3)), Some(&framed(4)), &[(b"__value_schema_id", Some(&guid))]);
    let tails = [tail.clone(), tail];
    for (framing, expected) in [(Framed, true), (Undecided, true), (Plain, false)] {
        let found = met(&tails, [Framed, framing], 10);
        let [key, value] = found.found();
        assert_eq!((key.0, value.0.contains(&Schema::Guid(GUID))), (&HashSet::from([Schema::Id(3)]), expected));
        assert!(value.1.is_empty());
    }
}

#[test]
fn what_looks_like_ids_in_an_undecided_field_is_kept_apart() {
    let found = met(&values(0..300), [Undecided, Undecided], 10);
    let [_, value] = found.found();
    assert!(value.0.is_empty() && !found.overflowed());
    assert_eq!(value.1.len(), 100);
}

#[test]
fn more_than_are_kept_are_noticed() {
    for (count, overflowed) in [(2, false), (3, true)] {
        let ids = [1].into_iter().chain((1..=count).cycle().filter(|id| *id <= count).take(40));
        let found = met(&values(ids), [Plain, Framed], 2);
        assert_eq!((found.found()[1].0.len(), found.overflowed()), (2, overflowed));
    }
}
