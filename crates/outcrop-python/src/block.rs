//! Frames as memory that NumPy can use.

use crate::convert::numpy_name;
use outcrop_store::DType;
use outcrop_store::frame::Frame;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A frame, alive and charged to the budget as long as an array uses it.
#[pyclass(frozen)]
pub struct Block {
    frame: Arc<Frame>,
    bytes: usize,
}

#[pymethods]
impl Block {
    /// # Safety
    /// Called by the interpreter with a valid view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let block = slf.get();
        let start: *mut c_void = block.frame.as_ptr().cast();
        let len = block.bytes as ffi::Py_ssize_t;
        // SAFETY: the view is the interpreter's; the frame lives as long as the object it refers to.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyBufferError::new_err("no buffer of this kind")) }
    }
}

/// A NumPy array over a frame's first bytes, row-major.
pub fn array_over<'py>(
    py: Python<'py>,
    frame: Arc<Frame>,
    shape: &[u64],
    dtype: DType,
) -> PyResult<Bound<'py, PyAny>> {
    let count: u64 = shape.iter().product();
    let block = Bound::new(py, Block { frame, bytes: count as usize * dtype.size() })?;
    let numpy = py.import("numpy")?;
    let flat = numpy.call_method1("frombuffer", (block, numpy_name(dtype)))?;
    flat.call_method1("reshape", (shape.to_vec(),))
}
