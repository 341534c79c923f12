//! What unpacks to more than is allowed is refused within the memory that the crate promises. Alone in its process.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of codecs and records are small"
)]

mod support;

use std::time::{Duration, Instant};

use _kernel::codecs::{Codec, Effort, compress};
use _kernel::columns::Columns;
use _kernel::records::{RECORDS_LIMIT, UNPACKED_LIMIT_BYTES};
use _kernel::repack::{Repacking, repack};
use support::{CODECS, batch, message, tail};

/// Beside what is unpacked: the bomb itself, the contexts of the codecs, and the test.
const BESIDE_BYTES: usize = 64 << 20;

/// The most memory that this process has had.
fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

fn refused(bomb: &[u8], what: &str) {
    let how = Repacking {
        codec: Codec::Zstd,
        merge_bytes: 1 << 20,
        max_batch_bytes: 1 << 20,
        from_offset: 0,
        leave_out: &[],
    };
    let began = Instant::now();
    assert!(repack(&[bomb], &how).is_err(), "{what}");
    assert!(Columns::read(&[bomb], 0, &[]).is_err(), "{what}");
    assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", began.elapsed());
}

/// A compressed megabyte of zeros, so often that it is over the limit.
fn bomb(codec: Codec) -> Vec<u8> {
    let (zeros, mut piece, times) = (vec![0; 1 << 20], Vec::new(), UNPACKED_LIMIT_BYTES / (1 << 20) + 1);
    compress(codec, Effort::Usual, &zeros, &mut piece).unwrap();
    match codec {
        Codec::Snappy => [&piece[..16], &piece[16..].repeat(times)].concat(),
        Codec::Lz4 => [&piece[..7], &piece[7..piece.len() - 4].repeat(times), &[0; 4]].concat(),
        _ => piece.repeat(times),
    }
}

fn with_payload(codec: Codec, payload: &[u8]) -> Vec<u8> {
    let mut made = batch(&[(0, 0, tail(b""))], codec, 0);
    made.truncate(61);
    made.extend_from_slice(payload);
    let length = i32::try_from(made.len() - 12).unwrap();
    made[8..12].copy_from_slice(&length.to_be_bytes());
    made
}

/// More than any batch may have, though they are few bytes.
fn refuse_too_many_records() {
    let count = RECORDS_LIMIT + 1;
    let mut made = with_payload(Codec::None, &[6, 0, 0, 0].repeat(count));
    let number = i32::try_from(count).unwrap();
    made[23..27].copy_from_slice(&(number - 1).to_be_bytes());
    made[57..61].copy_from_slice(&number.to_be_bytes());
    refused(&made, "records");
    let messages: Vec<u8> = (0..count).flat_map(|number| message(0, number as i64, 0, b"")).collect();
    refused(&messages, "messages");
}

#[test]
fn bombs_are_refused_within_the_bound() {
    for codec in &CODECS[1..] {
        let payload = bomb(*codec);
        refused(&with_payload(*codec, &payload), &format!("{codec:?}"));
        for magic in [0, 1] {
            refused(&message(magic, 9, codec.number() as u8, &payload), &format!("{codec:?} in magic {magic}"));
        }
    }
    // Ten bytes that say 256 MB.
    refused(&with_payload(Codec::Snappy, &[0x80, 0x80, 0x80, 0x80, 0x01, 0, 0, 0, 0, 0]), "a snappy block");
    refuse_too_many_records();
    let peak = peak_bytes().unwrap_or(0);
    assert!(peak < UNPACKED_LIMIT_BYTES + BESIDE_BYTES, "{} MB were taken", peak >> 20);
}
