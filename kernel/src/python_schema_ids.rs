//! What schema ids become, as Python sees it.

// Python's arguments are owned: a buffer must be held as long as its bytes are read.
#![allow(clippy::needless_pass_by_value)]

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};

use crate::met_schemas::MetSchemas;
use crate::python::{bytes_of, raised};
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

/// Ids and GUIDs of a field; and what looks like ids in an undecided one.
type FieldTuple<'py> = (Vec<Bound<'py, PyAny>>, Vec<i32>);

/// The schemas that records have the ids of; see `met_schemas::MetSchemas`.
#[pyclass(name = "MetSchemas", module = "mirror_ray.records._kernel")]
pub struct PyMetSchemas(MetSchemas);

#[pymethods]
impl PyMetSchemas {
    #[new]
    #[pyo3(signature = (*, key, value, most))]
    fn new(key: &str, value: &str, most: usize) -> PyResult<PyMetSchemas> {
        Ok(PyMetSchemas(MetSchemas::new([framing_of(key)?, framing_of(value)?], most)))
    }

    /// Takes the records in a span of offsets from verified batches of any magic, without those in ranges.
    fn take(
        &mut self,
        py: Python,
        batches: Vec<PyBuffer<u8>>,
        span: (i64, i64),
        leave_out: Vec<(i64, i64)>,
    ) -> PyResult<()> {
        let batches = batches.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        raised(py.detach(|| self.0.take(&batches, &(span.0..span.1), &leave_out)))
    }

    /// What was found in keys and in values, and whether there was more than is kept.
    fn found<'py>(&self, py: Python<'py>) -> (FieldTuple<'py>, FieldTuple<'py>, bool) {
        let [key, value] = self.0.found().map(|(schemas, candidates)| {
            let schemas = schemas.iter().map(|&schema| schema_object(py, schema)).collect();
            (schemas, candidates.iter().copied().collect())
        });
        (key, value, self.0.overflowed())
    }
}

fn schema_object(py: Python<'_>, schema: Schema) -> Bound<'_, PyAny> {
    match schema {
        Schema::Id(id) => PyInt::new(py, id).into_any(),
        Schema::Guid(guid) => PyBytes::new(py, &guid).into_any(),
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
        let schema = schema_object(py, issue.schema);
        let kind = match issue.kind {
            Kind::Missing => "missing-id",
            Kind::Absent => "absent-id",
            Kind::Undecided => "undecided-field",
        };
        (issue.number, FIELDS[issue.field], schema, kind)
    });
    (done.translated, done.unframed, issues.collect())
}
