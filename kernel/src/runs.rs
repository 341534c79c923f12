//! Finds small batches that follow each other, so that nobody has to look at each of them on the way to being merged.

use std::ops::Range;

use crate::header::{CONTROL_BIT, Header, TIMESTAMP_TYPE_BIT};

/// How many kinds of batches there are: bits 0 to 3 of the attributes, codec and timestamp type.
pub const KINDS: usize = 16;
const KIND_MASK: i16 = 0x0f;

/// Two or more whole batches of magic 2 that follow each other: of one kind and one leader epoch, with the checksums that
/// they say, in ascending offsets; none is a marker, each says that it has records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where its bytes are.
    pub bytes: Range<usize>,
    /// Of its first batch.
    pub base_offset: i64,
    /// Behind its last batch.
    pub next_offset: i64,
    /// The source's.
    pub leader_epoch: i32,
    /// Codec and timestamp type.
    pub kind: i16,
    /// How many.
    pub batches: usize,
}

impl Run {
    fn of(header: &Header, start: usize) -> Run {
        Run {
            bytes: start..start + header.size_bytes,
            base_offset: header.base_offset,
            next_offset: header.next_offset(),
            leader_epoch: header.leader_epoch,
            kind: header.attributes & KIND_MASK,
            batches: 1,
        }
    }

    /// Whether the batch behind it is of the same kind, and is added.
    fn takes(&mut self, next: &Run, most_bytes: usize) -> bool {
        let fits = self.bytes.end == next.bytes.start
            && self.kind == next.kind
            && self.leader_epoch == next.leader_epoch
            && self.next_offset <= next.base_offset
            && next.bytes.end - self.bytes.start <= most_bytes;
        if fits {
            self.bytes.end = next.bytes.end;
            self.next_offset = next.next_offset;
            self.batches += 1;
        }
        fits
    }
}

/// Finds the runs in `data`, the batches of one partition, up to what is no whole batch of magic 2.
///
/// A run holds at most `most_bytes`, and batches of at most `largest` bytes each, by kind; those that log cleaning has
/// taken records out of may be as large as those with `LogAppendTime`.
pub fn runs(data: &[u8], largest: &[usize; KINDS], most_bytes: usize) -> Vec<Run> {
    let mut found: Vec<Run> = Vec::new();
    let mut at = 0;
    while let Ok(header) = Header::read(&data[at..]) {
        if is_small(&header, largest) && header.crc_fits(&data[at..]) {
            let next = Run::of(&header, at);
            if !found.last_mut().is_some_and(|run| run.takes(&next, most_bytes)) {
                found.pop_if(|run| run.batches == 1);
                found.push(next);
            }
        }
        at += header.size_bytes;
    }
    found.pop_if(|run| run.batches == 1);
    found
}

fn is_small(header: &Header, largest: &[usize; KINDS]) -> bool {
    let is_whole = header.last_offset_delta.checked_add(1) == Some(header.count);
    let kind = header.attributes & KIND_MASK | if is_whole { 0 } else { TIMESTAMP_TYPE_BIT };
    let largest = usize::try_from(kind).ok().and_then(|kind| largest.get(kind));
    header.count > 0
        && header.attributes & CONTROL_BIT == 0
        && largest.is_some_and(|&largest| header.size_bytes <= largest)
}
