//! Products of blocks in memory, on one thread.

use crate::convert::dtype_of;
use crate::ending::detached;
use crate::errors::to_python;
use crate::process::runtime;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use outcrop_ops::kernels::{self, Block, Half};
use outcrop_ops::linalg::called;
use outcrop_store::{DType, Error};
use pyo3::prelude::*;

/// A matrix in an array's memory.
fn block_of(array: &Bound<'_, PyUntypedArray>, dtype: DType) -> PyResult<Block> {
    let (size, own) = (dtype.size() as isize, array.dtype());
    let fits =
        array.ndim() == 2 && own.itemsize() == dtype.size() && own.is_native_byteorder() != Some(false);
    let whole = array.strides().iter().all(|s| s % size == 0);
    if !fits || !whole {
        return Err(to_python(array.py(), Error::invalid("no matrix of that element type")));
    }
    // SAFETY: the pointer is to a live array object; its data pointer is only read.
    let start = unsafe { (*array.as_array_ptr()).fields.data }.cast::<u8>();
    let (shape, strides) = (array.shape(), array.strides());
    Ok(Block {
        start,
        rows: shape[0],
        cols: shape[1],
        row_stride: strides[0] / size,
        col_stride: strides[1] / size,
    })
}

struct Product {
    dtype: DType,
    c: Block,
    a: kernels::Operand,
    b: kernels::Operand,
    accumulate: bool,
    half: bool,
}

// SAFETY: the arrays are alive, and the caller of `multiply` uses them for nothing else meanwhile.
unsafe impl Send for Product {}

impl Product {
    fn run(self, workspace: &mut [u8]) {
        let Product { dtype, c, a, b, accumulate, half } = self;
        // SAFETY: NumPy's shapes and strides describe valid memory; `c` is the caller's alone.
        unsafe {
            if half {
                kernels::gemm_half(dtype, Half::Lower, c, accumulate, 1.0, a, b, workspace);
            } else {
                kernels::gemm(dtype, c, accumulate, 1.0, a, b, workspace);
            }
        }
    }
}

/// `c = a @ b`, or `c += a @ b`, on this thread alone; matrices of one element type, `c` apart from the others. Of `c`,
/// only what is on and below the diagonal where `half` is set, which is for floating types.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "a product and how it is done")]
pub fn multiply(
    py: Python<'_>,
    dtype: &str,
    c: &Bound<'_, PyUntypedArray>,
    a: &Bound<'_, PyUntypedArray>,
    b: &Bound<'_, PyUntypedArray>,
    accumulate: bool,
    half: bool,
    workspace: &Bound<'_, PyUntypedArray>,
) -> PyResult<()> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let (c, a, b) = (block_of(c, dtype)?, block_of(a, dtype)?, block_of(b, dtype)?);
    if a.cols != b.rows || (c.rows, c.cols) != (a.rows, b.cols) {
        return Err(to_python(py, Error::invalid("matrices that do not fit")));
    }
    // SAFETY: as in `block_of`.
    let start = unsafe { (*workspace.as_array_ptr()).fields.data }.cast::<u8>();
    let room = workspace.len() * workspace.dtype().itemsize();
    // SAFETY: the caller lends the workspace, and uses it for nothing else meanwhile.
    let workspace = unsafe { std::slice::from_raw_parts_mut(start, room) };
    if half && (c.rows != c.cols || !kernels::is_floating(dtype)) {
        return Err(to_python(py, Error::invalid("no square matrix of floating numbers")));
    }
    let product = Product { dtype, c, a: a.plain(), b: b.plain(), accumulate, half };
    detached(py, || product.run(workspace))
}

/// Copies what is below the diagonal of a square matrix to above it.
#[pyfunction]
pub fn mirror(py: Python<'_>, dtype: &str, c: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let block = block_of(c, dtype)?;
    if block.rows != block.cols {
        return Err(to_python(py, Error::invalid("no square matrix")));
    }
    // SAFETY: as in `multiply`.
    unsafe { kernels::mirror(block, dtype.size()) };
    Ok(())
}

/// Bytes of workspace with which a product of such extents is fast, and bytes that it takes beside.
#[pyfunction]
pub fn multiply_memory(
    py: Python<'_>,
    dtype: &str,
    rows: usize,
    cols: usize,
    depth: usize,
) -> PyResult<(usize, usize)> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let beside =
        if kernels::is_floating(dtype) { kernels::packing_bytes(dtype, rows, cols, depth) } else { 0 };
    Ok((kernels::gemm_workspace(dtype, rows, cols, depth), beside))
}

/// What a compiled kernel is told to multiply by (`outcrop_ops::linalg::called`): the address of the function, and the number
/// of the element type; None for types that it does not take.
#[pyfunction]
pub fn product_function(py: Python<'_>, dtype: &str) -> PyResult<Option<(usize, i64)>> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let number = kernels::is_floating(dtype).then(|| called::number(dtype));
    Ok(number.map(|number| (called::product as *const () as usize, number)))
}

/// Operations in a second, and bytes of workspace and beside it, of such products when each thread of the budget does one.
#[pyfunction]
pub fn product_cost(
    py: Python<'_>,
    dtype: &str,
    extents: (usize, usize, usize),
    transposed: (bool, bool),
) -> PyResult<(f64, usize, usize)> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let threads = runtime(py)?.settings().threads;
    detached(py, || called::cost(dtype, extents, transposed, threads))
}
