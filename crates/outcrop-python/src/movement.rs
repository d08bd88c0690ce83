//! Moving arrays, and what that will take.

use crate::convert::{box_of, dtype_of, labels_of};
use crate::errors::to_python;
use crate::process;
use crate::store::{Store, run};
use outcrop_engine::runtime::{self, Supposed};
use outcrop_ops::boxes::fill;
use outcrop_ops::boxes::overlay::{self, Overlay};
use outcrop_ops::kernels::Half;
use outcrop_ops::relayout;
use outcrop_store::Dims;
use outcrop_store::format::zarr::Encoding;
use outcrop_store::layout::Layout;
use outcrop_store::shape::default_tile;
use outcrop_store::store::adapters::oriented::Orientation;
use outcrop_store::store::open::{self, NewFormat};
use outcrop_store::store::sketch::Sketch;
use outcrop_store::store::{Info, Store as _};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Axes, and which of them run backwards.
type Turn = (Vec<usize>, Vec<bool>);

fn orientation(py: Python<'_>, turn: Option<Turn>) -> PyResult<Option<Orientation>> {
    let made = turn.map(|(axes, reversed)| Orientation::new(&axes, &reversed));
    made.transpose().map_err(|e| to_python(py, e))
}

#[pyfunction]
#[pyo3(signature = (source, start, shape, turn, target, progress))]
pub fn copy_box(
    py: Python<'_>,
    source: &Store,
    start: Vec<u64>,
    shape: Vec<u64>,
    turn: Option<Turn>,
    target: &Store,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let region = box_of(py, &start, &shape)?;
    let orientation = orientation(py, turn)?;
    let (runtime, from) = source.inner(py)?;
    let (_, to) = target.inner(py)?;
    run(py, &runtime, progress, |watch| {
        relayout::copy(&runtime, &from, &region, orientation.as_ref(), &to, watch)
    })
    .map(drop)
    .map_err(|error| source.take_raised().unwrap_or(error))
}

#[pyfunction]
#[pyo3(signature = (source, start, shape, turn, target))]
pub fn plan_copy<'py>(
    py: Python<'py>,
    source: &Store,
    start: Vec<u64>,
    shape: Vec<u64>,
    turn: Option<Turn>,
    target: &Store,
) -> PyResult<Bound<'py, PyDict>> {
    let region = box_of(py, &start, &shape)?;
    let orientation = orientation(py, turn)?;
    let (runtime, from) = source.inner(py)?;
    let (_, to) = target.inner(py)?;
    let (plan, found) = run(py, &runtime, None, |_| {
        let plan = relayout::plan(&runtime, &from, &region, orientation.as_ref(), &to)?;
        let passes = plan.passes()?;
        Ok((plan, passes))
    })?;
    let facts = PyDict::new(py);
    facts.set_item("bytes_read", found.iter().map(|p| p.bytes_read).sum::<u64>())?;
    let written: u64 = found.iter().map(|p| p.bytes_written).sum();
    facts.set_item("bytes_written", written + plan.commit_bytes())?;
    facts.set_item("commit_bytes", plan.commit_bytes())?;
    let mut passes = Vec::new();
    for pass in found {
        let one = PyDict::new(py);
        one.set_item("remark", pass.remark)?;
        one.set_item("bytes_read", pass.bytes_read)?;
        one.set_item("bytes_written", pass.bytes_written)?;
        one.set_item("seconds", pass.seconds)?;
        passes.push(one);
    }
    facts.set_item("passes", passes)?;
    facts.set_item("scratch_bytes", plan.scratch_bytes())?;
    facts.set_item("peak_bytes", plan.peak_bytes())?;
    facts.set_item("seconds", plan.seconds())?;
    facts.set_item("budget", runtime.limit())?;
    facts.set_item("measured", plan.is_measured())?;
    facts.set_item("others", plan.others().to_vec())?;
    Ok(facts)
}

/// An array in memory that is only planned.
#[pyfunction]
pub fn sketch_in_memory(py: Python<'_>, shape: Vec<u64>, dtype: &str) -> PyResult<Store> {
    let (dtype, _) = dtype_of(py, dtype)?;
    Ok(Store::of(Arc::new(Sketch::in_memory(&shape, dtype)), Path::new("memory"), None))
}

/// Supposes, for what this thread plans, a budget of so many bytes, and that others have so many more of it than they
/// have; gives what was supposed before.
#[pyfunction]
#[pyo3(signature = (limit, elsewhere))]
pub fn suppose(limit: Option<usize>, elsewhere: usize) -> (Option<usize>, usize) {
    let before = runtime::suppose(Supposed { limit, elsewhere });
    (before.limit, before.elsewhere)
}

/// What filling an array takes that is only planned.
#[pyfunction]
pub fn plan_fill<'py>(py: Python<'py>, target: &Store) -> PyResult<Bound<'py, PyDict>> {
    let (runtime, to) = target.inner(py)?;
    let found = run(py, &runtime, None, |_| fill::plan(&runtime, &to))?;
    let facts = PyDict::new(py);
    facts.set_item("bytes_written", found.bytes_written)?;
    facts.set_item("commit_bytes", to.bytes_to_commit())?;
    facts.set_item("least_bytes", found.least_bytes)?;
    facts.set_item("peak_bytes", found.peak_bytes)?;
    facts.set_item("seconds", found.seconds)?;
    Ok(facts)
}

/// The half of a matrix that changes, by whether it is the lower one.
fn half_of(lower: Option<bool>) -> Option<Half> {
    lower.map(|lower| if lower { Half::Lower } else { Half::Upper })
}

/// Stores the source's elements in a part of an array that is there, or those of one half of them. Does not commit; of a
/// Zarr array of ours that is visible, what was stored is taken back where it fails.
#[pyfunction]
#[pyo3(signature = (source, target, start, lower, progress))]
pub fn lay(
    py: Python<'_>,
    source: &Store,
    target: &Store,
    start: Vec<u64>,
    lower: Option<bool>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let (runtime, from) = source.inner(py)?;
    let (_, to) = target.inner(py)?;
    let visible = to.info().format == "zarr" && !to.is_pending();
    run(py, &runtime, progress, |watch| {
        let overlay = Overlay { source: &from, target: &to, start: &start, half: half_of(lower) };
        let done = overlay::lay(&runtime, overlay, watch);
        if done.is_err() && visible {
            to.fail();
        }
        done.map(drop)
    })
}

/// What `lay` would take; the source may be one that is only planned.
#[pyfunction]
#[pyo3(signature = (source, target, start, lower))]
pub fn plan_lay<'py>(
    py: Python<'py>,
    source: &Store,
    target: &Store,
    start: Vec<u64>,
    lower: Option<bool>,
) -> PyResult<Bound<'py, PyDict>> {
    let (runtime, from) = source.inner(py)?;
    let (_, to) = target.inner(py)?;
    let found = run(py, &runtime, None, |_| {
        let overlay = Overlay { source: &from, target: &to, start: &start, half: half_of(lower) };
        overlay::plan(&runtime, overlay)
    })?;
    let facts = PyDict::new(py);
    let commit = to.bytes_to_commit();
    facts.set_item("bytes_read", found.bytes_read)?;
    facts.set_item("bytes_written", found.bytes_written + commit)?;
    facts.set_item("commit_bytes", commit)?;
    facts.set_item("least_bytes", found.least_bytes)?;
    facts.set_item("peak_bytes", found.peak_bytes)?;
    facts.set_item("seconds", found.seconds)?;
    Ok(facts)
}

/// An array that is only planned, with codecs of the user's choice.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn sketch_encoded(
    py: Python<'_>,
    path: PathBuf,
    shape: Vec<u64>,
    dtype: &str,
    tile: Option<Vec<u64>>,
    codecs: String,
    zarr_format: u8,
    labels: &str,
) -> PyResult<Store> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let tile = tile.map(|tile| tile.as_slice().into());
    let labels = labels_of(py, labels)?;
    let runtime = process::runtime(py)?;
    let path = std::path::absolute(&path)?;
    let made = run(py, &runtime, None, |_| {
        let format = NewFormat::encoded(&path, dtype, zarr_format, codecs, tile, labels)?;
        open::sketch_encoded(runtime.disk(), &path, &shape, dtype, format)
    })?;
    Ok(Store::of(made, &path, None))
}

/// An array that is only planned: what will be made at a path.
#[pyfunction]
#[pyo3(signature = (path, format, shape, dtype, tile, order, offset, labels))]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn sketch(
    py: Python<'_>,
    path: PathBuf,
    format: &str,
    shape: Vec<u64>,
    dtype: &str,
    tile: Option<Vec<u64>>,
    order: &str,
    offset: u64,
    labels: &str,
) -> PyResult<Store> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let labels = labels_of(py, labels)?;
    let tiled = format == "zarr";
    let tile: Dims = match tile {
        Some(tile) => tile.as_slice().into(),
        None => default_tile(&shape, dtype.size()),
    };
    let info = Info {
        path: std::path::absolute(&path)?,
        shape: shape.as_slice().into(),
        dtype,
        tile,
        layout: match (tiled, order) {
            (true, _) => Layout::Tiled,
            (_, "F") => Layout::ColumnMajor,
            _ => Layout::RowMajor,
        },
        format: if tiled { "zarr" } else { "raw" },
        codecs: String::new(),
        attributes: "{}".into(),
        writable: false,
    };
    let made = if tiled {
        Sketch::tiled(info, Encoding::default(), &labels)
    } else {
        Ok(Sketch::in_one_file(info, offset))
    };
    let inner = Arc::new(made.map_err(|e| to_python(py, e))?);
    let path = inner.info().path.clone();
    Ok(Store::of(inner, &path, None))
}
