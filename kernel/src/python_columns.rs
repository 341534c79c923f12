//! The columns of records as Python sees them: lists of what is asked for.

// Python's arguments are owned: a buffer must be held as long as its bytes are read.
#![allow(clippy::needless_pass_by_value)]

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyRange, PyRangeMethods, PyString, PyTuple};

use crate::codecs::Codec;
use crate::columns::{Change, Columns, Field, Packing};
use crate::fields::HeaderField;
use crate::python::{PieceTuple, bytes_of, piece_tuple, raised};
use crate::python_schema_ids::{PySchemaIds, TranslatedTuple, framing_of, translated_tuple};

/// A record as Python gets it: offset, timestamp, and key, value and headers as in a batch of magic 2.
type RecordTuple<'py> = (i64, i64, Bound<'py, PyBytes>);

/// The records of batches; see `columns::Columns`.
#[pyclass(name = "Columns", module = "mirror_ray.records._kernel")]
pub struct PyColumns(Columns);

/// Reads the records of verified batches of any magic; see `columns::Columns::read`.
#[pyfunction]
#[pyo3(signature = (parts, *, from_offset, leave_out))]
pub fn columns(
    py: Python,
    parts: Vec<PyBuffer<u8>>,
    from_offset: i64,
    leave_out: Vec<(i64, i64)>,
) -> PyResult<PyColumns> {
    let parts = parts.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
    raised(py.detach(|| Columns::read(&parts, from_offset, &leave_out))).map(PyColumns)
}

#[pymethods]
impl PyColumns {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn offsets(&self) -> Vec<i64> {
        self.0.records().map(|record| record.offset).collect()
    }

    fn timestamps(&self) -> Vec<i64> {
        self.0.records().map(|record| record.timestamp).collect()
    }

    fn keys<'py>(&self, py: Python<'py>) -> Vec<Option<Bound<'py, PyBytes>>> {
        self.0.keys().map(|key| bytes_or_none(py, key)).collect()
    }

    fn values<'py>(&self, py: Python<'py>) -> Vec<Option<Bound<'py, PyBytes>>> {
        self.0.values().map(|value| bytes_or_none(py, value)).collect()
    }

    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.0.headers().map(|headers| header_tuples(py, &raised(headers)?)).collect()
    }

    /// Records by their numbers, as they are packed.
    fn decoded<'py>(&self, py: Python<'py>, numbers: Vec<usize>) -> PyResult<Vec<RecordTuple<'py>>> {
        let made = |number| {
            let record = raised(self.0.record(number))?;
            Ok((record.offset, record.timestamp, PyBytes::new(py, record.tail)))
        };
        numbers.into_iter().map(made).collect()
    }

    /// Has records packed as `results` say: tuples that begin with key, value, headers and timestamp. What is `unread`, at
    /// the first three places, stays as the source has it.
    ///
    /// Returns the numbers of records that were left as they are, since a field is of a type that is not written here.
    fn change<'py>(
        &mut self,
        numbers: Vec<usize>,
        results: Vec<Bound<'py, PyTuple>>,
        unread: (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>),
    ) -> PyResult<Vec<usize>> {
        let mut left = Vec::new();
        for (number, result) in numbers.into_iter().zip(&results) {
            let Ok(given) = Given::of(result, [&unread.0, &unread.1, &unread.2]) else {
                left.push(number);
                continue;
            };
            match given.change() {
                Ok(change) => raised(self.0.change(number, &change))?,
                Err(_) => left.push(number),
            }
        }
        Ok(left)
    }

    /// Has a record packed with this timestamp, and these bytes as key, value and headers.
    fn replace(&mut self, number: usize, timestamp: i64, tail: PyBuffer<u8>) -> PyResult<()> {
        raised(self.0.replace(number, timestamp, bytes_of(&tail)?))
    }

    /// Changes the schema ids of records by their numbers; see `columns::Columns::translate`.
    fn translate<'py>(
        &mut self,
        py: Python<'py>,
        numbers: Bound<'py, PyAny>,
        ids: PyRef<'py, PySchemaIds>,
        key: &str,
        value: &str,
    ) -> PyResult<TranslatedTuple<'py>> {
        let (numbers, translations) = (numbers_of(&numbers)?, &ids.0);
        let framing = [framing_of(key)?, framing_of(value)?];
        let done = raised(py.detach(|| self.0.translate(numbers, translations, framing)))?;
        Ok(translated_tuple(py, &done))
    }

    /// Encodes records by their numbers; see `columns::Columns::pack`.
    #[pyo3(signature = (numbers, *, codec, merge_bytes, max_batch_bytes))]
    fn pack<'py>(
        &self,
        py: Python<'py>,
        numbers: Bound<'py, PyAny>,
        codec: i16,
        merge_bytes: usize,
        max_batch_bytes: usize,
    ) -> PyResult<Vec<PieceTuple<'py>>> {
        let how = Packing { codec: raised(Codec::of(codec))?, merge_bytes, max_batch_bytes };
        let numbers = numbers_of(&numbers)?;
        let pieces = raised(py.detach(|| self.0.pack(&numbers, &how)))?;
        pieces.into_iter().map(|piece| piece_tuple(py, &piece)).collect()
    }
}

/// Numbers of records: a range is not made into objects.
fn numbers_of(numbers: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    match numbers.cast_exact::<PyRange>() {
        Ok(range) if range.step()? == 1 => {
            let (start, stop) = (usize::try_from(range.start()?)?, usize::try_from(range.stop()?)?);
            Ok((start..stop).collect())
        }
        _ => numbers.extract(),
    }
}

fn bytes_or_none<'py>(py: Python<'py>, field: Option<&[u8]>) -> Option<Bound<'py, PyBytes>> {
    field.map(|field| PyBytes::new(py, field))
}

fn header_tuples<'py>(py: Python<'py>, headers: &[HeaderField]) -> PyResult<Bound<'py, PyTuple>> {
    if headers.is_empty() {
        return Ok(PyTuple::empty(py));
    }
    let made = headers.iter().map(|&(name, value)| Ok((name_of(py, name)?, bytes_or_none(py, value))));
    PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)
}

/// Names are UTF-8 by Kafka's rule; bytes that are none come back as they were.
fn name_of<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(name) {
        Ok(name) => Ok(PyString::new(py, name)),
        Err(_) => PyString::from_encoded_object(&PyBytes::new(py, name), Some(c"utf-8"), Some(c"surrogateescape")),
    }
}

type NullableBytes<'py> = Option<Bound<'py, PyBytes>>;

/// What a record is to be, in Python's objects.
struct Given<'py> {
    timestamp: i64,
    key: Field<NullableBytes<'py>>,
    value: Field<NullableBytes<'py>>,
    headers: Field<Vec<(Bound<'py, PyString>, NullableBytes<'py>)>>,
}

impl<'py> Given<'py> {
    /// Fails where a field is not of the very type that it usually has.
    fn of(result: &Bound<'py, PyTuple>, unread: [&Bound<'py, PyAny>; 3]) -> PyResult<Given<'py>> {
        let bytes_at = |at: usize| {
            let given = result.get_item(at)?;
            if given.is(unread[at]) { Ok(Field::Kept) } else { nullable(given).map(Field::Given) }
        };
        let headers = result.get_item(2)?;
        Ok(Given {
            timestamp: result.get_item(3)?.cast_exact::<PyInt>()?.extract()?,
            key: bytes_at(0)?,
            value: bytes_at(1)?,
            headers: if headers.is(unread[2]) { Field::Kept } else { Field::Given(given_headers(&headers)?) },
        })
    }

    /// The same in bytes. Fails where a name is not of Unicode.
    fn change(&self) -> PyResult<Change<'_>> {
        let headers = match &self.headers {
            Field::Kept => Field::Kept,
            Field::Given(given) => {
                let bytes = given.iter().map(|(name, value)| Ok((name.to_str()?.as_bytes(), bytes_of_one(value))));
                Field::Given(bytes.collect::<PyResult<Vec<_>>>()?)
            }
        };
        Ok(Change { timestamp: self.timestamp, key: bytes_in(&self.key), value: bytes_in(&self.value), headers })
    }
}

fn bytes_in<'a>(field: &'a Field<NullableBytes>) -> Field<Option<&'a [u8]>> {
    match field {
        Field::Kept => Field::Kept,
        Field::Given(given) => Field::Given(bytes_of_one(given)),
    }
}

fn bytes_of_one<'a>(given: &'a NullableBytes) -> Option<&'a [u8]> {
    given.as_ref().map(PyBytesMethods::as_bytes)
}

fn nullable(given: Bound<'_, PyAny>) -> PyResult<NullableBytes<'_>> {
    if given.is_none() { Ok(None) } else { Ok(Some(given.cast_into_exact()?)) }
}

fn given_headers<'py>(given: &Bound<'py, PyAny>) -> PyResult<Vec<(Bound<'py, PyString>, NullableBytes<'py>)>> {
    let header = |given: Bound<'py, PyAny>| {
        let header = given.cast_into_exact::<PyTuple>()?;
        let (name, value) = header.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        Ok((name.cast_into_exact()?, nullable(value)?))
    };
    given.cast_exact::<PyTuple>()?.iter().map(header).collect()
}
