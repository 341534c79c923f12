//! Gives a batch another codec; its records are not decoded.

use crate::codecs::{Codec, Effort, compress};
use crate::error::{Result, corrupt};
use crate::header::{HEADER_BYTES, seal};
use crate::records::{Opened, open};

/// The batch of magic 2 with its payload in `codec`, all else as it was.
pub fn recompress(batch: &[u8], codec: Codec) -> Result<Vec<u8>> {
    let mut scratch = Vec::new();
    let Opened::Batch(header, payload) = open(batch, &mut scratch)? else {
        return corrupt("messages of magic 0 and 1 are repacked, not recompressed");
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len() / 2);
    bytes.extend_from_slice(&batch[..HEADER_BYTES]);
    compress(codec, Effort::Usual, payload, &mut bytes)?;
    seal(&mut bytes, header.attributes & !7 | codec.number())?;
    Ok(bytes)
}
