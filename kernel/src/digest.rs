//! Compares two compacted logs: the last record of each key, and all records in their order, by digests.
//!
//! The reference is `mirror_ray/verification/last_records.py`. A digest is `SipHash` 1-3 of 128 bits with a secret key: who
//! does not know the key can't make two records whose digests are the same. Keys themselves are kept and compared whole.

use std::collections::HashMap;
use std::hash::Hasher;
use std::num::NonZeroU128;
use std::ops::Range;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::error::{Result, corrupt};
use crate::records::{Record, open};
use crate::varint;

/// What is compared, and by which digests.
#[derive(Clone, Debug)]
pub struct Comparing {
    /// Another one for each comparison, which nobody knows who writes records.
    pub secret: [u8; 16],
    /// Whether timestamps count.
    pub timestamps: bool,
    /// Of the CRC-32 of the keys whose last records are compared.
    pub keys: Range<u64>,
    /// Records whose keys have a lower CRC-32 are compared in their order; with `EVERY_KEY` those without a key, too.
    pub ordered_below: u64,
}

/// Behind every CRC-32.
pub const EVERY_KEY: u64 = 1 << 32;

/// The digest of a key's last record on either side; None for a tombstone, and where there is no record.
type LastDigests = [Option<NonZeroU128>; 2];

/// What two logs have of each key. Memory is taken for each key, and for its bytes.
pub struct KeyComparison {
    how: Comparing,
    found: HashMap<Box<[u8]>, LastDigests>,
    key_bytes: usize,
    sides: [Side; 2],
    scratch: Vec<u8>,
}

struct Side {
    /// Offsets before it were taken: a log that lost its end and grew again may return earlier records once more.
    reached: i64,
    records: u64,
    ordered: SipHasher13,
}

impl KeyComparison {
    /// Of two logs of which nothing is taken yet.
    pub fn new(how: Comparing) -> KeyComparison {
        let side = || Side { reached: i64::MIN, records: 0, ordered: SipHasher13::new_with_key(&how.secret) };
        let sides = [side(), side()];
        KeyComparison { how, found: HashMap::new(), key_bytes: 0, sides, scratch: Vec::new() }
    }

    /// Takes the records in a span of offsets from a side's next batches, of any magic and with verified checksums.
    pub fn take(&mut self, side: usize, batches: &[&[u8]], span: &Range<i64>) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        for batch in batches {
            let first = span.start.max(self.sides[side].reached);
            let next = open(batch, &mut scratch)?.for_each(|record| {
                if (first..span.end).contains(&record.offset) { self.take_record(side, &record) } else { Ok(()) }
            })?;
            // The same batch may have records in the next span, too.
            self.sides[side].reached = first.max(next.min(span.end));
        }
        self.scratch = scratch;
        Ok(())
    }

    fn take_record(&mut self, side: usize, record: &Record) -> Result<()> {
        let fields = Fields::read(record)?;
        // Without a key it has the highest one: it is compared in order where every key is.
        let crc = fields.key.map_or(EVERY_KEY - 1, |key| u64::from(crc32fast::hash(key)));
        let key = fields.key.filter(|_| self.how.keys.contains(&crc));
        let is_ordered = crc < self.how.ordered_below;
        if key.is_none() && !is_ordered {
            return Ok(());
        }
        let digest = self.digest(record);
        let Side { records, ordered, .. } = &mut self.sides[side];
        if is_ordered {
            ordered.write(&digest.get().to_le_bytes());
        }
        if let Some(key) = key {
            *records += 1;
            let digests = if let Some(digests) = self.found.get_mut(key) {
                digests
            } else {
                self.key_bytes += key.len();
                self.found.entry(key.into()).or_default()
            };
            digests[side] = Some(digest).filter(|_| !fields.is_tombstone);
        }
        Ok(())
    }

    fn digest(&self, record: &Record) -> NonZeroU128 {
        let mut hasher = SipHasher13::new_with_key(&self.how.secret);
        hasher.write(record.tail);
        if self.how.timestamps {
            hasher.write(&record.timestamp.to_le_bytes());
        }
        NonZeroU128::new(hasher.finish128().as_u128()).unwrap_or(NonZeroU128::MIN)
    }

    /// How many records with a key were taken, of either side.
    pub fn records(&self) -> [u64; 2] {
        [self.sides[0].records, self.sides[1].records]
    }

    /// How many keys there are, and the bytes of all of them.
    pub fn keys(&self) -> (usize, usize) {
        (self.found.len(), self.key_bytes)
    }

    /// Whether both sides have the same records in the same order.
    pub fn is_same(&self) -> bool {
        self.sides[0].ordered.finish128() == self.sides[1].ordered.finish128()
    }

    /// The keys whose last records differ.
    pub fn differing_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.found.iter().filter(|(_, [mine, theirs])| mine != theirs).map(|(key, _)| &**key)
    }
}

/// What is needed of a record's fields. All of them must parse.
struct Fields<'a> {
    key: Option<&'a [u8]>,
    is_tombstone: bool,
}

impl<'a> Fields<'a> {
    fn read(record: &Record<'a>) -> Result<Fields<'a>> {
        let (tail, mut at) = (record.tail, 0);
        let key = nullable(tail, &mut at)?;
        let is_tombstone = nullable(tail, &mut at)?.is_none();
        let headers = varint::read(tail, &mut at)?;
        for _ in 0..headers {
            let has_name = nullable(tail, &mut at)?.is_some();
            nullable(tail, &mut at)?;
            if !has_name {
                return corrupt(format!("record at source offset {}: a header has no name", record.offset));
            }
        }
        if headers < 0 || at != tail.len() {
            return corrupt(format!("record at source offset {}: its fields don't fill its bytes", record.offset));
        }
        Ok(Fields { key, is_tombstone })
    }
}

fn nullable<'a>(tail: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>> {
    let Ok(length) = usize::try_from(varint::read(tail, at)?) else {
        return Ok(None);
    };
    let left = &tail[*at..];
    if length > left.len() {
        return corrupt("a record ends too early");
    }
    *at += length;
    Ok(Some(&left[..length]))
}
