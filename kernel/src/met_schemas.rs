//! The schemas that records of a log have the ids of.

use std::collections::HashSet;
use std::ops::Range;

use crate::error::Result;
use crate::records::open;
use crate::schema_ids::{Framing, MOST_TOLD, Schema, for_each_schema};

/// The schemas that records have the ids of, each once.
///
/// Of an undecided field GUIDs in headers count, which nobody has by chance; what looks like an id is kept apart.
#[derive(Clone, Debug)]
pub struct MetSchemas {
    framing: [Framing; 2],
    most: usize,
    /// Of both fields: the id that came last.
    last: [i32; 2],
    found: [HashSet<Schema>; 2],
    candidates: [HashSet<i32>; 2],
    overflowed: bool,
}

impl MetSchemas {
    /// None yet. `most`: how many of each field are kept.
    pub fn new(framing: [Framing; 2], most: usize) -> MetSchemas {
        let (found, candidates) = Default::default();
        MetSchemas { framing, most, last: [0; 2], found, candidates, overflowed: false }
    }

    /// Takes the records in a span of offsets, without those in the ranges `leave_out`, the end not included; of batches of
    /// any magic, whose checksums were compared.
    pub fn take(&mut self, batches: &[&[u8]], span: &Range<i64>, leave_out: &[(i64, i64)]) -> Result<()> {
        let mut scratch = Vec::new();
        for batch in batches {
            open(batch, &mut scratch)?.for_each(|record| {
                let skipped = leave_out.iter().any(|&(first, end)| (first..end).contains(&record.offset));
                if span.contains(&record.offset) && !skipped { self.record(record.tail) } else { Ok(()) }
            })?;
        }
        Ok(())
    }

    /// Of key and value: the schemas of decided fields, with GUIDs of others; and what looks like ids in undecided ones, a
    /// hundred at most.
    pub fn found(&self) -> [(&HashSet<Schema>, &HashSet<i32>); 2] {
        [(&self.found[0], &self.candidates[0]), (&self.found[1], &self.candidates[1])]
    }

    /// Whether there were more than are kept.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    #[inline]
    fn record(&mut self, tail: &[u8]) -> Result<()> {
        let framing = self.framing;
        for_each_schema(tail, 0..tail.len(), framing, |field, _, schema| match (framing[field], schema) {
            (_, Schema::Id(id)) if self.last[field] == id => {}
            (Framing::Undecided, Schema::Id(id)) => {
                self.last[field] = id;
                if self.candidates[field].len() < MOST_TOLD {
                    self.candidates[field].insert(id);
                }
            }
            _ => {
                if let Schema::Id(id) = schema {
                    self.last[field] = id;
                }
                if self.found[field].len() < self.most {
                    self.found[field].insert(schema);
                } else {
                    self.overflowed |= !self.found[field].contains(&schema);
                }
            }
        })?;
        Ok(())
    }
}
