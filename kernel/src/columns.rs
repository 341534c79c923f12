//! The records of batches, field by field, for transforms: what nobody asks for is not copied; what nobody changes is
//! packed by the bytes that it has.

use std::ops::Range;

use crate::builder::{Builder, Piece};
use crate::codecs::Codec;
use crate::error::{Result, corrupt};
use crate::fields::{Fields, HeaderField, headers_of, tail_of};
use crate::records::{RECORDS_LIMIT, Record, UNPACKED_LIMIT_BYTES, open};

/// The records of batches that follow each other. They are known by their numbers, from 0 on, in order.
#[derive(Debug)]
pub struct Columns {
    /// Of all records: key, value and headers as in a batch of magic 2; behind them what was changed.
    bytes: Vec<u8>,
    rows: Vec<Row>,
    batches: Vec<SourceBatch>,
    header_count: usize,
}

/// Bytes of `Columns::bytes`.
#[derive(Clone, Copy, Debug)]
struct Place {
    from: u32,
    to: u32,
}

impl Place {
    fn of(from: usize, to: usize) -> Result<Place> {
        match (u32::try_from(from), u32::try_from(to)) {
            (Ok(from), Ok(to)) => Ok(Place { from, to }),
            _ => corrupt("together the records have over 4 GB"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Row {
    offset: i64,
    /// This and `tail` are what it is packed by; the rest is the source's.
    timestamp: i64,
    tail: Place,
    key: Option<Place>,
    value: Option<Place>,
    headers: Place,
}

#[derive(Clone, Copy, Debug)]
struct SourceBatch {
    /// The number behind its last record.
    end: usize,
    next_offset: i64,
    leader_epoch: i32,
    size_bytes: usize,
}

/// A field of a record: as the source has it, or another one.
#[derive(Clone, Copy, Debug)]
pub enum Field<T> {
    /// The source's.
    Kept,
    /// Another, or perhaps the same.
    Given(T),
}

/// What a record is to be.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// Null: it has none.
    pub key: Field<Option<&'a [u8]>>,
    /// Null: a tombstone.
    pub value: Field<Option<&'a [u8]>>,
    /// In their order.
    pub headers: Field<Vec<HeaderField<'a>>>,
}

/// What records are packed into.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Of the new batches.
    pub codec: Codec,
    /// What is kept of another batch of the source is added to a new one as long as it fits into so much.
    pub merge_bytes: usize,
    /// What the target takes; a batch over it is divided.
    pub max_batch_bytes: usize,
}

/// The smallest record beside its key, value and headers.
const LEAST_PREFIX_BYTES: usize = 4;

impl Columns {
    /// Reads the records of all batches in `parts`, from an offset on and without those in the ranges `leave_out`, the end
    /// not included. Each part holds whole batches, in order, and no markers; their checksums were compared before.
    ///
    /// Fails where a record's fields don't fill it, and where all together are more than one batch may unpack to.
    pub fn read(parts: &[&[u8]], from_offset: i64, leave_out: &[(i64, i64)]) -> Result<Columns> {
        let takes = |offset: i64| {
            offset >= from_offset && !leave_out.iter().any(|&(first, end)| (first..end).contains(&offset))
        };
        let mut columns = Columns { bytes: Vec::new(), rows: Vec::new(), batches: Vec::new(), header_count: 0 };
        let (mut scratch, mut unpacked_bytes) = (Vec::new(), 0);
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let batch = open(rest, &mut scratch)?;
                unpacked_bytes += batch.payload_bytes();
                if unpacked_bytes > UNPACKED_LIMIT_BYTES {
                    return corrupt(format!("together they unpack to more than {UNPACKED_LIMIT_BYTES} bytes"));
                }
                columns.bytes.reserve(batch.payload_bytes());
                let next_offset =
                    batch.for_each(|record| if takes(record.offset) { columns.add(&record) } else { Ok(()) })?;
                columns.batches.push(SourceBatch {
                    end: columns.rows.len(),
                    next_offset,
                    leader_epoch: batch.leader_epoch(),
                    size_bytes: batch.size_bytes(),
                });
                rest = &rest[batch.size_bytes()..];
            }
        }
        Ok(columns)
    }

    fn add(&mut self, record: &Record) -> Result<()> {
        if self.rows.len() == RECORDS_LIMIT {
            return corrupt(format!("together they have more than {RECORDS_LIMIT} records"));
        }
        let Ok(fields) = Fields::read(record.tail) else {
            return corrupt(format!(
                "record at source offset {}: its fields don't fill its {} bytes",
                record.offset,
                record.tail.len()
            ));
        };
        self.header_count += fields.header_count;
        if self.header_count > RECORDS_LIMIT {
            return corrupt(format!("together they have more than {RECORDS_LIMIT} headers"));
        }
        let from = self.bytes.len();
        let within = |(first, end): (usize, usize)| Place::of(from + first, from + end);
        let row = Row {
            offset: record.offset,
            timestamp: record.timestamp,
            tail: within((0, record.tail.len()))?,
            key: fields.key.map(within).transpose()?,
            value: fields.value.map(within).transpose()?,
            headers: within((fields.headers, record.tail.len()))?,
        };
        self.bytes.extend_from_slice(record.tail);
        self.rows.push(row);
        Ok(())
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The records as they are packed: with what was changed.
    pub fn record(&self, number: usize) -> Result<Record<'_>> {
        let row = self.row(number)?;
        Ok(Record { offset: row.offset, timestamp: row.timestamp, tail: self.at(row.tail) })
    }

    /// The records as they are packed, all of them.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.rows.iter().map(|row| Record { offset: row.offset, timestamp: row.timestamp, tail: self.at(row.tail) })
    }

    /// The source's keys.
    pub fn keys(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.rows.iter().map(|row| row.key.map(|place| self.at(place)))
    }

    /// The source's values.
    pub fn values(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.rows.iter().map(|row| row.value.map(|place| self.at(place)))
    }

    /// The source's headers.
    pub fn headers(&self) -> impl Iterator<Item = Result<Vec<HeaderField<'_>>>> {
        self.rows.iter().map(|row| headers_of(self.at(row.headers)))
    }

    fn row(&self, number: usize) -> Result<&Row> {
        self.rows.get(number).map_or_else(|| corrupt(format!("there is no record number {number}")), Ok)
    }

    fn at(&self, place: Place) -> &[u8] {
        &self.bytes[place.from as usize..place.to as usize]
    }

    /// Has a record packed as another one. If it is the same it keeps its bytes.
    pub fn change(&mut self, number: usize, change: &Change) -> Result<()> {
        let row = *self.row(number)?;
        let key = resolved(change.key, row.key.map(|place| self.at(place)));
        let value = resolved(change.value, row.value.map(|place| self.at(place)));
        let found = headers_of(self.at(row.headers))?;
        let headers = match &change.headers {
            Field::Kept => &found,
            Field::Given(given) => given,
        };
        let same = key.1 && value.1 && *headers == found && change.timestamp == row.timestamp;
        if same {
            return Ok(());
        }
        let tail = tail_of(key.0, value.0, headers);
        self.replace(number, change.timestamp, &tail)
    }

    /// Has a record packed with another timestamp, and these bytes as key, value and headers.
    pub fn replace(&mut self, number: usize, timestamp: i64, tail: &[u8]) -> Result<()> {
        self.row(number)?;
        let from = self.bytes.len();
        let place = Place::of(from, from.saturating_add(tail.len()))?;
        self.bytes.extend_from_slice(tail);
        let row = &mut self.rows[number];
        (row.timestamp, row.tail) = (timestamp, place);
        Ok(())
    }

    /// Where the bytes lie that a record is packed by, among those of all.
    pub(crate) fn tail_range(&self, number: usize) -> Result<Range<usize>> {
        let place = self.row(number)?.tail;
        Ok(place.from as usize..place.to as usize)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Encodes records, whose numbers ascend, as few batches.
    ///
    /// One ends where a source batch does, unless it is divided; its records are of one leader epoch.
    pub fn pack(&self, kept: &[usize], how: &Packing) -> Result<Vec<Piece>> {
        if !kept.is_sorted_by(|first, second| first < second) {
            return corrupt("the numbers of records to pack do not ascend");
        }
        let room = how.merge_bytes.min(self.bytes.len());
        let (mut pieces, mut builder) = (Vec::new(), Builder::with_room(0));
        let (mut source_next, mut leader_epoch, mut rest) = (-1, -1, kept);
        for batch in &self.batches {
            let (mine, behind) = rest.split_at(rest.partition_point(|&number| number < batch.end));
            let bytes: usize =
                mine.iter().map(|&number| LEAST_PREFIX_BYTES + self.at(self.rows[number].tail).len()).sum();
            let full = !mine.is_empty() && builder.records_bytes() + bytes > how.merge_bytes;
            if !builder.is_empty() && (full || batch.leader_epoch != leader_epoch) {
                let ended = std::mem::replace(&mut builder, Builder::with_room(0));
                ended.finish(how.codec, how.max_batch_bytes, source_next, leader_epoch, &mut pieces)?;
            }
            if builder.is_empty() {
                builder = Builder::with_room(room.max(bytes));
            }
            for &number in mine {
                builder.add(self.record(number)?)?;
            }
            if !mine.is_empty() {
                builder.source_batch_ends(batch.size_bytes);
            }
            (source_next, leader_epoch, rest) = (batch.next_offset, batch.leader_epoch, behind);
        }
        if let Some(number) = rest.first() {
            return corrupt(format!("there is no record number {number}"));
        }
        builder.finish(how.codec, how.max_batch_bytes, source_next, leader_epoch, &mut pieces)?;
        Ok(pieces)
    }
}

/// A field, and whether it is the source's.
fn resolved<'a>(field: Field<Option<&'a [u8]>>, source: Option<&'a [u8]>) -> (Option<&'a [u8]>, bool) {
    match field {
        Field::Kept => (source, true),
        Field::Given(given) => (given, given == source),
    }
}
