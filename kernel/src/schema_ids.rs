//! Schema ids in records, as serializers of schema registries put them there, changed to those of another registry.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::columns::Columns;
use crate::error::Result;
use crate::fields::FieldPlaces;

/// The bytes before a record's data: 0, and an id.
const FRAME_BYTES: usize = 5;
/// The value of a header with an id: the same. Of one with a GUID: 1, and the GUID.
const GUID_HEADER_BYTES: usize = 17;
/// The headers that newer serializers write, by field.
const HEADERS: [&[u8]; 2] = [b"__key_schema_id", b"__value_schema_id"];

/// Where plain numbers look like ids each is another one.
pub(crate) const MOST_TOLD: usize = 100;

/// A schema's GUID.
pub type Guid = [u8; 16];

/// What schema ids become.
#[derive(Clone, Debug, Default)]
pub struct Translations {
    /// By the source's id. None: the source registry does not have it.
    pub ids: HashMap<i32, Option<i32>>,
    /// The same by GUIDs.
    pub guids: HashMap<Guid, Option<Guid>>,
}

/// Whether records of a topic have schema ids in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// They have.
    Framed,
    /// They have not, whatever it looks like.
    Plain,
    /// That is not known yet.
    Undecided,
}

/// What a schema is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schema {
    /// A number of one registry.
    Id(i32),
    /// The same in every registry, unless the schema's references have others.
    Guid(Guid),
}

/// Why an id can't be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing is known of it.
    Missing,
    /// The source registry does not have it.
    Absent,
    /// Whether it is one at all is undecided.
    Undecided,
}

/// What is in the way of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The record's.
    pub number: usize,
    /// 0: the key. 1: the value.
    pub field: usize,
    /// What is there.
    pub schema: Schema,
    /// Why that is no use.
    pub kind: Kind,
}

/// What became of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// How many ids and GUIDs were changed.
    pub translated: usize,
    /// How many fields had none though records have, without those that are null.
    pub unframed: usize,
    /// In the records' order: all that are absent; of what is missing or undecided the first of each, a hundred at most.
    pub issues: Vec<Issue>,
}

/// How often ids were met, over many records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdCounts {
    /// As in `Translated`.
    pub translated: usize,
    /// The same.
    pub unframed: usize,
}

/// New bytes, and where they go.
#[derive(Clone, Copy, Debug)]
enum Edit {
    Id(usize, i32),
    Guid(usize, Guid),
}

impl Edit {
    #[inline]
    fn apply(self, bytes: &mut [u8]) {
        match self {
            Edit::Id(at, id) => bytes[at..at + 4].copy_from_slice(&id.to_be_bytes()),
            Edit::Guid(at, guid) => bytes[at..at + guid.len()].copy_from_slice(&guid),
        }
    }
}

impl Columns {
    /// Changes the ids of records, by their numbers, in the bytes that they are packed by; `framing`: of key and value.
    ///
    /// An id before the data does not count where a header has one. A record with an absent one is left as it is; where
    /// anything is missing or undecided, all are.
    pub fn translate(
        &mut self,
        numbers: impl IntoIterator<Item = usize>,
        translations: &Translations,
        framing: [Framing; 2],
    ) -> Result<Translated> {
        let mut search = Search::new(translations, framing);
        for number in numbers {
            let tail = self.tail_range(number)?;
            search.record(number, self.bytes(), tail)?;
        }
        if search.waits {
            return Ok(Translated { translated: 0, ..search.found });
        }
        let bytes = self.bytes_mut();
        for edit in &search.edits {
            edit.apply(bytes);
        }
        Ok(search.found)
    }
}

/// Translates the tails of records one by one, as long as nothing is in the way of any.
pub(crate) struct TailTranslator<'a> {
    search: Search<'a>,
    translated: usize,
}

impl TailTranslator<'_> {
    pub fn new(translations: &Translations, framing: [Framing; 2]) -> TailTranslator<'_> {
        TailTranslator { search: Search::new(translations, framing), translated: 0 }
    }

    /// Whether that was done.
    #[inline]
    pub fn translate(&mut self, tail: &mut [u8]) -> Result<bool> {
        let search = &mut self.search;
        search.record(0, tail, 0..tail.len())?;
        self.translated += search.edits.len();
        for edit in search.edits.drain(..) {
            edit.apply(tail);
        }
        Ok(search.found.issues.is_empty())
    }

    /// Of all records so far.
    pub fn counts(&self) -> IdCounts {
        IdCounts { translated: self.translated, unframed: self.search.found.unframed }
    }
}

/// What is found in records, one after the other.
struct Search<'a> {
    translations: &'a Translations,
    framing: [Framing; 2],
    /// Of both fields: the last id that was looked up, and what it becomes.
    last: [(i32, i32); 2],
    edits: Vec<Edit>,
    found: Translated,
    /// Whether anything is missing or undecided, and what of that was told.
    waits: bool,
    told: HashSet<(usize, Schema)>,
}

impl Search<'_> {
    fn new(translations: &Translations, framing: [Framing; 2]) -> Search<'_> {
        // No id is 0.
        let last = [(0, 0); 2];
        let (edits, told) = (Vec::new(), HashSet::new());
        Search { translations, framing, last, edits, found: Translated::default(), waits: false, told }
    }

    #[inline]
    fn record(&mut self, number: usize, bytes: &[u8], tail: Range<usize>) -> Result<()> {
        let (edits_before, issues_before) = (self.edits.len(), self.found.issues.len());
        let unframed = for_each_schema(bytes, tail, self.framing, |field, at, schema| match schema {
            Schema::Id(id) => self.id(number, field, at, id),
            Schema::Guid(guid) => self.guid(number, field, at, guid),
        })?;
        self.found.unframed += unframed;
        if self.found.issues.len() > issues_before {
            // It fails, or all wait: a part of it is translated in neither case.
            self.edits.truncate(edits_before);
        }
        self.found.translated = self.edits.len();
        Ok(())
    }

    #[inline]
    fn id(&mut self, number: usize, field: usize, at: usize, id: i32) {
        if self.framing[field] == Framing::Undecided {
            return self.issue(number, field, Schema::Id(id), Kind::Undecided);
        }
        if self.last[field].0 == id {
            return self.edits.push(Edit::Id(at, self.last[field].1));
        }
        match self.translations.ids.get(&id) {
            Some(&Some(target)) => {
                self.last[field] = (id, target);
                self.edits.push(Edit::Id(at, target));
            }
            Some(None) => self.issue(number, field, Schema::Id(id), Kind::Absent),
            None => self.issue(number, field, Schema::Id(id), Kind::Missing),
        }
    }

    fn guid(&mut self, number: usize, field: usize, at: usize, guid: Guid) {
        if self.framing[field] == Framing::Undecided {
            return self.issue(number, field, Schema::Guid(guid), Kind::Undecided);
        }
        match self.translations.guids.get(&guid) {
            Some(&Some(target)) => self.edits.push(Edit::Guid(at, target)),
            Some(None) => self.issue(number, field, Schema::Guid(guid), Kind::Absent),
            None => self.issue(number, field, Schema::Guid(guid), Kind::Missing),
        }
    }

    fn issue(&mut self, number: usize, field: usize, schema: Schema, kind: Kind) {
        if kind != Kind::Absent {
            self.waits = true;
            if self.told.len() == MOST_TOLD || !self.told.insert((field, schema)) {
                return;
            }
        }
        self.found.issues.push(Issue { number, field, schema, kind });
    }
}

/// Calls `visit` with field, place and schema of what looks like an id in the fields of a record that are not plain, headers
/// first; returns how many framed fields have none, without those that are null.
#[inline]
pub(crate) fn for_each_schema(
    bytes: &[u8],
    tail: Range<usize>,
    framing: [Framing; 2],
    mut visit: impl FnMut(usize, usize, Schema),
) -> Result<usize> {
    let places = FieldPlaces::read(&bytes[..tail.end], tail.start)?;
    let (mut in_headers, mut unframed) = ([false; 2], 0);
    places.for_each_header(|name, value| {
        let Some(field) = HEADERS.iter().position(|header| *header == &bytes[name.clone()]) else {
            return;
        };
        let value = value.unwrap_or(0..0);
        if framing[field] == Framing::Plain {
            return;
        }
        let from = value.start + 1;
        if let Some(id) = framed_id(&bytes[value.clone()]).filter(|_| value.len() == FRAME_BYTES) {
            in_headers[field] = true;
            visit(field, from, Schema::Id(id));
        } else if value.len() == GUID_HEADER_BYTES && bytes[value.start] == 1 {
            in_headers[field] = true;
            let mut guid = Guid::default();
            guid.copy_from_slice(&bytes[from..value.end]);
            visit(field, from, Schema::Guid(guid));
        }
    })?;
    for (field, place) in [&places.key, &places.value].into_iter().enumerate() {
        let Some(place) = place.as_ref().filter(|_| !in_headers[field]) else {
            continue;
        };
        match (framing[field], framed_id(&bytes[place.clone()])) {
            (Framing::Plain, _) | (Framing::Undecided, None) => {}
            (Framing::Framed, None) => unframed += 1,
            (_, Some(id)) => visit(field, place.start + 1, Schema::Id(id)),
        }
    }
    Ok(unframed)
}

/// The id that a field begins with, if it looks so.
#[inline]
fn framed_id(field: &[u8]) -> Option<i32> {
    let id = i32::from_be_bytes(field.get(1..FRAME_BYTES)?.try_into().ok()?);
    (field[0] == 0 && id >= 1).then_some(id)
}
