//! Compares the records of two logs, whose batches may be cut and compressed otherwise, as long as they are the same.

use crate::codecs::Codec;
use crate::error::{Result, corrupt};
use crate::header::{HEADER_BYTES, Header, TIMESTAMP_TYPE_BIT};
use crate::records::{Opened, open, walk};

/// The codec's bits of the attributes.
const CODEC_BITS: i16 = 0x07;

/// A part of a log: a batch of magic 2 in each of `batches`, in order, and the offsets that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Their checksums were compared.
    pub batches: &'a [&'a [u8]],
    /// First offset.
    pub start: i64,
    /// Behind the last one.
    pub end: i64,
}

/// How far both parts are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Same {
    /// Records that were the same.
    pub records: i64,
    /// What follows them begins there, on either side.
    pub starts: [i64; 2],
    /// Whether what follows was not the same; else one side's batches came to their end.
    pub differs: bool,
}

/// Compares record by record, by their place in the parts: timestamps, if wanted, and key, value and headers.
///
/// Sections that are equal byte for byte are not unpacked, as in the reference: `batch_comparison.have_same_records`.
/// A batch that is unpacked must parse as a whole.
pub fn compare(mine: Part, theirs: Part, timestamps: bool) -> Result<Same> {
    let (mut mine, mut theirs) = (Side::new(mine), Side::new(theirs));
    let mut records = 0;
    let differs = loop {
        if mine.at == mine.rows.len() && theirs.at == theirs.rows.len() {
            records += skip_same_sections(&mut mine, &mut theirs, timestamps)?;
        }
        // No batch is unpacked before the other side's is there: the two may have the same section.
        if !mine.has_next()? || !theirs.has_next()? {
            break false;
        }
        mine.open()?;
        theirs.open()?;
        let same = mine.same_rows(&theirs, timestamps);
        let all = same == mine.left().min(theirs.left());
        records += i64::try_from(same).unwrap_or(i64::MAX);
        mine.skip_rows(same);
        theirs.skip_rows(same);
        if !all {
            break true;
        }
    };
    Ok(Same { records, starts: [mine.start, theirs.start], differs })
}

/// Skips batches that certainly have the same records; returns how many these are.
fn skip_same_sections(mine: &mut Side, theirs: &mut Side, timestamps: bool) -> Result<i64> {
    let mut records = 0;
    while let (Some(here), Some(there)) = (mine.head()?, theirs.head()?) {
        let (first, end) = mine.deltas(&here);
        let is_complete = end - first > i64::from(here.last_offset_delta);
        let is_compacted = here.count - 1 != here.last_offset_delta;
        // The header of a compacted batch does not say which of its records are missing.
        if (first, end) != theirs.deltas(&there)
            || is_compacted && !is_complete
            || !have_same_header(&here, &there, timestamps)
            || mine.section(&here) != theirs.section(&there)
        {
            break;
        }
        records += if is_complete { here.count.into() } else { end - first };
        mine.skip_batch(&here);
        theirs.skip_batch(&there);
    }
    Ok(records)
}

fn have_same_header(mine: &Header, theirs: &Header, timestamps: bool) -> bool {
    let bits = if timestamps { CODEC_BITS | TIMESTAMP_TYPE_BIT } else { CODEC_BITS };
    let times = |header: &Header| timestamps.then_some((header.base_timestamp, header.max_timestamp));
    (mine.count, mine.last_offset_delta) == (theirs.count, theirs.last_offset_delta)
        && (mine.attributes ^ theirs.attributes) & bits == 0
        && times(mine) == times(theirs)
}

/// A record of the batch that is open: where its tail is in the payload.
struct Row {
    offset: i64,
    timestamp: i64,
    from: usize,
    to: usize,
}

struct Side<'a> {
    batches: &'a [&'a [u8]],
    /// Offsets that are neither compared nor unpacked yet.
    start: i64,
    end: i64,
    /// Of the open batch; those before `at` were compared.
    rows: Vec<Row>,
    at: usize,
    scratch: Vec<u8>,
    /// The open batch's payload where it is not compressed.
    plain: Option<&'a [u8]>,
    behind: i64,
}

impl<'a> Side<'a> {
    fn new(part: Part<'a>) -> Side<'a> {
        let Part { batches, start, end } = part;
        Side { batches, start, end, rows: Vec::new(), at: 0, scratch: Vec::new(), plain: None, behind: start }
    }

    fn left(&self) -> usize {
        self.rows.len() - self.at
    }

    /// The next batch with offsets that are compared; those before it are dropped.
    fn head(&mut self) -> Result<Option<Header>> {
        while let Some(batch) = self.batches.first() {
            let header = Header::read(batch)?;
            if header.next_offset() > self.start {
                return Ok((self.start < self.end && header.base_offset < self.end).then_some(header));
            }
            self.batches = &self.batches[1..];
        }
        Ok(None)
    }

    fn has_next(&mut self) -> Result<bool> {
        Ok(self.left() > 0 || self.head()?.is_some())
    }

    fn deltas(&self, header: &Header) -> (i64, i64) {
        let end = self.end.saturating_sub(header.base_offset).min(i64::from(header.last_offset_delta) + 1);
        (self.start.saturating_sub(header.base_offset).max(0), end)
    }

    fn section(&self, header: &Header) -> &'a [u8] {
        self.batches.first().map_or(&[], |batch| &batch[HEADER_BYTES..header.size_bytes])
    }

    fn skip_batch(&mut self, header: &Header) {
        self.start = header.next_offset().min(self.end);
    }

    /// Unpacks the next batch where none is open. It may have no record that is compared.
    fn open(&mut self) -> Result<()> {
        let Some(batch) = self.batches.first().filter(|_| self.left() == 0) else {
            return Ok(());
        };
        let Opened::Batch(header, payload) = open(batch, &mut self.scratch)? else {
            return corrupt("messages of magic 0 and 1 are not compared");
        };
        self.rows.clear();
        self.at = 0;
        let begin = payload.as_ptr().addr();
        let (start, end, rows) = (self.start, self.end, &mut self.rows);
        walk(&header, payload, |record| {
            if (start..end).contains(&record.offset) {
                let from = record.tail.as_ptr().addr() - begin;
                let to = from + record.tail.len();
                rows.push(Row { offset: record.offset, timestamp: record.timestamp, from, to });
            }
            Ok(())
        })?;
        self.plain = (header.codec()? == Codec::None).then(|| &batch[HEADER_BYTES..header.size_bytes]);
        self.behind = header.next_offset().min(self.end);
        self.skip_rows(0);
        Ok(())
    }

    fn payload(&self) -> &[u8] {
        self.plain.unwrap_or(&self.scratch)
    }

    /// How many of the next rows are the same on both sides.
    fn same_rows(&self, theirs: &Side, timestamps: bool) -> usize {
        let (here, there) = (self.payload(), theirs.payload());
        let pairs = self.rows[self.at..].iter().zip(&theirs.rows[theirs.at..]);
        pairs
            .take_while(|(mine, theirs)| {
                here[mine.from..mine.to] == there[theirs.from..theirs.to]
                    && (!timestamps || mine.timestamp == theirs.timestamp)
            })
            .count()
    }

    /// Goes on behind rows that were compared; behind the last one also behind the batch.
    fn skip_rows(&mut self, count: usize) {
        self.at += count;
        match self.rows.get(self.at) {
            None => self.start = self.behind,
            Some(next) => self.start = next.offset,
        }
    }
}
