//! Key, value and headers of a record, as they are in a batch of magic 2.

use std::ops::Range;

use crate::error::{Result, corrupt};
use crate::varint;

/// A header: its name, and its value or null.
pub type HeaderField<'a> = (&'a [u8], Option<&'a [u8]>);

/// Where a record's fields lie in its tail: keys and values without their lengths.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Null: it has none.
    pub key: Option<(usize, usize)>,
    /// Null: a tombstone.
    pub value: Option<(usize, usize)>,
    /// Where the headers begin, with their number.
    pub headers: usize,
    /// How many there are.
    pub header_count: usize,
}

impl Fields {
    /// Finds them; fails where they don't fill the tail.
    pub fn read(tail: &[u8]) -> Result<Fields> {
        let mut at = 0;
        let key = nullable(tail, &mut at)?;
        let value = nullable(tail, &mut at)?;
        let mut header_count = 0;
        for_each_header(&tail[at..], |_| header_count += 1)?;
        Ok(Fields { key, value, headers: at, header_count })
    }
}

/// A field behind its length, which is negative for null: where it lies.
#[inline]
fn nullable(data: &[u8], at: &mut usize) -> Result<Option<(usize, usize)>> {
    let Ok(length) = usize::try_from(varint::read(data, at)?) else {
        return Ok(None);
    };
    match at.checked_add(length) {
        Some(end) if end <= data.len() => Ok(Some((std::mem::replace(at, end), end))),
        _ => corrupt("a record ends too early"),
    }
}

/// The headers in `data`, which begins with their number and ends with the last one.
pub fn headers_of(data: &[u8]) -> Result<Vec<HeaderField<'_>>> {
    let mut found = Vec::new();
    for_each_header(data, |header| found.push(header))?;
    Ok(found)
}

/// Calls `visit` for each header of `data`, which begins with their number and ends with the last one.
fn for_each_header<'a>(data: &'a [u8], mut visit: impl FnMut(HeaderField<'a>)) -> Result<()> {
    for_each_place(data, 0, |name, value| visit((&data[name], value.map(|value| &data[value]))))
}

/// The same from `at` on: where name and value lie.
#[inline]
fn for_each_place(data: &[u8], mut at: usize, mut visit: impl FnMut(Range<usize>, Option<Range<usize>>)) -> Result<()> {
    let count = varint::read(data, &mut at)?;
    for _ in 0..count {
        let Some((from, to)) = nullable(data, &mut at)? else {
            return corrupt("a header without a name");
        };
        visit(from..to, nullable(data, &mut at)?.map(|(from, to)| from..to));
    }
    if count >= 0 && at == data.len() { Ok(()) } else { corrupt("headers that don't fill their bytes") }
}

/// Where the fields of a record lie in `data`, which ends with it.
#[derive(Clone, Debug)]
pub struct FieldPlaces<'a> {
    data: &'a [u8],
    /// Null: it has none.
    pub key: Option<Range<usize>>,
    /// Null: a tombstone.
    pub value: Option<Range<usize>>,
    headers: usize,
}

impl<'a> FieldPlaces<'a> {
    /// Finds key and value of the record that begins at `at`.
    #[inline]
    pub fn read(data: &'a [u8], mut at: usize) -> Result<FieldPlaces<'a>> {
        let key = nullable(data, &mut at)?.map(|(from, to)| from..to);
        let value = nullable(data, &mut at)?.map(|(from, to)| from..to);
        Ok(FieldPlaces { data, key, value, headers: at })
    }

    /// Calls `visit` with the places of name and value of each header.
    #[inline]
    pub fn for_each_header(&self, visit: impl FnMut(Range<usize>, Option<Range<usize>>)) -> Result<()> {
        for_each_place(self.data, self.headers, visit)
    }
}

/// Key, value and headers as in a batch of magic 2.
pub fn tail_of(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[HeaderField]) -> Vec<u8> {
    let size = |field: Option<&[u8]>| varint::MAX_BYTES + field.map_or(0, <[u8]>::len);
    let of_headers: usize = headers.iter().map(|&(name, value)| size(Some(name)) + size(value)).sum();
    let mut tail = Vec::with_capacity(size(key) + size(value) + varint::MAX_BYTES + of_headers);
    put_nullable(&mut tail, key);
    put_nullable(&mut tail, value);
    put_varint(&mut tail, headers.len());
    for &(name, value) in headers {
        put_nullable(&mut tail, Some(name));
        put_nullable(&mut tail, value);
    }
    tail
}

fn put_nullable(tail: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => tail.push(1),
        Some(field) => {
            put_varint(tail, field.len());
            tail.extend_from_slice(field);
        }
    }
}

fn put_varint(tail: &mut Vec<u8>, number: usize) {
    let mut encoded = [0; varint::MAX_BYTES];
    let size = varint::write(&mut encoded, i64::try_from(number).unwrap_or(i64::MAX));
    tail.extend_from_slice(&encoded[..size]);
}
