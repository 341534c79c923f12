//! Messages of magic 0 and 1 (KIP-31, KIP-32), compressed ones included.

use crate::codecs::{Codec, decompress};
use crate::error::{Result, corrupt};
use crate::records::{RECORDS_LIMIT, Record, UNPACKED_LIMIT_BYTES};
use crate::varint;

/// Offset, length, CRC-32; what follows is covered by the CRC.
const BEFORE_MAGIC_BYTES: usize = 16;
const LOG_OVERHEAD_BYTES: usize = 12;
/// The smallest length field: CRC, magic, attributes, and two empty fields.
const LEAST_LENGTH: usize = 14;
const CODEC_MASK: u8 = 0x07;
const TIMESTAMP_TYPE_BIT: u8 = 0x08;

struct Message<'a> {
    offset: i64,
    magic: u8,
    attributes: u8,
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

/// Calls `visit` for every record of the messages in `data`; returns the source offset behind them.
pub fn for_each(data: &[u8], mut visit: impl FnMut(Record) -> Result<()>) -> Result<i64> {
    let (mut left, mut last_message) = (UNPACKED_LIMIT_BYTES, -1);
    let (mut inner, mut tail) = (Vec::new(), Vec::new());
    let (mut last, mut count) = (-1, 0);
    let mut in_order = |record: Record| {
        count += 1;
        if record.offset <= last || count > RECORDS_LIMIT {
            return corrupt(format!("message at source offset {}: it can't be number {count}", record.offset));
        }
        last = record.offset;
        visit(record)
    };
    for_each_message(data, |message| {
        last_message = message.offset;
        let codec = Codec::of((message.attributes & CODEC_MASK).into())?;
        if codec == Codec::None {
            return in_order(message.record(message.offset, message.timestamp, &mut tail));
        }
        let Some(value) = message.value else {
            return corrupt(format!("compressed message at source offset {}: it is empty", message.offset));
        };
        decompress(codec, value, left, &mut inner)?;
        left -= inner.len();
        for_each_inner(&message, &inner, &mut tail, &mut in_order)
    })?;
    match last.max(last_message).checked_add(1) {
        Some(next_offset) => Ok(next_offset),
        None => corrupt(format!("message at source offset {}: none can follow it", i64::MAX)),
    }
}

/// The records of a compressed message. In magic 1 inner offsets are relative, and the wrapper's is the last one's.
fn for_each_inner(
    wrapper: &Message,
    inner: &[u8],
    tail: &mut Vec<u8>,
    visit: &mut impl FnMut(Record) -> Result<()>,
) -> Result<()> {
    let mut last = None;
    for_each_message(inner, |message| {
        last = Some(message.offset);
        Ok(())
    })?;
    let base = match last {
        Some(last) if wrapper.magic == 1 => i128::from(wrapper.offset) - i128::from(last),
        _ => 0,
    };
    let append_time = (wrapper.attributes & TIMESTAMP_TYPE_BIT != 0).then_some(wrapper.timestamp);
    for_each_message(inner, |message| match i64::try_from(base + i128::from(message.offset)) {
        Ok(offset) if offset >= 0 && message.magic == wrapper.magic && message.attributes & CODEC_MASK == 0 => {
            visit(message.record(offset, append_time.unwrap_or(message.timestamp), tail))
        }
        _ => corrupt(format!("compressed message at source offset {}: its contents do not fit it", wrapper.offset)),
    })
}

impl Message<'_> {
    fn record<'t>(&self, offset: i64, timestamp: i64, tail: &'t mut Vec<u8>) -> Record<'t> {
        tail.clear();
        put_nullable(tail, self.key);
        put_nullable(tail, self.value);
        // It has no headers.
        tail.push(0);
        Record { offset, timestamp, tail }
    }
}

fn for_each_message<'a>(data: &'a [u8], mut visit: impl FnMut(Message<'a>) -> Result<()>) -> Result<()> {
    let mut rest = data;
    while !rest.is_empty() {
        let (Some(offset), Some(length)) = (i64_at(rest, 0), i32_at(rest, 8)) else {
            return corrupt("a message set ends inside a message");
        };
        let length = usize::try_from(length).unwrap_or(0);
        if length < LEAST_LENGTH || length > rest.len() - LOG_OVERHEAD_BYTES {
            return corrupt(format!("message at source offset {offset}: its length field says {length}"));
        }
        let (message, behind) = rest.split_at(LOG_OVERHEAD_BYTES + length);
        visit(fields(offset, message)?)?;
        rest = behind;
    }
    Ok(())
}

fn fields(offset: i64, message: &[u8]) -> Result<Message<'_>> {
    let (magic, attributes) = (message[BEFORE_MAGIC_BYTES], message[BEFORE_MAGIC_BYTES + 1]);
    let body = &message[BEFORE_MAGIC_BYTES + 2..];
    let (timestamp, body) = match magic {
        0 => (Some(-1), body),
        2.. => return corrupt(format!("message at source offset {offset}: its magic is {magic}")),
        _ => (i64_at(body, 0), body.get(8..).unwrap_or_default()),
    };
    let parsed = timestamp.and_then(|timestamp| {
        let (key, behind) = nullable(body)?;
        let (value, behind) = nullable(behind)?;
        behind.is_empty().then_some(Message { offset, magic, attributes, timestamp, key, value })
    });
    match parsed {
        Some(message) => Ok(message),
        None => {
            corrupt(format!("message at source offset {offset}: its fields don't fill its {} bytes", message.len()))
        }
    }
}

/// A field behind its length of four bytes, negative for null; and what follows it.
fn nullable(data: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let length = i32_at(data, 0)?;
    let rest = &data[4..];
    match usize::try_from(length) {
        Ok(length) => rest.split_at_checked(length).map(|(field, behind)| (Some(field), behind)),
        Err(_) => Some((None, rest)),
    }
}

fn put_nullable(tail: &mut Vec<u8>, field: Option<&[u8]>) {
    let mut prefix = [0; varint::MAX_BYTES];
    let length = field.map_or(-1, |field| i64::try_from(field.len()).unwrap_or(i64::MAX));
    let size = varint::write(&mut prefix, length);
    tail.extend_from_slice(&prefix[..size]);
    tail.extend_from_slice(field.unwrap_or_default());
}

fn i32_at(data: &[u8], at: usize) -> Option<i32> {
    data.get(at..)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

fn i64_at(data: &[u8], at: usize) -> Option<i64> {
    data.get(at..)?.first_chunk().map(|bytes| i64::from_be_bytes(*bytes))
}
