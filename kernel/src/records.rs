//! Walks the records of a batch of any magic, in order, without copying what is not compressed.

use crate::codecs::{Codec, decompress};
use crate::error::{Result, corrupt};
use crate::header::{HEADER_BYTES, Header, magic};
use crate::{legacy, varint};

/// A batch's payload unpacks to at most so many bytes: Kafka's own bound is the request, 100 MB by default.
pub const UNPACKED_LIMIT_BYTES: usize = 256 << 20;
/// The smallest record: length, attributes, timestamp and offset, a byte each.
const LEAST_RECORD_BYTES: usize = 4;
/// A batch has at most so many records: Python takes 192 bytes for one beside its own, and refuses the same batches.
pub const RECORDS_LIMIT: usize = UNPACKED_LIMIT_BYTES / 192;

/// One record. `tail` is its key, value and headers, encoded as in a batch of magic 2.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// On the source.
    pub offset: i64,
    /// Milliseconds since the epoch, -1 for none; with `LogAppendTime` the one that the broker set.
    pub timestamp: i64,
    /// Key, value and headers.
    pub tail: &'a [u8],
}

/// A batch whose payload is unpacked.
#[derive(Clone, Copy, Debug)]
pub enum Opened<'a> {
    /// Of magic 2.
    Batch(Header, &'a [u8]),
    /// Messages of magic 0 and 1, all that follow each other; compressed ones are unpacked one by one.
    Messages(&'a [u8]),
}

/// Opens the batch at the beginning of `data`; `scratch` gets what was compressed.
pub fn open<'a>(data: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Opened<'a>> {
    if let Some(0 | 1) = magic(data) {
        return Ok(Opened::Messages(data));
    }
    let header = Header::read(data)?;
    if header.count.cast_unsigned() as usize > RECORDS_LIMIT {
        return corrupt(format!(
            "{}: {} records, more than {RECORDS_LIMIT} are not decoded",
            header.name(),
            header.count
        ));
    }
    let payload = &data[HEADER_BYTES..header.size_bytes];
    match header.codec()? {
        Codec::None => Ok(Opened::Batch(header, payload)),
        codec => {
            decompress(codec, payload, UNPACKED_LIMIT_BYTES, scratch)?;
            Ok(Opened::Batch(header, scratch))
        }
    }
}

impl Opened<'_> {
    /// Bytes of the batch as it was given: what follows them is the next one.
    pub fn size_bytes(&self) -> usize {
        match self {
            Opened::Batch(header, _) => header.size_bytes,
            Opened::Messages(data) => data.len(),
        }
    }

    /// Bytes of its records, as far as that is known.
    pub fn payload_bytes(&self) -> usize {
        match self {
            Opened::Batch(_, payload) => payload.len(),
            Opened::Messages(data) => data.len(),
        }
    }

    /// The source's leader epoch when it was appended; -1 where it is not known.
    pub fn leader_epoch(&self) -> i32 {
        match self {
            Opened::Batch(header, _) => header.leader_epoch,
            Opened::Messages(_) => -1,
        }
    }

    /// Calls `visit` for every record, in order; returns the source offset behind the batch.
    #[inline]
    pub fn for_each(&self, visit: impl FnMut(Record) -> Result<()>) -> Result<i64> {
        match self {
            Opened::Batch(header, payload) => walk(header, payload, visit).map(|()| header.next_offset()),
            Opened::Messages(data) => legacy::for_each(data, visit),
        }
    }
}

/// Calls `visit` for every record of a batch's unpacked payload.
#[inline]
pub fn walk(header: &Header, payload: &[u8], mut visit: impl FnMut(Record) -> Result<()>) -> Result<()> {
    // Refused before the first record is visited: its visitor may take memory for each.
    if header.count.cast_unsigned() as usize > payload.len() / LEAST_RECORD_BYTES {
        return corrupt(format!("{}: its records end too early", header.name()));
    }
    let append_time = header.is_log_append_time().then_some(header.max_timestamp);
    let (mut at, mut previous) = (0, -1);
    for number in 0..header.count {
        let length = varint::read(payload, &mut at)?;
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        // The attributes byte is unused.
        at += 1;
        let timestamp = header.base_timestamp.wrapping_add(varint::read(payload, &mut at)?);
        let delta = varint::read(payload, &mut at)?;
        match end {
            Some(end)
                if at <= end
                    && end <= payload.len()
                    && previous < delta
                    && delta <= header.last_offset_delta.into() =>
            {
                visit(Record {
                    offset: header.base_offset.wrapping_add(delta),
                    timestamp: append_time.unwrap_or(timestamp),
                    tail: &payload[at..end],
                })?;
                (at, previous) = (end, delta);
            }
            _ => return corrupt(format!("{}: its record number {number} does not parse", header.name())),
        }
    }
    if at == payload.len() {
        return Ok(());
    }
    corrupt(format!("{}: {} bytes follow its {} records", header.name(), payload.len() - at, header.count))
}
