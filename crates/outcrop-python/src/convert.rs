//! Python values to those of the crates.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use outcrop_store::format::zarr::Labels;
use outcrop_store::store::{Canvas, Patch};
use outcrop_store::{ArrayBox, ByteOrder, DType, Dims, Error};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// NumPy's name of an element type.
pub fn numpy_name(dtype: DType) -> &'static str {
    dtype.name()
}

/// An element type from a NumPy name or type string.
pub fn dtype_of(py: Python<'_>, text: &str) -> PyResult<(DType, ByteOrder)> {
    DType::from_name(text).map(|d| (d, ByteOrder::Little)).or_else(|| DType::from_typestr(text)).ok_or_else(
        || crate::errors::to_python(py, Error::invalid(format!("dtype {text:?} is not supported"))),
    )
}

/// What goes with an array's elements, from JSON.
pub fn labels_of(py: Python<'_>, text: &str) -> PyResult<Labels> {
    Labels::parse(text).map_err(|e| crate::errors::to_python(py, Error::invalid(e.to_string())))
}

/// Attributes from JSON.
pub fn attributes_of(py: Python<'_>, text: &str) -> PyResult<serde_json::Map<String, serde_json::Value>> {
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(attributes)) => Ok(attributes),
        _ => Err(crate::errors::to_python(py, Error::invalid("attributes must be a JSON object"))),
    }
}

/// A tuple of extents.
pub fn tuple<'py>(py: Python<'py>, dims: &[u64]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, dims)
}

/// A box from its start and extents.
pub fn box_of(py: Python<'_>, start: &[u64], shape: &[u64]) -> PyResult<ArrayBox> {
    if start.len() != shape.len() {
        let message = "a box's start and shape differ in length";
        return Err(crate::errors::to_python(py, Error::invalid(message)));
    }
    Ok(ArrayBox::new(start, shape))
}

/// The memory of a NumPy array as the box that begins at `start`.
///
/// # Safety
/// The array lives, and nobody else uses its memory, while the canvas is in use.
pub unsafe fn canvas_of(array: &Bound<'_, PyUntypedArray>, start: &[u64], dtype: DType) -> PyResult<Canvas> {
    let shape: Dims = array.shape().iter().map(|&n| n as u64).collect();
    let order: String = array.dtype().getattr("str")?.extract()?;
    let fits = DType::from_typestr(&order) == Some((dtype, ByteOrder::Little)) && shape.len() == start.len();
    if !fits {
        let message =
            format!("an array of {} dimensions and dtype {order} is no box of {dtype}", shape.len());
        return Err(crate::errors::to_python(array.py(), Error::invalid(message)));
    }
    let strides = array.strides().iter().copied().collect();
    // SAFETY: the pointer is to a live array object; its data pointer is only read.
    let data = unsafe { (*array.as_array_ptr()).fields.data }.cast::<u8>();
    let region = ArrayBox::new(start, &shape);
    let patch = Patch::strided(region.clone(), data, strides);
    // SAFETY: NumPy's shape and strides describe valid memory; the rest is the caller's promise.
    Ok(unsafe { Canvas::new(region, dtype.size(), [patch]) })
}
