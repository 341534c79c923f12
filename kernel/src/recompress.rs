//! Gives a batch another codec; its records are not decoded.

use crate::codecs::{Codec, Effort, compress};
use crate::error::{Result, corrupt};
use crate::header::{HEADER_BYTES, Header, LOG_OVERHEAD_BYTES, set_crc};
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
    set_codec(&header, codec, &mut bytes)?;
    Ok(bytes)
}

fn set_codec(header: &Header, codec: Codec, bytes: &mut [u8]) -> Result<()> {
    let Ok(length) = i32::try_from(bytes.len() - LOG_OVERHEAD_BYTES) else {
        return corrupt(format!("{} bytes are too many for a batch", bytes.len()));
    };
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[21..23].copy_from_slice(&(header.attributes & !7 | codec.number()).to_be_bytes());
    set_crc(bytes);
    Ok(())
}
