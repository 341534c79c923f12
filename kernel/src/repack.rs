//! Makes batches out of batches: small ones are merged, and what a broker would refuse is encoded again.

use crate::builder::{Builder, Piece};
use crate::codecs::Codec;
use crate::error::{Result, corrupt};
use crate::records::{UNPACKED_LIMIT_BYTES, open};
use crate::schema_ids::{Framing, IdCounts, TailTranslator, Translations};

/// What becomes of the records.
#[derive(Clone, Copy, Debug)]
pub struct Repacking<'a> {
    /// Of the new batches.
    pub codec: Codec,
    /// Another batch of the source is added to a new one as long as its records, before compression, fit into so much.
    pub merge_bytes: usize,
    /// What the target takes; a batch over it is divided.
    pub max_batch_bytes: usize,
    /// Records before this source offset are left out.
    pub from_offset: i64,
    /// So are those in these ranges of source offsets, the end not included.
    pub leave_out: &'a [(i64, i64)],
}

impl Repacking<'_> {
    fn takes(&self, offset: i64) -> bool {
        offset >= self.from_offset && !self.leave_out.iter().any(|&(first, end)| (first..end).contains(&offset))
    }
}

/// Encodes the records of all batches in `parts` again; each part holds whole batches, in order, and no markers.
///
/// The checksums of the batches were compared before. A new batch ends where a source batch does, unless it is divided;
/// its records are of one leader epoch. Fails where all together unpack to more than `UNPACKED_LIMIT_BYTES`.
pub fn repack(parts: &[&[u8]], how: &Repacking) -> Result<Vec<Piece>> {
    // Nothing is in the way where nothing is changed.
    Ok(repack_each(parts, how, |_| Ok(true))?.unwrap_or_default())
}

/// The same with other schema ids, and how many these were. None: one is missing or absent, or in an undecided field.
pub fn repack_translated(
    parts: &[&[u8]],
    how: &Repacking,
    translations: &Translations,
    framing: [Framing; 2],
) -> Result<Option<(Vec<Piece>, IdCounts)>> {
    let mut ids = TailTranslator::new(translations, framing);
    let pieces = repack_each(parts, how, |tail| ids.translate(tail))?;
    Ok(pieces.map(|pieces| (pieces, ids.counts())))
}

/// Changes each record's tail by `change`, which says whether all may go on; None: it may not.
fn repack_each(
    parts: &[&[u8]],
    how: &Repacking,
    mut change: impl FnMut(&mut [u8]) -> Result<bool>,
) -> Result<Option<Vec<Piece>>> {
    let mut goes_on = true;
    let mut pieces = Vec::new();
    let mut scratch = Vec::new();
    let room = how.merge_bytes.min(2 * parts.iter().map(|part| part.len()).sum::<usize>());
    let mut builder = Builder::with_room(room);
    let (mut source_next, mut leader_epoch, mut unpacked_bytes) = (-1, -1, 0);
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            let batch = open(rest, &mut scratch)?;
            let full = builder.records_bytes() + batch.payload_bytes() > how.merge_bytes;
            if !builder.is_empty() && (full || batch.leader_epoch() != leader_epoch) {
                let ended = std::mem::replace(&mut builder, Builder::with_room(room));
                ended.finish(how.codec, how.max_batch_bytes, source_next, leader_epoch, &mut pieces)?;
            }
            source_next = batch.for_each(|record| {
                if how.takes(record.offset) {
                    builder.add(record)?;
                    goes_on &= change(builder.last_bytes(record.tail.len()))?;
                }
                Ok(())
            })?;
            if !goes_on {
                return Ok(None);
            }
            builder.source_batch_ends(batch.size_bytes());
            unpacked_bytes += batch.payload_bytes();
            if unpacked_bytes > UNPACKED_LIMIT_BYTES {
                return corrupt(format!("together they unpack to more than {UNPACKED_LIMIT_BYTES} bytes"));
            }
            leader_epoch = batch.leader_epoch();
            rest = &rest[batch.size_bytes()..];
        }
    }
    builder.finish(how.codec, how.max_batch_bytes, source_next, leader_epoch, &mut pieces)?;
    Ok(Some(pieces))
}
