//! Kafka's variable-length numbers: zigzag, seven bits a byte, the lowest first.

use crate::error::{Result, corrupt};

/// The most bytes that one takes.
pub const MAX_BYTES: usize = 10;

/// Reads the number at `*at`, and moves `*at` behind it. Fails where the data ends inside it, or it has over 64 bits.
#[inline]
pub fn read(data: &[u8], at: &mut usize) -> Result<i64> {
    let Some(&first) = data.get(*at) else {
        return corrupt("a record ends too early");
    };
    *at += 1;
    if first < 0x80 {
        return Ok(unzigzag(u64::from(first)));
    }
    read_long(data, at, u64::from(first & 0x7f))
}

fn read_long(data: &[u8], at: &mut usize, first: u64) -> Result<i64> {
    let (mut value, mut shift) = (first, 7);
    loop {
        let Some(&byte) = data.get(*at) else {
            return corrupt("a record ends too early");
        };
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(unzigzag(value));
        }
        shift += 7;
        if shift > 63 {
            return corrupt("a varint of more than 64 bits");
        }
    }
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Writes a number at the beginning of `out`, which has room for `MAX_BYTES`; returns how many bytes it takes.
#[inline]
pub fn write(out: &mut [u8], number: i64) -> usize {
    let mut value = (number << 1 ^ number >> 63).cast_unsigned();
    let mut length = 0;
    while value > 0x7f {
        out[length] = (value & 0x7f) as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    out[length] = (value & 0x7f) as u8;
    length + 1
}

/// How many bytes a number takes.
#[inline]
pub fn size(number: i64) -> usize {
    let value = (number << 1 ^ number >> 63).cast_unsigned();
    ((70 - (value | 1).leading_zeros()) / 7) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(number: i64) {
            let mut out = [0; MAX_BYTES];
            let length = write(&mut out, number);
            let mut at = 0;
            prop_assert_eq!(read(&out, &mut at), Ok(number));
            prop_assert_eq!(at, length);
            prop_assert_eq!(size(number), length);
            let mut at = 0;
            prop_assert!(read(&out[..length - 1], &mut at).is_err());
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        let mut at = 0;
        assert!(read(&[0xff; 11], &mut at).is_err());
    }
}
