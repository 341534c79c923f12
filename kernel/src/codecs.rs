//! Kafka's compression codecs over a batch's payload, framed as Kafka's own clients and brokers do.
//!
//! Unpacking is bounded: what is over the limit is refused before memory is taken for it.

use std::cell::RefCell;
use std::io::{Read, Write};

use crate::error::{Result, corrupt};

/// The stream header of snappy-java, which Kafka's Java code writes: magic, version 1, compatible since version 1.
const XERIAL_HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
const XERIAL_MAGIC_BYTES: usize = 8;
const XERIAL_BLOCK_BYTES: usize = 32 << 10;

/// A copy of 64 bytes, the longest, is three bytes.
const SNAPPY_MOST_TIMES: usize = 22;

const LZ4_MAGIC: &[u8; 4] = b"\x04\x22\x4d\x18";
/// Version 1, independent blocks (Kafka reads no others), no checksums; blocks of at most 64 KB; the header's checksum.
const LZ4_HEADER: &[u8; 7] = b"\x04\x22\x4d\x18\x60\x40\x82";
const LZ4_BLOCK_BYTES: usize = 64 << 10;
const LZ4_UNCOMPRESSED_BIT: u32 = 0x8000_0000;
/// An LZ4 block grows to at most so many times its size.
const LZ4_MOST_TIMES: usize = 255;

const ZSTD_MAGIC: &[u8; 4] = b"\x28\xb5\x2f\xfd";

/// How hard to try to make data small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// The codec's usual level.
    Usual,
    /// The highest that any reader unpacks: for a record that is too large alone.
    Most,
}

impl Effort {
    fn zstd_level(self) -> i32 {
        match self {
            Effort::Usual => 3,
            Effort::Most => 19,
        }
    }

    fn gzip_level(self) -> flate2::Compression {
        flate2::Compression::new(match self {
            Effort::Usual => 6,
            Effort::Most => 9,
        })
    }
}

/// How records are compressed. Numbers as in a batch's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Not at all.
    None,
    /// RFC 1952.
    Gzip,
    /// snappy-java's stream of blocks; a single raw block is read too.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// RFC 8878.
    Zstd,
}

impl Codec {
    /// The codec that attributes name.
    pub fn of(number: i16) -> Result<Codec> {
        match number {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Gzip),
            2 => Ok(Codec::Snappy),
            3 => Ok(Codec::Lz4),
            4 => Ok(Codec::Zstd),
            _ => corrupt(format!("codec {number} is unknown, 0 to 4 are")),
        }
    }

    /// Its number in attributes.
    pub fn number(self) -> i16 {
        self as i16
    }
}

struct Contexts {
    zstd_in: zstd::bulk::Decompressor<'static>,
    zstd_out: zstd::bulk::Compressor<'static>,
    snappy_in: snap::raw::Decoder,
    snappy_out: snap::raw::Encoder,
}

impl Contexts {
    fn new() -> std::io::Result<Contexts> {
        Ok(Contexts {
            zstd_in: zstd::bulk::Decompressor::new()?,
            zstd_out: zstd::bulk::Compressor::new(Effort::Usual.zstd_level())?,
            snappy_in: snap::raw::Decoder::new(),
            snappy_out: snap::raw::Encoder::new(),
        })
    }
}

thread_local! {
    /// Making them anew costs more than a small batch does.
    static CONTEXTS: RefCell<Option<Contexts>> = const { RefCell::new(None) };
}

fn with_contexts<T>(work: impl FnOnce(&mut Contexts) -> Result<T>) -> Result<T> {
    CONTEXTS.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(Contexts::new().or_else(|error| corrupt(format!("no memory for codecs: {error}")))?);
        }
        match slot {
            Some(contexts) => work(contexts),
            None => corrupt("no memory for codecs"),
        }
    })
}

/// Unpacks `data` into `out`, which is emptied first; fails where it is not of that codec's format, or over `limit`.
pub fn decompress(codec: Codec, data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    match codec {
        Codec::None if data.len() > limit => over(limit),
        Codec::None => {
            out.extend_from_slice(data);
            Ok(())
        }
        Codec::Gzip => from_gzip(data, limit, out),
        Codec::Snappy => from_snappy(data, limit, out),
        Codec::Lz4 => from_lz4(data, limit, out),
        Codec::Zstd => from_zstd(data, limit, out),
    }
}

/// Compresses `data`, behind what `out` holds. snappy and LZ4 have no levels.
pub fn compress(codec: Codec, effort: Effort, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match codec {
        Codec::None => {
            out.extend_from_slice(data);
            Ok(())
        }
        Codec::Gzip => to_gzip(effort, data, out),
        Codec::Snappy => to_snappy(data, out),
        Codec::Lz4 => to_lz4(data, out),
        Codec::Zstd => to_zstd(effort, data, out),
    }
}

fn over(limit: usize) -> Result<()> {
    corrupt(format!("it unpacks to more than {limit} bytes"))
}

fn read_error<T>(error: impl std::fmt::Display) -> Result<T> {
    corrupt(format!("it does not unpack: {error}"))
}

fn from_gzip(data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    if data.is_empty() {
        return read_error("it ends too early");
    }
    let mut reader = flate2::bufread::MultiGzDecoder::new(data).take(limit as u64 + 1);
    reader.read_to_end(out).or_else(read_error)?;
    if out.len() > limit { over(limit) } else { Ok(()) }
}

fn to_gzip(effort: Effort, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut writer = flate2::write::GzEncoder::new(out, effort.gzip_level());
    writer.write_all(data).or_else(read_error)?;
    writer.finish().map(|_| ()).or_else(read_error)
}

fn from_snappy(data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    if !data.starts_with(&XERIAL_HEADER[..XERIAL_MAGIC_BYTES]) {
        return from_snappy_block(data, limit, out);
    }
    let mut rest = data.get(XERIAL_HEADER.len()..).unwrap_or_default();
    while !rest.is_empty() {
        let (block, behind) = prefixed(rest, u32::from_be_bytes)?;
        from_snappy_block(block, limit, out)?;
        rest = behind;
    }
    Ok(())
}

fn from_snappy_block(block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let size = snap::raw::decompress_len(block).or_else(read_error)?;
    let start = out.len();
    if size > limit - start.min(limit) {
        return over(limit);
    }
    // Else a block of ten bytes would have 256 MB of memory written.
    if size > block.len().saturating_mul(SNAPPY_MOST_TIMES) {
        return read_error(format!("{size} bytes can't be in a block of {}", block.len()));
    }
    out.resize(start + size, 0);
    with_contexts(|contexts| contexts.snappy_in.decompress(block, &mut out[start..]).or_else(read_error))?;
    Ok(())
}

fn to_snappy(data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(XERIAL_HEADER);
    for block in data.chunks(XERIAL_BLOCK_BYTES) {
        let start = out.len();
        out.resize(start + 4 + snap::raw::max_compress_len(block.len()), 0);
        let size =
            with_contexts(|contexts| contexts.snappy_out.compress(block, &mut out[start + 4..]).or_else(read_error))?;
        out[start..start + 4].copy_from_slice(&block_size(size)?.to_be_bytes());
        out.truncate(start + 4 + size);
    }
    Ok(())
}

/// Reads a frame block by block. Its checksums are not compared: the batch's CRC covers them, and in magic 0 messages the
/// header's is computed wrongly (KAFKA-3160).
fn from_lz4(data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let (Some(flags), Some(sizes)) = (data.get(4), data.get(5)) else {
        return read_error("it ends too early");
    };
    let block_size_code = u32::from(sizes >> 4 & 7);
    if !data.starts_with(LZ4_MAGIC) || flags & 0xe0 != 0x60 || block_size_code < 4 {
        return read_error("it does not begin as an LZ4 frame that Kafka writes");
    }
    let (block_checksum, content_size) = (flags & 0x10 != 0, flags & 0x08 != 0);
    let largest = 1 << (8 + 2 * block_size_code);
    let mut rest = data.get(7 + 8 * usize::from(content_size)..).unwrap_or_default();
    loop {
        let Some((head, behind)) = rest.split_first_chunk::<4>() else {
            return read_error("it ends too early");
        };
        let head = u32::from_le_bytes(*head);
        if head == 0 {
            return Ok(());
        }
        let size = (head & !LZ4_UNCOMPRESSED_BIT) as usize;
        let Some((block, behind)) = behind.split_at_checked(size) else {
            return read_error("it ends too early");
        };
        let left = limit - out.len().min(limit);
        let start = out.len();
        if head & LZ4_UNCOMPRESSED_BIT == 0 {
            let room = size.saturating_mul(LZ4_MOST_TIMES).min(largest);
            out.resize(start + room, 0);
            let unpacked = lz4_flex::block::decompress_into(block, &mut out[start..]).or_else(read_error)?;
            out.truncate(start + unpacked);
        } else if size <= left {
            out.extend_from_slice(block);
        } else {
            return over(limit);
        }
        if out.len() > limit {
            return over(limit);
        }
        rest = behind.get(4 * usize::from(block_checksum)..).unwrap_or_default();
    }
}

fn to_lz4(data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(LZ4_HEADER);
    for block in data.chunks(LZ4_BLOCK_BYTES) {
        let start = out.len();
        out.resize(start + 4 + lz4_flex::block::get_maximum_output_size(block.len()), 0);
        let size = lz4_flex::block::compress_into(block, &mut out[start + 4..]).or_else(read_error)?;
        if size < block.len() {
            out[start..start + 4].copy_from_slice(&block_size(size)?.to_le_bytes());
            out.truncate(start + 4 + size);
        } else {
            out[start..start + 4].copy_from_slice(&(block_size(block.len())? | LZ4_UNCOMPRESSED_BIT).to_le_bytes());
            out.truncate(start + 4);
            out.extend_from_slice(block);
        }
    }
    out.extend_from_slice(&[0; 4]);
    Ok(())
}

fn from_zstd(data: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let Ok(bound) = zstd::zstd_safe::decompress_bound(data) else {
        return read_error("it is no whole zstd frame");
    };
    let mut rest = data;
    while !rest.is_empty() {
        // No producer writes skippable frames, and Python's reference knows none.
        match zstd::zstd_safe::find_frame_compressed_size(rest) {
            Ok(size) if size > 0 && rest.starts_with(ZSTD_MAGIC) => rest = rest.get(size..).unwrap_or_default(),
            _ => return read_error("it is no whole zstd frame"),
        }
    }
    // By the headers of its blocks: what it really unpacks to is known once it was unpacked.
    let room = usize::try_from(bound).unwrap_or(usize::MAX).min(limit);
    out.reserve_exact(room);
    with_contexts(|contexts| contexts.zstd_in.decompress_to_buffer(data, out).or_else(read_error))?;
    if out.len() > limit { over(limit) } else { Ok(()) }
}

fn to_zstd(effort: Effort, data: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(data.len()), 0);
    let size = match effort {
        Effort::Usual => {
            with_contexts(|contexts| contexts.zstd_out.compress_to_buffer(data, &mut out[start..]).or_else(read_error))
        }
        Effort::Most => {
            zstd::bulk::compress_to_buffer(data, &mut out[start..], effort.zstd_level()).or_else(read_error)
        }
    }?;
    out.truncate(start + size);
    Ok(())
}

fn block_size(size: usize) -> Result<u32> {
    u32::try_from(size).or_else(|_| corrupt("a block of over 4 GB"))
}

/// Splits off a block behind its length of four bytes.
fn prefixed(data: &[u8], length: fn([u8; 4]) -> u32) -> Result<(&[u8], &[u8])> {
    let Some((head, behind)) = data.split_first_chunk::<4>() else {
        return read_error("it ends too early");
    };
    match behind.split_at_checked(length(*head) as usize) {
        Some(found) => Ok(found),
        None => read_error("it ends too early"),
    }
}
