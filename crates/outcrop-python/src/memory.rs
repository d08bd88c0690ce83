//! Memory that counts to the budget, for results and for what others allocate.

use crate::block::array_over;
use crate::convert::dtype_of;
use crate::errors::to_python;
use crate::process::runtime;
use crate::store::{Store, run};
use outcrop_engine::runtime::Borrowing;
use outcrop_store::store::memory::MemoryArray;
use pyo3::prelude::*;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// An array in memory, charged to the budget, for a result.
#[pyclass(frozen)]
pub struct Output {
    frame: Arc<outcrop_store::frame::Frame>,
    shape: Vec<u64>,
    dtype: outcrop_store::DType,
}

#[pymethods]
impl Output {
    /// `zeroed`: where the computation does not store every element.
    #[new]
    fn new(py: Python<'_>, shape: Vec<u64>, dtype: &str, zeroed: bool) -> PyResult<Output> {
        let (dtype, _) = dtype_of(py, dtype)?;
        let runtime = runtime(py)?;
        let bytes =
            outcrop_store::shape::checked_nbytes(&shape, dtype.size()).map_err(|e| to_python(py, e))?;
        let frame = run(py, &runtime, None, |_| {
            let mut frame = runtime.frame((bytes as usize).max(1), &format!("a result of {bytes} bytes"))?;
            if zeroed {
                frame.bytes_mut().fill(0);
            }
            Ok(frame)
        })?;
        Ok(Output { frame: Arc::new(frame), shape, dtype })
    }

    /// A store that writes here.
    fn store(&self) -> Store {
        let memory = MemoryArray::new(&self.shape, self.dtype, Arc::clone(&self.frame));
        Store::of(Arc::new(memory), Path::new("memory"), None)
    }

    /// The array.
    fn array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.frame.share_with_children();
        array_over(py, Arc::clone(&self.frame), &self.shape, self.dtype)
    }
}

/// Bytes of the budget for memory that others allocate, until they are released.
#[pyclass(frozen)]
pub struct Charge(Mutex<Option<(outcrop_store::frame::Charge, Option<Borrowing>)>>);

#[pymethods]
impl Charge {
    /// `passing`: whether it ends with what this thread is doing, so that others may wait for that.
    #[new]
    fn new(py: Python<'_>, bytes: usize, purpose: &str, passing: bool) -> PyResult<Charge> {
        let runtime = runtime(py)?;
        let charge = run(py, &runtime, None, |_| runtime.charge(bytes, purpose))?;
        Ok(Charge(Mutex::new(Some((charge, passing.then(|| runtime.borrow()))))))
    }

    /// Gives them back.
    fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
