//! Frames as memory that NumPy can use.

use crate::convert::numpy_name;
use numpy::npyffi::{NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE, NpyTypes, get_type_object, npy_intp};
use numpy::{PY_ARRAY_API, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray};
use outcrop_store::DType;
use outcrop_store::frame::Frame;
use outcrop_store::shape::row_major_strides;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Extents as NumPy has them.
type Dimensions = Vec<npy_intp>;

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

/// A NumPy array over memory that it does not own; `tile` are the extents by which rows are apart.
///
/// # Safety
/// The memory holds so many elements, and nobody uses the array when the memory is no longer lent.
pub unsafe fn array_at<'py>(
    py: Python<'py>,
    start: *mut u8,
    shape: &[u64],
    tile: &[u64],
    dtype: DType,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let descr = PyArrayDescr::new(py, numpy_name(dtype))?;
    let mut dims: Dimensions = shape.iter().map(|&n| n as npy_intp).collect();
    let mut strides: Dimensions =
        row_major_strides(tile).iter().map(|&s| s as npy_intp * dtype.size() as npy_intp).collect();
    let flags = NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    // SAFETY: a new array of this type over that memory, as the caller vouches; the reference to the element type is
    // given away, the one to the array is new.
    unsafe {
        let kind = get_type_object(py, NpyTypes::PyArray_Type);
        let (ndim, data) = (dims.len() as c_int, start.cast());
        let (dims, strides) = (dims.as_mut_ptr(), strides.as_mut_ptr());
        let made = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            kind,
            descr.into_dtype_ptr(),
            ndim,
            dims,
            strides,
            data,
            flags,
            std::ptr::null_mut(),
        );
        Ok(Bound::from_owned_ptr_or_err(py, made)?.cast_into_unchecked())
    }
}
