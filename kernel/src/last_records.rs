//! Compares the last record of each key of two compacted logs, and all records in their order.
//!
//! The reference is `mirror_ray/verification/last_records.py`. Keys themselves are kept and compared whole.

use std::collections::HashMap;
use std::hash::Hasher;
use std::num::NonZeroU128;
use std::ops::Range;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::digest::{Digests, SpanReader, fields_of};
use crate::error::Result;

/// What is compared, and by which digests.
#[derive(Clone, Debug)]
pub struct Comparing {
    /// Of records.
    pub digests: Digests,
    /// Of the CRC-32 of the keys whose last records are compared.
    pub keys: Range<u64>,
    /// Records whose keys have a lower CRC-32 are compared in their order; with `EVERY_KEY` those without a key, too.
    pub ordered_below: u64,
}

/// Behind every CRC-32.
pub const EVERY_KEY: u64 = 1 << 32;

/// What two logs have of each key. Memory is taken for each key, and for its bytes.
pub struct KeyComparison {
    how: Comparing,
    keys: Keys,
    sides: [Side; 2],
}

/// The digests of each key's last record on either side; None for a tombstone, and where there is no record.
#[derive(Default)]
struct Keys {
    found: HashMap<Box<[u8]>, [Option<NonZeroU128>; 2]>,
    bytes: usize,
}

struct Side {
    reader: SpanReader,
    records: u64,
    ordered: SipHasher13,
}

impl KeyComparison {
    /// Of two logs of which nothing is taken yet.
    pub fn new(how: Comparing) -> KeyComparison {
        let side = || Side { reader: SpanReader::default(), records: 0, ordered: how.digests.hasher() };
        let sides = [side(), side()];
        KeyComparison { how, keys: Keys::default(), sides }
    }

    /// Takes the records in a span of offsets from a side's next batches, of any magic and with verified checksums.
    pub fn take(&mut self, side: usize, batches: &[&[u8]], span: &Range<i64>) -> Result<()> {
        let KeyComparison { how, keys, sides } = self;
        let Side { reader, records, ordered } = &mut sides[side];
        reader.read(batches, span, |record| {
            let fields = fields_of(record)?;
            let key = fields.key.map(|(from, to)| &record.tail[from..to]);
            // Without a key it has the highest one: it is compared in order where every key is.
            let crc = key.map_or(EVERY_KEY - 1, |key| u64::from(crc32fast::hash(key)));
            let key = key.filter(|_| how.keys.contains(&crc));
            let is_ordered = crc < how.ordered_below;
            if key.is_none() && !is_ordered {
                return Ok(());
            }
            let digest = how.digests.of_record(record);
            if is_ordered {
                ordered.write(&digest.get().to_le_bytes());
            }
            if let Some(key) = key {
                *records += 1;
                keys.set(key, side, fields.value.map(|_| digest));
            }
            Ok(())
        })
    }

    /// How many records with a key were taken, of either side.
    pub fn records(&self) -> [u64; 2] {
        [self.sides[0].records, self.sides[1].records]
    }

    /// How many keys there are, and the bytes of all of them.
    pub fn keys(&self) -> (usize, usize) {
        (self.keys.found.len(), self.keys.bytes)
    }

    /// Whether both sides have the same records in the same order.
    pub fn is_same(&self) -> bool {
        self.sides[0].ordered.finish128() == self.sides[1].ordered.finish128()
    }

    /// The keys whose last records differ.
    pub fn differing_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.found.iter().filter(|(_, [mine, theirs])| mine != theirs).map(|(key, _)| &**key)
    }
}

impl Keys {
    fn set(&mut self, key: &[u8], side: usize, last: Option<NonZeroU128>) {
        if let Some(digests) = self.found.get_mut(key) {
            digests[side] = last;
            return;
        }
        self.bytes += key.len();
        self.found.entry(key.into()).or_default()[side] = last;
    }
}
