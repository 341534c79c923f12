//! What schema ids become, as Python sees it.

// Python's arguments are owned: a buffer must be held as long as its bytes are read.
#![allow(clippy::needless_pass_by_value)]

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

use crate::schema_ids::{Framing, Guid, Kind, Schema, Translated, Translations};

/// A record that something is in the way of: its number, key or value, its id or GUID, why.
type IssueTuple<'py> = (usize, &'static str, Bound<'py, PyAny>, &'static str);

/// How many ids were translated, how many fields had none, and what is in the way of records.
pub type TranslatedTuple<'py> = (usize, usize, Vec<IssueTuple<'py>>);

const FIELDS: [&str; 2] = ["key", "value"];

/// What schema ids become; see `schema_ids::Translations`.
#[pyclass(name = "SchemaIds", module = "mirror_ray.records._kernel")]
#[derive(Default)]
pub struct PySchemaIds(pub Translations);

#[pymethods]
impl PySchemaIds {
    #[new]
    fn new() -> PySchemaIds {
        PySchemaIds::default()
    }

    fn __len__(&self) -> usize {
        self.0.ids.len() + self.0.guids.len()
    }

    /// Learns what ids and GUIDs become; None: the source registry does not have them.
    fn update(&mut self, ids: Vec<(i32, Option<i32>)>, guids: Vec<(Guid, Option<Guid>)>) {
        self.0.ids.extend(ids);
        self.0.guids.extend(guids);
    }

    /// Knows nothing of these any more.
    fn forget(&mut self, ids: Vec<i32>, guids: Vec<Guid>) {
        for id in ids {
            self.0.ids.remove(&id);
        }
        for guid in guids {
            self.0.guids.remove(&guid);
        }
    }
}

pub fn framing_of(text: &str) -> PyResult<Framing> {
    match text {
        "framed" => Ok(Framing::Framed),
        "plain" => Ok(Framing::Plain),
        "undecided" => Ok(Framing::Undecided),
        _ => Err(PyValueError::new_err(format!("{text:?} is none of framed, plain, undecided"))),
    }
}

pub fn translated_tuple<'py>(py: Python<'py>, done: &Translated) -> TranslatedTuple<'py> {
    let issues = done.issues.iter().map(|issue| {
        let schema = match issue.schema {
            Schema::Id(id) => PyInt::new(py, id).into_any(),
            Schema::Guid(guid) => PyBytes::new(py, &guid).into_any(),
        };
        let kind = match issue.kind {
            Kind::Missing => "missing-id",
            Kind::Absent => "absent-id",
            Kind::Undecided => "undecided-field",
        };
        (issue.number, FIELDS[issue.field], schema, kind)
    });
    (done.translated, done.unframed, issues.collect())
}
