//! Compares two compacted logs in their order: whether all that only one of them has may be gone by log cleaning.
//!
//! The reference is `compacted.compare_in_order` in `mirror_ray/verification`, with the same rule: a record was cleaned on
//! the side that lacks it if that side has an offset gap there, and a newer record of the key or none at all. It only ever
//! says that nothing else differs; where something may, the reference is to find what.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU128;
use std::ops::Range;

use crate::digest::{Digests, SpanReader, fields_of};
use crate::error::Result;

/// All records of two logs, by their digests. Memory is taken for each: 48 bytes, and as much again to compare.
pub struct CleanedComparison {
    digests: Digests,
    sides: [Side; 2],
}

struct Side {
    reader: SpanReader,
    rows: Vec<Row>,
}

struct Row {
    offset: i64,
    key: u128,
    digest: NonZeroU128,
}

impl CleanedComparison {
    /// Of two logs of which nothing is taken yet.
    pub fn new(digests: Digests) -> CleanedComparison {
        let side = || Side { reader: SpanReader::default(), rows: Vec::new() };
        CleanedComparison { digests, sides: [side(), side()] }
    }

    /// Takes the records in a span of offsets from a side's next batches, of any magic and with verified checksums.
    pub fn take(&mut self, side: usize, batches: &[&[u8]], span: &Range<i64>) -> Result<()> {
        let Side { reader, rows } = &mut self.sides[side];
        reader.read(batches, span, |record| {
            let key = fields_of(record)?.key.map(|(from, to)| &record.tail[from..to]);
            let key = self.digests.of_key(key);
            rows.push(Row { offset: record.offset, key, digest: self.digests.of_record(record) });
            Ok(())
        })
    }

    /// How many records were cleaned on either side between these offsets of both, if nothing else differs.
    ///
    /// `superseded` keys have newer records behind the end.
    pub fn cleaned(&self, spans: &[Range<i64>; 2], superseded: &[&[u8]]) -> Option<[usize; 2]> {
        let superseded: HashSet<u128> = superseded.iter().map(|key| self.digests.of_key(Some(key))).collect();
        let [mine, theirs] = [0, 1].map(|side| {
            let Range { start, end } = spans[side];
            let rows = &self.sides[side].rows;
            let rows = &rows[rows.partition_point(|row| row.offset < start)..];
            Log { rows, start, end, lasts: rows.iter().enumerate().map(|(at, row)| (row.key, at)).collect() }
        });
        let mut aligned = equal_rows(mine.rows, theirs.rows);
        if !aligned.is_sorted() {
            return None;
        }
        aligned.push((mine.rows.len(), theirs.rows.len()));
        let (mut before, mut cleaned) = ((0, 0), [0, 0]);
        for behind in aligned {
            let here = [before.0..behind.0, before.1..behind.1];
            for (side, (whole, other)) in [(&mine, &theirs), (&theirs, &mine)].into_iter().enumerate() {
                let one_sided = &whole.rows[here[side].clone()];
                let there = &here[1 - side];
                let has_newer = |row: &Row| {
                    superseded.contains(&row.key) || other.lasts.get(&row.key).is_none_or(|&last| last >= there.start)
                };
                if one_sided.len() > other.gap(there) || !one_sided.iter().all(has_newer) {
                    return None;
                }
                cleaned[1 - side] += one_sided.len();
            }
            before = (behind.0 + 1, behind.1 + 1);
        }
        Some(cleaned)
    }
}

/// What is compared of one side.
struct Log<'a> {
    rows: &'a [Row],
    start: i64,
    end: i64,
    /// The index of each key's last row.
    lasts: HashMap<u128, usize>,
}

impl Log<'_> {
    /// Offsets without a record between the rows around a range of indexes.
    fn gap(&self, range: &Range<usize>) -> usize {
        let first = range.start.checked_sub(1).map_or(self.start, |before| self.rows[before].offset + 1);
        let last = self.rows.get(range.end).map_or(self.end, |row| row.offset);
        usize::try_from(last.saturating_sub(first)).unwrap_or(0).saturating_sub(range.len())
    }
}

/// Indexes of equal rows, ascending on the second side; of several the last ones: cleaning removes the first ones.
fn equal_rows(mine: &[Row], theirs: &[Row]) -> Vec<(usize, usize)> {
    let mut indexes: HashMap<NonZeroU128, Vec<usize>> = HashMap::with_capacity(mine.len());
    for (at, row) in mine.iter().enumerate() {
        indexes.entry(row.digest).or_default().push(at);
    }
    let found = theirs.iter().enumerate().rev();
    let mut found: Vec<_> = found.filter_map(|(at, row)| Some((indexes.get_mut(&row.digest)?.pop()?, at))).collect();
    found.reverse();
    found
}
