//! Arrays whose elements a Python function gives.

use crate::convert::{canvas_of, dtype_of, tuple};
use crate::errors::to_python;
use crate::store::Store as OpenStore;
use numpy::PyUntypedArray;
use outcrop_engine::runtime::run_queue;
use outcrop_store::layout::Layout;
use outcrop_store::store::{Canvas, Info, Mover, Staging, Store};
use outcrop_store::{ArrayBox, DType, Error, Result, TileGrid};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// What Python raised while a run called it.
pub type Raised = Arc<Mutex<Option<PyErr>>>;

/// An array that is made box by box by a function, called with the start of a box and the memory for it.
pub struct FunctionArray {
    info: Info,
    function: Py<PyAny>,
    raised: Raised,
    reads: bool,
    /// Where another library gives the elements, tile by tile: a grid of its tiles.
    external: Option<TileGrid>,
}

impl FunctionArray {
    /// `reads` says whether the function may read other arrays.
    pub fn new(shape: &[u64], dtype: DType, tile: &[u64], function: Py<PyAny>, reads: bool) -> FunctionArray {
        let info = Info {
            path: "function".into(),
            shape: shape.into(),
            dtype,
            tile: tile.into(),
            layout: Layout::RowMajor,
            format: "function",
            codecs: "none".into(),
            attributes: "{}".into(),
            writable: false,
        };
        FunctionArray { info, function, raised: Raised::default(), reads, external: None }
    }

    /// An array whose elements another library gives, which has tiles that it reads as a whole. What it reads is
    /// counted as so many bytes as the tiles have.
    ///
    /// # Errors
    /// Where there are no such tiles.
    pub fn external(shape: &[u64], dtype: DType, tile: &[u64], function: Py<PyAny>) -> Result<FunctionArray> {
        let mut made = FunctionArray::new(shape, dtype, tile, function, true);
        made.info.layout = Layout::Tiled;
        made.external = Some(TileGrid::new(shape, tile)?);
        Ok(made)
    }

    pub fn raised(&self) -> Raised {
        Arc::clone(&self.raised)
    }
}

impl Store for FunctionArray {
    fn info(&self) -> &Info {
        &self.info
    }

    fn staging(&self, _exact: bool) -> Staging {
        Staging { least: 0, wanted: 0 }
    }

    /// Each box is made in memory of its own, for which this stands; what another library gives is in memory of that
    /// library's as well.
    fn staging_of(&self, shape: &[u64]) -> usize {
        self.info.box_bytes(shape) as usize * if self.external.is_some() { 2 } else { 1 }
    }

    fn calls_back(&self) -> bool {
        self.reads
    }

    fn is_changed_by_others(&self) -> bool {
        self.external.is_some()
    }

    fn bytes_to_load(&self, region: &ArrayBox) -> Result<u64> {
        let tiles = self.external.iter().flat_map(|grid| grid.tiles_of(region).map(|at| grid.tile_box(&at)));
        Ok(tiles.map(|tile| self.info.box_bytes(&tile.shape).next_multiple_of(4096)).sum())
    }

    fn load(&self, mover: &mut Mover, canvas: &Canvas) -> Result<()> {
        let region = canvas.region();
        mover.disk.counters().add_read_elsewhere(self.bytes_to_load(region)?);
        let made = Python::attach(|py| {
            let out = py
                .import("numpy")?
                .call_method1("empty", (tuple(py, &region.shape)?, self.info.dtype.name()))?;
            let call = self.reads.then(run_queue::call);
            self.function.call1(py, (tuple(py, &region.start)?, &out))?;
            drop(call);
            // SAFETY: the function has returned, and nobody else has the array but as it pleases.
            let given = unsafe { canvas_of(out.cast::<PyUntypedArray>()?, &region.start, self.info.dtype)? };
            let (start, strides) = given.address(region);
            // SAFETY: the array holds the box.
            unsafe { canvas.scatter(region, start, &strides, 1) };
            Ok(())
        });
        made.map_err(|raised: PyErr| {
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(raised);
            Error::Interrupted
        })
    }
}

/// An array that a Python function makes, called as function(start, out); `reads`, whether it may read other
/// arrays.
#[pyfunction]
pub fn function_store(
    py: Python<'_>,
    shape: Vec<u64>,
    dtype: &str,
    tile: Vec<u64>,
    function: Py<PyAny>,
    reads: bool,
) -> PyResult<OpenStore> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let made = FunctionArray::new(&shape, dtype, &tile, function, reads);
    let raised = made.raised();
    Ok(OpenStore::of(Arc::new(made), std::path::Path::new("function"), Some(raised)))
}

/// An array whose elements another library gives, by a Python function called as function(start, out), and reads in
/// tiles.
#[pyfunction]
pub fn external_store(
    py: Python<'_>,
    shape: Vec<u64>,
    dtype: &str,
    tile: Vec<u64>,
    function: Py<PyAny>,
) -> PyResult<OpenStore> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let made = FunctionArray::external(&shape, dtype, &tile, function).map_err(|e| to_python(py, e))?;
    let raised = made.raised();
    Ok(OpenStore::of(Arc::new(made), std::path::Path::new("external"), Some(raised)))
}
