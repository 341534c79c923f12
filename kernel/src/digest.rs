//! Digests of records, by which compacted logs are compared, and how these are read.
//!
//! A digest is `SipHash` 1-3 of 128 bits with a secret key: who does not know the key can't make two records whose digests
//! are the same.

use std::hash::Hasher;
use std::num::NonZeroU128;
use std::ops::Range;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::error::{Error, Result, corrupt};
use crate::fields::Fields;
use crate::records::{Record, open};

/// How records are digested.
#[derive(Clone, Copy, Debug)]
pub struct Digests {
    /// Another one for each comparison, which nobody knows who writes records.
    pub secret: [u8; 16],
    /// Whether timestamps count.
    pub timestamps: bool,
}

impl Digests {
    /// Of nothing yet.
    pub fn hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.secret)
    }

    /// Of all of a record but its offset.
    pub fn of_record(&self, record: &Record) -> NonZeroU128 {
        let mut hasher = self.hasher();
        hasher.write(record.tail);
        if self.timestamps {
            hasher.write(&record.timestamp.to_le_bytes());
        }
        finished(&hasher)
    }

    /// Of a key; records without one have the same.
    pub fn of_key(&self, key: Option<&[u8]>) -> u128 {
        let Some(key) = key else {
            return 0;
        };
        let mut hasher = self.hasher();
        hasher.write(key);
        finished(&hasher).get()
    }
}

fn finished(hasher: &SipHasher13) -> NonZeroU128 {
    NonZeroU128::new(hasher.finish128().as_u128()).unwrap_or(NonZeroU128::MIN)
}

/// Reads the batches of a log, span by span; spans ascend.
#[derive(Debug)]
pub struct SpanReader {
    /// Offsets before it were read: a log that lost its end and grew again may return earlier records once more.
    reached: i64,
    scratch: Vec<u8>,
}

impl SpanReader {
    /// Calls `visit` for the records in a span of the next batches, of any magic and with verified checksums.
    pub fn read(
        &mut self,
        batches: &[&[u8]],
        span: &Range<i64>,
        mut visit: impl FnMut(&Record) -> Result<()>,
    ) -> Result<()> {
        for batch in batches {
            let first = span.start.max(self.reached);
            let next = open(batch, &mut self.scratch)?
                .for_each(|record| if (first..span.end).contains(&record.offset) { visit(&record) } else { Ok(()) })?;
            // The same batch may have records in the next span, too.
            self.reached = first.max(next.min(span.end));
        }
        Ok(())
    }
}

impl Default for SpanReader {
    /// Of a log of which nothing is read yet.
    fn default() -> SpanReader {
        SpanReader { reached: i64::MIN, scratch: Vec::new() }
    }
}

/// Where a record's fields lie in its tail. All of them must parse.
pub fn fields_of(record: &Record) -> Result<Fields> {
    let named = |error: Error| corrupt(format!("record at source offset {}: {error}", record.offset));
    Fields::read(record.tail).or_else(named)
}
