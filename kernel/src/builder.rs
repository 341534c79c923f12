//! Builds one batch of magic 2 out of records.

use crate::codecs::{Codec, Effort, compress};
use crate::error::{Error, Result, corrupt};
use crate::header::{HEADER_BYTES, Header, NewHeader};
use crate::records::{Record, walk};
use crate::varint;

/// A new batch, and what its acknowledgement will mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Whole and valid: `CreateTime`, offsets without a gap, no producer; its base offset is `source_first`.
    pub bytes: Vec<u8>,
    /// Source offset of the first record.
    pub source_first: i64,
    /// Source offset of the last record.
    pub source_last: i64,
    /// Where the source goes on behind it.
    pub source_next: i64,
    /// The source's leader epoch at `source_next`; -1 where it is not known.
    pub leader_epoch: i32,
    /// Its records as runs without a gap on the source: first offset, number of records.
    pub runs: Vec<(i64, i64)>,
    /// Bytes that it would have without compression.
    pub uncompressed_bytes: usize,
    /// Bytes of the source's batches that it was made of; of one that was divided, its share.
    pub source_bytes: usize,
    /// Its records by age, in order: the newest timestamp of some that follow each other, and how many they are.
    pub ages: Vec<(i64, i64)>,
}

/// Source batches whose newest records are closer to the first one's than this are of one age.
const ONE_AGE_MS: u64 = 10;

/// Records that become one batch.
#[derive(Debug)]
pub struct Builder {
    /// Room for a header, and the records behind it.
    batch: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    source_last: i64,
    runs: Vec<(i64, i64)>,
    source_bytes: usize,
    ages: Vec<(i64, i64)>,
    /// Newest timestamp of the last age's first source batch.
    age_begins: i64,
    /// Of the source batch that is being added.
    newest_timestamp: i64,
    added: i64,
}

impl Builder {
    /// Begins a batch that may get so many bytes of records.
    pub fn with_room(bytes: usize) -> Builder {
        let mut batch = Vec::with_capacity(HEADER_BYTES + bytes);
        batch.resize(HEADER_BYTES, 0);
        Builder {
            batch,
            count: 0,
            base_timestamp: 0,
            max_timestamp: i64::MIN,
            source_last: -1,
            runs: Vec::new(),
            source_bytes: 0,
            ages: Vec::new(),
            age_begins: 0,
            newest_timestamp: i64::MIN,
            added: 0,
        }
    }

    /// Whether it has no record yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the records that it has.
    pub fn records_bytes(&self) -> usize {
        self.batch.len() - HEADER_BYTES
    }

    /// Adds a record at the end.
    #[inline]
    pub fn add(&mut self, record: Record) -> Result<()> {
        // The length, then an unused byte of attributes, timestamp and offset.
        const LENGTH: usize = varint::MAX_BYTES;
        if self.count == 0 {
            self.base_timestamp = record.timestamp;
        } else if self.count == i32::MAX {
            return corrupt("a batch of over 2^31 records");
        }
        let mut prefix = [0; LENGTH + 1 + 2 * varint::MAX_BYTES];
        let mut end = LENGTH + 1;
        end += varint::write(&mut prefix[end..], record.timestamp.wrapping_sub(self.base_timestamp));
        end += varint::write(&mut prefix[end..], self.count.into());
        let length = i64::try_from(end - LENGTH + record.tail.len()).unwrap_or(i64::MAX);
        let begin = LENGTH - varint::size(length);
        varint::write(&mut prefix[begin..], length);
        self.batch.extend_from_slice(&prefix[begin..end]);
        self.batch.extend_from_slice(record.tail);
        self.count += 1;
        self.added += 1;
        self.newest_timestamp = self.newest_timestamp.max(record.timestamp);
        self.source_last = record.offset;
        match self.runs.last_mut() {
            Some((first, count)) if first.wrapping_add(*count) == record.offset => *count += 1,
            _ => self.runs.push((record.offset, 1)),
        }
        Ok(())
    }

    /// The last bytes that were added: the tail of the last record, if they are as many as it has.
    pub(crate) fn last_bytes(&mut self, count: usize) -> &mut [u8] {
        let from = self.batch.len().saturating_sub(count);
        &mut self.batch[from..]
    }

    /// Notes that a source batch of so many bytes was added as a whole.
    pub fn source_batch_ends(&mut self, source_bytes: usize) {
        self.source_bytes += source_bytes;
        if self.added == 0 {
            return;
        }
        let newest = self.newest_timestamp;
        self.max_timestamp = self.max_timestamp.max(newest);
        match self.ages.last_mut() {
            Some((age, count)) if newest.abs_diff(self.age_begins) < ONE_AGE_MS => {
                *age = newest.max(*age);
                *count += self.added;
            }
            _ => {
                self.ages.push((newest, self.added));
                self.age_begins = newest;
            }
        }
        (self.newest_timestamp, self.added) = (i64::MIN, 0);
    }

    /// Ends the batch; where it is over `max_batch_bytes`, it is halved until each part fits.
    ///
    /// `source_next`, `leader_epoch`: where the source goes on behind the last record.
    pub fn finish(
        self,
        codec: Codec,
        max_batch_bytes: usize,
        source_next: i64,
        leader_epoch: i32,
        pieces: &mut Vec<Piece>,
    ) -> Result<()> {
        let Some(&(source_first, _)) = self.runs.first() else {
            return Ok(());
        };
        let uncompressed_bytes = self.batch.len();
        let mut compressed = self.compressed(codec, Effort::Usual)?;
        let mut batch_bytes = compressed.as_ref().map_or(uncompressed_bytes, Vec::len);
        if batch_bytes > max_batch_bytes && self.count == 1 {
            // Its producer may have used a higher level.
            compressed = self.compressed(codec, Effort::Most)?;
            batch_bytes = compressed.as_ref().map_or(uncompressed_bytes, Vec::len);
        }
        if batch_bytes > max_batch_bytes {
            if self.count == 1 {
                return Err(Error::TooLarge { offset: source_first, batch_bytes });
            }
            drop(compressed);
            let (first, second) = self.halves()?;
            let middle = first.source_last.wrapping_add(1);
            first.finish(codec, max_batch_bytes, middle, leader_epoch, pieces)?;
            return second.finish(codec, max_batch_bytes, source_next, leader_epoch, pieces);
        }
        let header = self.header(codec);
        let Builder { source_last, source_bytes, .. } = self;
        let (runs, ages) = (self.runs, self.ages);
        let mut bytes = compressed.unwrap_or(self.batch);
        header.write(&mut bytes)?;
        pieces.push(Piece {
            bytes,
            source_first,
            source_last,
            source_next,
            leader_epoch,
            runs,
            uncompressed_bytes,
            source_bytes,
            ages,
        });
        Ok(())
    }

    /// Room for a header, and the records in this codec; `None` without one.
    fn compressed(&self, codec: Codec, effort: Effort) -> Result<Option<Vec<u8>>> {
        if codec == Codec::None {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.batch.len() / 2);
        bytes.resize(HEADER_BYTES, 0);
        compress(codec, effort, &self.batch[HEADER_BYTES..], &mut bytes)?;
        Ok(Some(bytes))
    }

    fn header(&self, codec: Codec) -> NewHeader {
        NewHeader {
            codec,
            count: self.count,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            base_offset: self.runs.first().map_or(-1, |&(first, _)| first),
        }
    }

    /// The same records as two batches; the first has the smaller half. Their memory is given back.
    fn halves(self) -> Result<(Builder, Builder)> {
        let payload = &self.batch[HEADER_BYTES..];
        let header = Header {
            base_offset: 0,
            size_bytes: self.batch.len(),
            leader_epoch: -1,
            crc: 0,
            attributes: 0,
            last_offset_delta: self.count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            count: self.count,
        };
        let middle = self.count / 2;
        let (mut first, mut second) = (Builder::with_room(payload.len() / 2), Builder::with_room(payload.len() / 2));
        let mut offsets =
            self.runs.iter().flat_map(|&(first, count)| (0..count).map(move |number| first.wrapping_add(number)));
        walk(&header, payload, |record| {
            let half = if first.count < middle { &mut first } else { &mut second };
            half.add(Record { offset: offsets.next().unwrap_or(record.offset), ..record })
        })?;
        first.source_batch_ends(self.source_bytes / 2);
        second.source_batch_ends(self.source_bytes - self.source_bytes / 2);
        Ok((first, second))
    }
}
