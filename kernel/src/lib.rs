//! The record kernel: what mirror-ray does once per record, and not once per batch.
//!
//! `mirror_ray/records` has the same in Python: the reference that this is tested against, and what runs where this was
//! not built. Nothing here trusts a length or a count: each is compared with the bytes that are there before memory is
//! taken for it. Pieces of at most `records::UNPACKED_LIMIT_BYTES` are unpacked, one batch at a time.

pub mod builder;
pub mod codecs;
pub mod error;
pub mod header;
mod legacy;
#[cfg(feature = "python")]
mod python;
pub mod recompress;
pub mod records;
pub mod repack;
pub mod varint;
