//! Batches that somebody has changed: they are refused, or give batches that are whole; nothing panics, and soon.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of the dice are small"
)]

mod support;

use std::time::{Duration, Instant};

use _kernel::cleaned::CleanedComparison;
use _kernel::codecs::{Codec, Effort, compress, decompress};
use _kernel::columns::{Change, Columns, Field, Packing};
use _kernel::compare::{Part, compare};
use _kernel::digest::Digests;
use _kernel::header::{HEADER_BYTES, Header};
use _kernel::last_records::{Comparing, EVERY_KEY, KeyComparison};
use _kernel::recompress::recompress;
use _kernel::repack::{Repacking, repack};
use _kernel::runs::{KINDS, runs};
use _kernel::schema_ids::{Framing, Translations};
use support::{CODECS, Owned, batch, message, records_of, tail};

const ODD: [&[u8]; 9] = [
    &[0],
    &[0xff],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0],
    &[0xff; 4],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0; 8],
    &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
];
/// Where a header's numbers begin: base offset, length, count and so on.
const FIELDS: [usize; 9] = [0, 8, 12, 21, 23, 27, 35, 53, 57];

/// Xorshift: the same batches in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }

    fn edit(&mut self, data: &mut Vec<u8>) {
        let odd = ODD[self.below(ODD.len())];
        let by = if self.below(2) == 0 { odd.to_vec() } else { vec![self.below(256) as u8] };
        let at = match self.below(3) {
            0 => FIELDS[self.below(FIELDS.len())].min(data.len()),
            _ => self.below(data.len() + 1),
        };
        let end = (at + by.len()).min(data.len());
        match self.below(8) {
            0..5 => drop(data.splice(at..end, by)),
            5 => drop(data.splice(at..at, by)),
            6 => drop(data.drain(at..end)),
            _ => data.truncate(at),
        }
    }

    fn records(&mut self) -> Vec<Owned> {
        let base = [0, 5, 1 << 40, i64::MAX - 40][self.below(4)];
        (0..=self.below(12))
            .map(|number| {
                let value = vec![b'a' + (number % 3) as u8; [0, 3, 40, 700][self.below(4)]];
                let timestamp = [0, 1_700_000_000_000, -1, i64::MIN, i64::MAX][self.below(5)];
                (base + number as i64, timestamp, tail(&value))
            })
            .collect()
    }

    /// A batch as a broker has it, of any magic and codec.
    fn batch(&mut self) -> Vec<u8> {
        let codec = CODECS[self.below(5)];
        if let magic @ (0 | 1) = self.below(4) {
            let messages: Vec<u8> = (0..4).flat_map(|number| message(magic as u8, number, 0, &[b'x'; 30])).collect();
            if codec == Codec::None {
                return messages;
            }
            let mut packed = Vec::new();
            compress(codec, Effort::Usual, &messages, &mut packed).unwrap();
            message(magic as u8, 9, codec.number() as u8, &packed)
        } else {
            let mut made = batch(&self.records(), codec, 3);
            if self.below(4) == 0 {
                made[22] |= 0x08;
            }
            made
        }
    }

    /// What was compressed is changed before it is compressed again.
    fn changed_inside(&mut self, made: &[u8]) -> Vec<u8> {
        let Ok(header) = Header::read(made) else {
            return made.to_vec();
        };
        let (codec, mut payload) = (header.codec().unwrap(), Vec::new());
        decompress(codec, &made[HEADER_BYTES..], 1 << 20, &mut payload).unwrap();
        self.edit(&mut payload);
        let mut changed = made[..HEADER_BYTES].to_vec();
        compress(codec, Effort::Usual, &payload, &mut changed).unwrap();
        changed
    }

    fn mutant(&mut self) -> Vec<u8> {
        let made = self.batch();
        let mut changed = if self.below(2) == 0 { self.changed_inside(&made) } else { made };
        for _ in 0..self.below(4) {
            self.edit(&mut changed);
        }
        // A length that is wrong hides all else that is.
        if changed.len() > 26 && self.below(4) > 0 {
            let length = i32::try_from(changed.len() - 12).unwrap();
            changed[8..12].copy_from_slice(&length.to_be_bytes());
        }
        changed
    }
}

/// Whether it was accepted. What comes of it must be whole: read again, it has the records that the runs name.
fn try_one(parts: &[&[u8]], dice: &mut Dice) -> bool {
    let how = Repacking {
        codec: CODECS[dice.below(5)],
        merge_bytes: [0, 500, 1 << 20][dice.below(3)],
        max_batch_bytes: [300, 1 << 20][dice.below(2)],
        from_offset: [0, 3, i64::MAX, i64::MIN][dice.below(4)],
        leave_out: &[(1, 2), (i64::MAX, i64::MIN)],
    };
    let Ok(pieces) = repack(parts, &how) else {
        return false;
    };
    for piece in pieces {
        let header = Header::read(&piece.bytes).unwrap();
        assert!(header.crc_fits(&piece.bytes) && piece.bytes.len() <= how.max_batch_bytes);
        let mut lengths = piece.runs.iter().map(|run| run.1);
        assert_eq!(lengths.by_ref().sum::<i64>(), i64::from(header.count));
        // Dense offsets from the last ones on have more than 64 bits; a producer's begin at 0.
        let mut bytes = piece.bytes;
        bytes[..8].fill(0);
        assert_eq!(records_of(&bytes).unwrap().0.len(), usize::try_from(header.count).unwrap());
    }
    true
}

/// Fields fit into what they are of, and what is changed and packed is whole.
fn change_any(parts: &[&[u8]], dice: &mut Dice) {
    let Ok(mut columns) = Columns::read(parts, [0, 3, i64::MIN][dice.below(3)], &[(1, 2)]) else {
        return;
    };
    let values: Vec<_> = columns.values().map(|value| value.map(<[u8]>::to_vec)).collect();
    let headers = columns.headers().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!((columns.keys().count(), headers.len(), values.len()), (columns.len(), columns.len(), columns.len()));
    for (number, value) in values.iter().enumerate().filter(|_| dice.below(2) == 0) {
        let headers = if number % 2 == 0 { Field::Kept } else { Field::Given(vec![(&b"name"[..], value.as_deref())]) };
        let change = Change { timestamp: i64::MAX, key: Field::Given(value.as_deref()), value: Field::Kept, headers };
        columns.change(number, &change).unwrap();
        let changed = columns.record(number).unwrap();
        assert_eq!(changed.timestamp, i64::MAX);
    }
    let translations = Translations { ids: (0..3).map(|id| (id, Some(id + 1))).collect(), ..Translations::default() };
    let sizes: Vec<_> = columns.records().map(|record| record.tail.len()).collect();
    let framing = [Framing::Framed, [Framing::Framed, Framing::Plain, Framing::Undecided][dice.below(3)]];
    columns.translate(0..columns.len(), &translations, framing).unwrap();
    assert!(columns.records().map(|record| record.tail.len()).eq(sizes));
    let kept: Vec<usize> = (0..columns.len()).filter(|number| number % 3 > 0).collect();
    let how = Packing { codec: CODECS[dice.below(5)], merge_bytes: [0, 500][dice.below(2)], max_batch_bytes: 1 << 20 };
    let pieces = columns.pack(&kept, &how).unwrap();
    let mut found = Vec::new();
    for mut piece in pieces {
        piece.bytes[..8].fill(0);
        found.extend(records_of(&piece.bytes).unwrap().0.into_iter().map(|record| record.2));
    }
    assert_eq!(found, kept.iter().map(|&number| columns.record(number).unwrap().tail.to_vec()).collect::<Vec<_>>());
    assert!(columns.pack(&[columns.len()], &how).is_err() && columns.pack(&[1, 0], &how).is_err());
}

/// Whatever is found to be the same lies in what was asked for.
fn compare_any(first: &[u8], second: &[u8], dice: &mut Dice) {
    let edges = [i64::MIN, -1, 0, 3, 1 << 40, i64::MAX - 38, i64::MAX];
    let mut span = || (edges[dice.below(7)], edges[dice.below(7)]);
    let (here, there) = (span(), span());
    let batches = [first, second];
    let mine = Part { batches: &batches, start: here.0, end: here.1 };
    let theirs = Part { batches: &batches[dice.below(2)..], start: there.0, end: there.1 };
    if let Ok(same) = compare(mine, theirs, dice.below(2) == 0) {
        for ((start, end), reached) in [here, there].into_iter().zip(same.starts) {
            assert!(start <= reached && (reached <= end || reached == start), "{same:?} of {start} to {end}");
        }
    }
}

/// No more is counted than was there, and a log has the same records as itself.
fn compare_keys_of_any(first: &[u8], second: &[u8], dice: &mut Dice) {
    let edges = [i64::MIN, -1, 0, 3, 1 << 40, i64::MAX - 38, i64::MAX];
    let span = edges[dice.below(7)]..edges[dice.below(7)];
    let digests = Digests { secret: [7; 16], timestamps: true };
    let mut comparison = KeyComparison::new(Comparing { digests, keys: 0..EVERY_KEY, ordered_below: EVERY_KEY });
    let mut cleaned = CleanedComparison::new(digests);
    let batches = [first, second];
    if (0..2).all(|side| comparison.take(side, &batches, &span).is_ok()) {
        let ([mine, theirs], (keys, _)) = (comparison.records(), comparison.keys());
        assert!(comparison.is_same() && mine == theirs && keys as u64 <= mine);
        assert_eq!(comparison.differing_keys().count(), 0);
        assert!((0..2).all(|side| cleaned.take(side, &batches, &span).is_ok()));
        assert_eq!(cleaned.cleaned(&[span.clone(), span.clone()], &[]), Some([0, 0]));
        let _ = cleaned.cleaned(&[span, edges[dice.below(7)]..edges[dice.below(7)]], &[b"k"]);
    }
}

/// A run has whole batches with records, whose checksums fit and whose offsets ascend; here all are sealed anew.
fn runs_of_any(batches: &[&[u8]]) {
    let mut log = Vec::new();
    for batch in batches {
        let at = log.len();
        log.extend_from_slice(batch);
        if let Ok(header) = Header::read(batch) {
            let crc = crc32c::crc32c(&batch[21..header.size_bytes]);
            log[at + 17..at + 21].copy_from_slice(&crc.to_be_bytes());
        }
    }
    for run in runs(&log, &[1 << 20; KINDS], 1 << 20) {
        let (mut at, mut next, mut count) = (run.bytes.start, run.base_offset, 0);
        while at < run.bytes.end {
            let header = Header::read(&log[at..]).unwrap();
            assert!(header.crc_fits(&log[at..]) && header.base_offset >= next && header.count > 0);
            (at, next, count) = (at + header.size_bytes, header.next_offset(), count + 1);
        }
        assert_eq!((at, next, count), (run.bytes.end, run.next_offset, run.batches));
        assert!(count > 1);
    }
}

fn try_many(count: usize) {
    let (mut dice, mut accepted, mut slowest) = (Dice(0x9e37_79b9_7f4a_7c15), 0, Duration::ZERO);
    let began = Instant::now();
    for _ in 0..count {
        let (first, second) = (dice.mutant(), dice.mutant());
        let one_began = Instant::now();
        let merged = dice.below(4) == 0;
        accepted +=
            usize::from(if merged { try_one(&[&first, &second], &mut dice) } else { try_one(&[&first], &mut dice) });
        let _ = recompress(&second, CODECS[dice.below(5)]);
        compare_any(&first, &second, &mut dice);
        compare_keys_of_any(&first, &second, &mut dice);
        let both: [&[u8]; 2] = [&first, &second];
        change_any(&both[usize::from(!merged)..], &mut dice);
        runs_of_any(&[&first, &second, &first, &second]);
        slowest = slowest.max(one_began.elapsed());
    }
    println!("{count} cases, {accepted} accepted, {:.1?}, the slowest took {slowest:.1?}", began.elapsed());
    // Else they show little: of the refused ones most of the code sees nothing.
    assert!(accepted > count / 20 && accepted < count * 19 / 20, "{accepted} of {count} were accepted");
    assert!(slowest < Duration::from_secs(2));
}

#[test]
fn changed_batches_are_refused_or_whole() {
    try_many(30_000);
}

/// `make fuzz-kernel`.
#[test]
#[ignore = "takes minutes"]
fn a_million_changed_batches_are_refused_or_whole() {
    let count = std::env::var("KERNEL_MUTANTS").map_or(1_000_000, |count| count.parse().unwrap());
    try_many(count);
}

#[test]
fn time_grows_with_the_size() {
    let timed = |count: i64| {
        let records: Vec<Owned> = (0..count).map(|offset| (offset, 0, tail(b"value"))).collect();
        let made = batch(&records, Codec::None, 0);
        let how = Repacking {
            codec: Codec::None,
            merge_bytes: 0,
            max_batch_bytes: usize::MAX,
            from_offset: 0,
            leave_out: &[],
        };
        let time = || {
            let began = Instant::now();
            repack(&[&made], &how).unwrap();
            began.elapsed()
        };
        // The least of some: what else the machine does is not counted.
        (0..5).map(|_| time()).min().unwrap_or_default().max(Duration::from_micros(200))
    };
    timed(20_000);
    let (small, large) = (timed(20_000), timed(400_000));
    assert!(large < small * 20 * 10, "20,000 records take {small:?}, 400,000 take {large:?}");
}
