//! The kernel as Python sees it. Everything but the making of Python objects runs without the GIL.

// Python's arguments are owned: a buffer must be held as long as its bytes are read.
#![allow(clippy::needless_pass_by_value)]

use std::ops::Range;

use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};

use crate::builder::Piece;
use crate::cleaned::CleanedComparison as Cleaned;
use crate::codecs::Codec;
use crate::compare::{Part, compare as compared};
use crate::digest::Digests;
use crate::error::{Error, Result};
use crate::last_records::{Comparing, KeyComparison as LastRecords};
use crate::python_columns::{PyColumns, columns};
use crate::python_schema_ids::{PyMetSchemas, PySchemaIds, framing_of};
use crate::recompress::recompress as recompressed;
use crate::repack::{Repacking, repack as repacked, repack_translated as with_other_ids};
use crate::runs::{KINDS, Run, runs as runs_of};

create_exception!(_kernel, CorruptError, PyValueError, "Bytes are no batch, or it contradicts itself.");
create_exception!(_kernel, TooLargeError, PyValueError, "A record alone is over the largest batch: offset, bytes.");

/// A new batch as Python gets it: bytes, first, last and next source offset, leader epoch, runs, bytes uncompressed, bytes
/// on the source, ages.
pub type PieceTuple<'py> =
    (Bound<'py, PyByteArray>, i64, i64, i64, i32, Bound<'py, PyTuple>, usize, usize, Bound<'py, PyTuple>);

/// A run as Python gets it: where its bytes begin and end, first and next offset, leader epoch, kind, number of batches.
type RunTuple = (usize, usize, i64, i64, i32, i16, usize);

pub fn bytes_of(buffer: &PyBuffer<u8>) -> PyResult<&[u8]> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("a contiguous buffer is wanted"));
    }
    // SAFETY: `buffer` keeps the memory, all of it initialized, and lives as long as the slice. As with hashlib, the caller
    // does not write to it meanwhile.
    #[allow(unsafe_code)]
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) })
}

pub fn raised<T>(result: Result<T>) -> PyResult<T> {
    result.map_err(|error| match error {
        Error::Corrupt(text) => CorruptError::new_err(text),
        Error::TooLarge { offset, batch_bytes } => TooLargeError::new_err((offset, batch_bytes)),
    })
}

/// Encodes the records of verified batches again; see `repack::repack`.
#[pyfunction]
#[pyo3(signature = (parts, *, codec, merge_bytes, max_batch_bytes, from_offset, leave_out))]
fn repack(
    py: Python,
    parts: Vec<PyBuffer<u8>>,
    codec: i16,
    merge_bytes: usize,
    max_batch_bytes: usize,
    from_offset: i64,
    leave_out: Vec<(i64, i64)>,
) -> PyResult<Vec<PieceTuple>> {
    let codec = raised(Codec::of(codec))?;
    let parts = parts.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
    let how = Repacking { codec, merge_bytes, max_batch_bytes, from_offset, leave_out: &leave_out };
    let pieces = raised(py.detach(|| repacked(&parts, &how)))?;
    pieces.into_iter().map(|piece| piece_tuple(py, &piece)).collect()
}

/// The same with other schema ids, with how many were translated and how many framed fields had none; None: something is in
/// the way of a record. See `repack::repack_translated`.
#[pyfunction]
#[pyo3(signature = (parts, ids, key, value, *, codec, merge_bytes, max_batch_bytes, from_offset, leave_out))]
#[allow(clippy::too_many_arguments, reason = "Python names them")]
fn repack_translated<'py>(
    py: Python<'py>,
    parts: Vec<PyBuffer<u8>>,
    ids: PyRef<'py, PySchemaIds>,
    key: &str,
    value: &str,
    codec: i16,
    merge_bytes: usize,
    max_batch_bytes: usize,
    from_offset: i64,
    leave_out: Vec<(i64, i64)>,
) -> PyResult<Option<(Vec<PieceTuple<'py>>, usize, usize)>> {
    let codec = raised(Codec::of(codec))?;
    let parts = parts.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
    let how = Repacking { codec, merge_bytes, max_batch_bytes, from_offset, leave_out: &leave_out };
    let (translations, framing) = (&ids.0, [framing_of(key)?, framing_of(value)?]);
    let Some((pieces, counts)) = raised(py.detach(|| with_other_ids(&parts, &how, translations, framing)))? else {
        return Ok(None);
    };
    let pieces = pieces.iter().map(|piece| piece_tuple(py, piece)).collect::<PyResult<_>>()?;
    Ok(Some((pieces, counts.translated, counts.unframed)))
}

pub fn piece_tuple<'py>(py: Python<'py>, piece: &Piece) -> PyResult<PieceTuple<'py>> {
    Ok((
        PyByteArray::new(py, &piece.bytes),
        piece.source_first,
        piece.source_last,
        piece.source_next,
        piece.leader_epoch,
        PyTuple::new(py, &piece.runs)?,
        piece.uncompressed_bytes,
        piece.source_bytes,
        PyTuple::new(py, &piece.ages)?,
    ))
}

/// Finds small batches that follow each other; see `runs::runs`.
#[pyfunction]
#[pyo3(signature = (data, *, largest, most_bytes))]
fn runs(py: Python, data: PyBuffer<u8>, largest: [usize; KINDS], most_bytes: usize) -> PyResult<Vec<RunTuple>> {
    let data = bytes_of(&data)?;
    let found = py.detach(|| runs_of(data, &largest, most_bytes));
    let tuple = |run: Run| {
        let Range { start, end } = run.bytes;
        (start, end, run.base_offset, run.next_offset, run.leader_epoch, run.kind, run.batches)
    };
    Ok(found.into_iter().map(tuple).collect())
}

/// Gives a verified batch of magic 2 another codec.
#[pyfunction]
fn recompress(py: Python<'_>, batch: PyBuffer<u8>, codec: i16) -> PyResult<Bound<'_, PyByteArray>> {
    let codec = raised(Codec::of(codec))?;
    let data = bytes_of(&batch)?;
    let bytes = raised(py.detach(|| recompressed(data, codec)))?;
    Ok(PyByteArray::new(py, &bytes))
}

/// Compares the batches of two logs from one offset each up to another; see `compare::compare`.
///
/// Returns how many records are the same, where what follows them begins on either side, and whether that differs.
#[pyfunction]
#[pyo3(signature = (mine, theirs, *, span, other_span, timestamps))]
fn compare(
    py: Python,
    mine: Vec<PyBuffer<u8>>,
    theirs: Vec<PyBuffer<u8>>,
    span: (i64, i64),
    other_span: (i64, i64),
    timestamps: bool,
) -> PyResult<(i64, i64, i64, bool)> {
    let mine = mine.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
    let theirs = theirs.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
    let here = Part { batches: &mine, start: span.0, end: span.1 };
    let there = Part { batches: &theirs, start: other_span.0, end: other_span.1 };
    let same = raised(py.detach(|| compared(here, there, timestamps)))?;
    Ok((same.records, same.starts[0], same.starts[1], same.differs))
}

/// Compares the last records of the keys of two logs; see `last_records::KeyComparison`. Sides are 0 and 1.
#[pyclass]
struct KeyComparison(LastRecords);

#[pymethods]
impl KeyComparison {
    #[new]
    #[pyo3(signature = (*, secret, timestamps, keys, ordered_below))]
    fn new(secret: [u8; 16], timestamps: bool, keys: (u64, u64), ordered_below: u64) -> KeyComparison {
        let digests = Digests { secret, timestamps };
        KeyComparison(LastRecords::new(Comparing { digests, keys: keys.0..keys.1, ordered_below }))
    }

    /// Takes the records in a span of offsets from a side's next batches.
    fn take(&mut self, py: Python, side: bool, batches: Vec<PyBuffer<u8>>, span: (i64, i64)) -> PyResult<()> {
        let batches = batches.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        raised(py.detach(|| self.0.take(side.into(), &batches, &(span.0..span.1))))
    }

    /// Records with a key that were taken of either side, keys, bytes of these, and whether all are the same in order.
    fn found(&self) -> (u64, u64, usize, usize, bool) {
        let ([mine, theirs], (keys, key_bytes)) = (self.0.records(), self.0.keys());
        (mine, theirs, keys, key_bytes, self.0.is_same())
    }

    /// The keys whose last records differ.
    fn differing_keys<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.0.differing_keys().map(|key| PyBytes::new(py, key)).collect()
    }
}

/// Compares two logs in their order, except for what log cleaning explains; see `cleaned::CleanedComparison`.
#[pyclass]
struct CleanedComparison(Cleaned);

#[pymethods]
impl CleanedComparison {
    #[new]
    #[pyo3(signature = (*, secret, timestamps))]
    fn new(secret: [u8; 16], timestamps: bool) -> CleanedComparison {
        CleanedComparison(Cleaned::new(Digests { secret, timestamps }))
    }

    /// Takes the records in a span of offsets from a side's next batches.
    fn take(&mut self, py: Python, side: bool, batches: Vec<PyBuffer<u8>>, span: (i64, i64)) -> PyResult<()> {
        let batches = batches.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        raised(py.detach(|| self.0.take(side.into(), &batches, &(span.0..span.1))))
    }

    /// How many records were cleaned on either side between these offsets, if nothing else differs.
    fn cleaned(
        &self,
        py: Python,
        span: (i64, i64),
        other_span: (i64, i64),
        superseded: Vec<PyBuffer<u8>>,
    ) -> PyResult<Option<(usize, usize)>> {
        let superseded = superseded.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        let spans = [span.0..span.1, other_span.0..other_span.1];
        Ok(py.detach(|| self.0.cleaned(&spans, &superseded)).map(|[mine, theirs]| (mine, theirs)))
    }
}

#[pymodule]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CorruptError", module.py().get_type::<CorruptError>())?;
    module.add("TooLargeError", module.py().get_type::<TooLargeError>())?;
    module.add_function(wrap_pyfunction!(repack, module)?)?;
    module.add_function(wrap_pyfunction!(repack_translated, module)?)?;
    module.add_function(wrap_pyfunction!(recompress, module)?)?;
    module.add_function(wrap_pyfunction!(runs, module)?)?;
    module.add_class::<KeyComparison>()?;
    module.add_function(wrap_pyfunction!(compare, module)?)?;
    module.add_function(wrap_pyfunction!(columns, module)?)?;
    module.add_class::<CleanedComparison>()?;
    module.add_class::<PySchemaIds>()?;
    module.add_class::<PyMetSchemas>()?;
    module.add_class::<PyColumns>()
}
