//! The record kernel: what mirror-ray does once per record, and not once per batch.
//!
//! `mirror_ray/records` has the same in Python: the reference that this is tested against, and what runs where this was
//! not built. Nothing here trusts a length or a count: each is compared with the bytes that are there before memory is
//! taken for it, and arithmetic on what a batch says wraps as Java's does, or refuses the batch.
//!
//! Memory: one batch at a time is unpacked, to at most `records::UNPACKED_LIMIT_BYTES` (256 MB) and
//! `records::RECORDS_LIMIT` records; one that is over either is refused within 256 MB, whatever it says of itself. One
//! that is not is encoded anew in as much again, and compressed in as much as its codec makes of it. Beside these there
//! is the result: the new batches, and 16 bytes for each gap between the offsets of their records; of runs 56 bytes for
//! each. Time is linear in the bytes that are given and unpacked; dividing what is too large for a broker takes as much
//! again for each halving.
//! What one call merges of magic 2 unpacks to at most 256 MB together. Comparing unpacks a batch of either side at once, with 32
//! bytes for each of its records. Of compacted logs it holds the keys of both, with 32 bytes of digests for each; where
//! their order is compared, 48 bytes for each record, and as much again.
//! `columns::Columns` has the records of all batches that it was given, bounded together as those of one are, with 64 bytes
//! for each, and beside them what was changed. `met_schemas::MetSchemas` has each id once, as many as it was told to keep.
//!
//! What is refused here is refused by the reference, but for two things. Zstd frames with a window of over 128 MB are
//! unpacked here: no window is needed to unpack a frame as a whole. And a record that is too large alone is
//! compressed with the highest level before it is refused.

pub mod builder;
pub mod cleaned;
pub mod codecs;
pub mod columns;
pub mod compare;
pub mod digest;
pub mod error;
pub mod fields;
pub mod header;
pub mod last_records;
mod legacy;
pub mod met_schemas;
#[cfg(feature = "python")]
mod python;
#[cfg(feature = "python")]
mod python_columns;
#[cfg(feature = "python")]
mod python_schema_ids;
pub mod recompress;
pub mod records;
pub mod repack;
pub mod runs;
pub mod schema_ids;
pub mod varint;
