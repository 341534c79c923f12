//! The header of a record batch of magic 2 (Kafka's `DefaultRecordBatch`; KIP-98, KIP-534).

use crate::codecs::Codec;
use crate::error::{Result, corrupt};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 61;
/// What the length field does not count: the base offset and itself.
pub const LOG_OVERHEAD_BYTES: usize = 12;

const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;
/// Of the attributes: with it, every record has the batch's largest timestamp.
pub const TIMESTAMP_TYPE_BIT: i16 = 0x08;
/// Of the attributes: with it, the batch holds a marker.
pub const CONTROL_BIT: i16 = 0x20;

/// What is read of a header.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Source offset that deltas count from.
    pub base_offset: i64,
    /// Of the whole batch, this header included.
    pub size_bytes: usize,
    /// The source's leader epoch when it was appended.
    pub leader_epoch: i32,
    /// Of everything from the attributes on.
    pub crc: u32,
    /// Codec, timestamp type, and what the batch is.
    pub attributes: i16,
    /// Of the last record that it had when it was produced.
    pub last_offset_delta: i32,
    /// What timestamps count from.
    pub base_timestamp: i64,
    /// The largest; with `LogAppendTime` that of every record.
    pub max_timestamp: i64,
    /// Of records, by the header.
    pub count: i32,
}

/// The magic of the batch or message at the beginning of `data`; None where it is cut off before.
pub fn magic(data: &[u8]) -> Option<u8> {
    data.get(MAGIC_AT).copied()
}

impl Header {
    /// Reads the header of the batch of magic 2 at the beginning of `data`, all of which must be there.
    pub fn read(data: &[u8]) -> Result<Header> {
        let Some(fields) = data.first_chunk::<HEADER_BYTES>() else {
            return corrupt(format!("{} bytes are no batch", data.len()));
        };
        let base_offset = i64_at(fields, 0);
        let length = i32_at(fields, 8);
        let size_bytes = usize::try_from(length).unwrap_or(0).saturating_add(LOG_OVERHEAD_BYTES);
        if size_bytes < HEADER_BYTES || size_bytes > data.len() {
            return corrupt(format!("batch at source offset {base_offset}: its length field says {length}"));
        }
        let header = Header {
            base_offset,
            size_bytes,
            leader_epoch: i32_at(fields, 12),
            crc: i32_at(fields, 17).cast_unsigned(),
            attributes: i16::from_be_bytes([fields[21], fields[22]]),
            last_offset_delta: i32_at(fields, 23),
            base_timestamp: i64_at(fields, 27),
            max_timestamp: i64_at(fields, 35),
            count: i32_at(fields, 57),
        };
        if fields[MAGIC_AT] != 2 {
            return corrupt(format!("{}: magic {} is not 2", header.name(), fields[MAGIC_AT]));
        }
        if header.last_offset_delta < 0 || header.count < 0 || header.count - 1 > header.last_offset_delta {
            return corrupt(format!("{}: {} records can't be in it", header.name(), header.count));
        }
        if header.base_offset.checked_add(i64::from(header.last_offset_delta) + 1).is_none() {
            return corrupt(format!("{}: its offsets have more than 64 bits", header.name()));
        }
        Ok(header)
    }

    /// How the records are compressed.
    pub fn codec(&self) -> Result<Codec> {
        Codec::of(self.attributes & 7)
    }

    /// Whether every record has `max_timestamp`.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & TIMESTAMP_TYPE_BIT != 0
    }

    /// The source offset behind the batch.
    pub fn next_offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.last_offset_delta)).wrapping_add(1)
    }

    /// Names the batch in an error.
    pub fn name(&self) -> String {
        format!("batch at source offset {} ({} bytes)", self.base_offset, self.size_bytes)
    }

    /// Compares the checksum of the whole batch with its bytes.
    pub fn crc_fits(&self, batch: &[u8]) -> bool {
        crc32c::crc32c(&batch[CRC_FROM..self.size_bytes]) == self.crc
    }
}

/// What the header of a new batch says; without a producer.
#[derive(Clone, Copy, Debug)]
pub struct NewHeader {
    /// How the records are compressed.
    pub codec: Codec,
    /// Of records.
    pub count: i32,
    /// What timestamps count from.
    pub base_timestamp: i64,
    /// The largest.
    pub max_timestamp: i64,
    /// Source offset of the first record.
    pub base_offset: i64,
}

impl NewHeader {
    /// Writes the header of a batch whose records are in place, with its checksum.
    pub fn write(&self, batch: &mut [u8]) -> Result<()> {
        let header = &mut batch[..HEADER_BYTES];
        header.fill(0);
        header[..8].copy_from_slice(&self.base_offset.to_be_bytes());
        header[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
        header[MAGIC_AT] = 2;
        header[23..27].copy_from_slice(&(self.count - 1).to_be_bytes());
        header[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        header[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        header[43..57].fill(0xff);
        header[57..61].copy_from_slice(&self.count.to_be_bytes());
        seal(batch, self.codec.number())
    }
}

/// Sets attributes, length and checksum of a whole batch that is otherwise complete.
pub fn seal(batch: &mut [u8], attributes: i16) -> Result<()> {
    let Ok(length) = i32::try_from(batch.len() - LOG_OVERHEAD_BYTES) else {
        return corrupt(format!("{} bytes are too many for a batch", batch.len()));
    };
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[CRC_FROM..23].copy_from_slice(&attributes.to_be_bytes());
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    Ok(())
}

fn i32_at(fields: &[u8; HEADER_BYTES], at: usize) -> i32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&fields[at..at + 4]);
    i32::from_be_bytes(bytes)
}

fn i64_at(fields: &[u8; HEADER_BYTES], at: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&fields[at..at + 8]);
    i64::from_be_bytes(bytes)
}
