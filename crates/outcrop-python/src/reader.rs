//! Reading boxes ahead of a Python loop.

use crate::block::array_over;
use crate::ending::detached;
use crate::errors::to_python;
use outcrop_ops::boxes::reader::Reader;
use outcrop_store::{DType, Error};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// An iterator of boxes as arrays.
#[pyclass(frozen)]
pub struct BoxReader {
    reader: Mutex<Option<Reader>>,
    dtype: DType,
    pid: u32,
}

impl BoxReader {
    pub fn new(reader: Reader, dtype: DType) -> BoxReader {
        BoxReader { reader: Mutex::new(Some(reader)), dtype, pid: std::process::id() }
    }
}

#[pymethods]
impl BoxReader {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.pid != std::process::id() {
            return Err(to_python(py, Error::Forked));
        }
        loop {
            let next = detached(py, || {
                let mut held = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
                let next = held.as_mut().map_or(Ok(None), |r| r.next(Duration::from_millis(50)));
                if !matches!(next, Ok(Some(_))) {
                    // At the end or after an error its threads go at once.
                    *held = None;
                }
                next
            })?;
            match next.map_err(|e| to_python(py, e))? {
                None => return Ok(None),
                Some(Some((region, frame))) => {
                    frame.share_with_children();
                    return array_over(py, Arc::new(frame), &region.shape, self.dtype).map(Some);
                }
                Some(None) => py.check_signals()?,
            }
        }
    }
}

impl Drop for BoxReader {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            // Its threads are the parent's, and will never end here; nor will who holds the lock.
            let reader = std::mem::replace(&mut self.reader, Mutex::new(None));
            std::mem::forget(reader);
            return;
        }
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        if reader.is_some() {
            // There is nobody to whom a fault could be told.
            let _ = Python::attach(|py| detached(py, || drop(reader)));
        }
    }
}
