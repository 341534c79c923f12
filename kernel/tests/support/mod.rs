//! Batches for the tests.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use _kernel::builder::Builder;
use _kernel::codecs::Codec;
use _kernel::records::{Record, open};

/// All codecs.
pub const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// A record with its own bytes: offset, timestamp, tail.
pub type Owned = (i64, i64, Vec<u8>);

/// A record's tail: no key, a value, no headers.
pub fn tail(value: &[u8]) -> Vec<u8> {
    let mut prefix = [0; 10];
    let size = _kernel::varint::write(&mut prefix, i64::try_from(value.len()).unwrap());
    [&[1], &prefix[..size], value, &[0]].concat()
}

/// One batch of these records, whose offsets have no gap.
pub fn batch(records: &[Owned], codec: Codec, leader_epoch: i32) -> Vec<u8> {
    let mut builder = Builder::with_room(0);
    for (offset, timestamp, tail) in records {
        builder.add(Record { offset: *offset, timestamp: *timestamp, tail }).unwrap();
    }
    builder.source_batch_ends(0);
    let mut pieces = Vec::new();
    builder.finish(codec, usize::MAX, 0, leader_epoch, &mut pieces).unwrap();
    let mut bytes = pieces.pop().unwrap().bytes;
    bytes[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    bytes
}

/// A message of magic 0 or 1; its checksum is none, which nobody compares here.
pub fn message(magic: u8, offset: i64, attributes: u8, value: &[u8]) -> Vec<u8> {
    let mut body = vec![magic, attributes];
    if magic == 1 {
        body.extend_from_slice(&77_i64.to_be_bytes());
    }
    body.extend_from_slice(&(-1_i32).to_be_bytes());
    body.extend_from_slice(&i32::try_from(value.len()).unwrap().to_be_bytes());
    body.extend_from_slice(value);
    let length = i32::try_from(body.len() + 4).unwrap();
    [&offset.to_be_bytes()[..], &length.to_be_bytes(), &[0; 4], &body].concat()
}

/// The records of one batch, and where the source goes on.
pub fn records_of(batch: &[u8]) -> _kernel::error::Result<(Vec<Owned>, i64)> {
    let mut scratch = Vec::new();
    let mut records = Vec::new();
    let next = open(batch, &mut scratch)?.for_each(|record| {
        records.push((record.offset, record.timestamp, record.tail.to_vec()));
        Ok(())
    })?;
    Ok((records, next))
}
