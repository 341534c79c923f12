//! Whatever is merged, divided or left out: the same records, in order.

mod support;

use _kernel::codecs::Codec;
use _kernel::compare::{Part, compare};
use _kernel::header::Header;
use _kernel::recompress::recompress;
use _kernel::repack::{Repacking, repack};
use proptest::prelude::*;
use support::{CODECS, Owned, batch, records_of, tail};

fn codecs() -> impl Strategy<Value = Codec> {
    prop::sample::select(&CODECS[..])
}

/// Batches that follow each other, with gaps between them: their records, codec and leader epoch.
fn sources() -> impl Strategy<Value = Vec<(Vec<Owned>, Codec, i32)>> {
    let record = (any::<i64>(), prop::collection::vec(any::<u8>(), 0..60));
    let one = (prop::collection::vec(record, 1..8), codecs(), 0..3_i32, 0..3_i64);
    prop::collection::vec(one, 1..6).prop_map(|all| {
        let mut offset = 0;
        let mut epoch = 0;
        all.into_iter()
            .map(|(records, codec, grows, gap)| {
                offset += gap;
                epoch += grows / 2;
                let records = records.into_iter().map(|(timestamp, value)| {
                    offset += 1;
                    (offset - 1, timestamp, tail(&value))
                });
                (records.collect(), codec, epoch)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn records_stay_as_they_are(
        sources in sources(),
        codec in codecs(),
        merge_bytes in 0..600_usize,
        max_batch_bytes in 200..1000_usize,
        from_offset in 0..10_i64,
        hole in (0..20_i64, 0..4_i64),
    ) {
        let made: Vec<Vec<u8>> = sources.iter().map(|(records, codec, epoch)| batch(records, *codec, *epoch)).collect();
        let parts: Vec<&[u8]> = made.iter().map(Vec::as_slice).collect();
        let leave_out = [(hole.0, hole.0 + hole.1)];
        let pieces =
            repack(&parts, &Repacking { codec, merge_bytes, max_batch_bytes, from_offset, leave_out: &leave_out })?;
        let taken = |offset: i64| offset >= from_offset && !(leave_out[0].0..leave_out[0].1).contains(&offset);
        let wanted: Vec<(i32, Owned)> = sources
            .iter()
            .flat_map(|(records, _, epoch)| records.iter().map(move |record| (*epoch, record.clone())))
            .filter(|(_, record)| taken(record.0))
            .collect();
        let mut found = Vec::new();
        for piece in &pieces {
            prop_assert!(piece.bytes.len() <= max_batch_bytes);
            prop_assert!(Header::read(&piece.bytes)?.crc_fits(&piece.bytes));
            let offsets = piece.runs.iter().flat_map(|&(first, count)| first..first + count);
            let (records, _) = records_of(&piece.bytes)?;
            prop_assert_eq!(offsets.clone().count(), records.len());
            prop_assert!(piece.source_next > piece.source_last);
            let ages: i64 = piece.ages.iter().map(|age| age.1).sum();
            prop_assert_eq!(usize::try_from(ages).ok(), Some(records.len()));
            found.extend(offsets.zip(records).map(|(offset, (_, timestamp, tail))| {
                (piece.leader_epoch, (offset, timestamp, tail))
            }));
        }
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn a_merged_copy_is_the_same_up_to_what_was_changed(
        sources in sources(),
        codec in codecs(),
        merge_bytes in 0..600_usize,
        changed in any::<prop::sample::Index>(),
        timestamps: bool,
    ) {
        let made: Vec<Vec<u8>> = sources.iter().map(|(records, codec, epoch)| batch(records, *codec, *epoch)).collect();
        let parts: Vec<&[u8]> = made.iter().map(Vec::as_slice).collect();
        let count = sources.iter().map(|source| source.0.len()).sum::<usize>();
        let at = changed.index(count + 1);
        let other: Vec<Vec<u8>> = sources
            .iter()
            .scan(0, |before, (records, codec, _)| {
                let first = *before;
                *before += records.len();
                let copied: Vec<Owned> = (first..)
                    .zip(records)
                    .map(|(number, (offset, timestamp, value))| {
                        let value = if number == at { tail(b"of another") } else { value.clone() };
                        (*offset, *timestamp, value)
                    })
                    .collect();
                Some(batch(&copied, *codec, 0))
            })
            .collect();
        let other: Vec<&[u8]> = other.iter().map(Vec::as_slice).collect();
        let how =
            Repacking { codec, merge_bytes, max_batch_bytes: usize::MAX, from_offset: i64::MIN, leave_out: &[] };
        let merged = repack(&other, &how)?;
        let merged: Vec<&[u8]> = merged.iter().map(|piece| &piece.bytes[..]).collect();
        let mine = Part { batches: &parts, start: 0, end: i64::MAX };
        let theirs = Part { batches: &merged, start: 0, end: i64::MAX };
        let same = compare(mine, theirs, timestamps)?;
        prop_assert_eq!(same.differs, at < count);
        prop_assert_eq!(usize::try_from(same.records).ok(), Some(at.min(count)));
    }

    #[test]
    fn recompression_keeps_records(sources in sources(), codec in codecs()) {
        for (records, before, epoch) in sources {
            let again = recompress(&batch(&records, before, epoch), codec)?;
            prop_assert_eq!(Header::read(&again)?.codec()?, codec);
            prop_assert_eq!(records_of(&again)?.0, records);
        }
    }
}
