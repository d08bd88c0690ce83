//! Rust errors to the exceptions of `outcrop.errors`.

use crate::ending::attached;
use outcrop_store::{Error, Failure};
use pyo3::prelude::*;
use std::io::ErrorKind;

/// The exception for an error.
pub fn to_python(py: Python<'_>, error: Error) -> PyErr {
    let (class, errno) = match &error {
        Error::Io { source, .. } => (
            match source.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "StoragePermissionError",
                ErrorKind::NotFound => "ArrayNotFoundError",
                // What a process may write to a file is space as well.
                ErrorKind::FileTooLarge => "StorageFullError",
                // It has fewer bytes than its array.
                ErrorKind::UnexpectedEof => "CorruptArrayError",
                _ => "StorageError",
            },
            source.raw_os_error(),
        ),
        Error::NotFound { .. } => ("ArrayNotFoundError", Some(2)),
        Error::Incomplete { .. } => ("StorageError", None),
        Error::Exists { .. } => ("ArrayExistsError", Some(17)),
        Error::Busy { .. } => ("ArrayBusyError", None),
        Error::Corrupt { .. } => ("CorruptArrayError", None),
        Error::Changed { .. } => ("ChangedArrayError", None),
        Error::Unsupported { .. } => ("UnsupportedError", None),
        Error::NoSpace { .. } => ("StorageFullError", Some(28)),
        Error::Budget { .. } | Error::OutOfMemory { .. } => ("BudgetError", None),
        Error::Interrupted => return pyo3::exceptions::PyKeyboardInterrupt::new_err(()),
        Error::Numerical { failure: Failure::NotPositiveDefinite, .. } => ("NotPositiveDefiniteError", None),
        Error::Numerical { failure: Failure::Singular, .. } => ("SingularMatrixError", None),
        Error::Numerical { failure: Failure::NotFinite, .. } => ("NotFiniteError", None),
        Error::Internal(_) => ("InternalError", None),
        Error::Forked => ("ForkedProcessError", None),
        _ => ("InvalidArgumentError", None),
    };
    let made = attached(py, || {
        // Imported late: the package imports this module first.
        let exception = py.import("outcrop.errors")?.getattr(class)?.call1((error.to_string(),))?;
        if let Some(errno) = errno {
            exception.setattr("errno", errno)?;
        }
        if let Error::Numerical { index, .. } = &error {
            exception.setattr("index", *index)?;
        }
        if let Error::Budget { needed, .. } = &error {
            exception.setattr("needed", *needed)?;
        }
        Ok(exception)
    });
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// Hands warnings that have come up to Python's `warnings`.
pub fn warn(py: Python<'_>, messages: Vec<String>) -> PyResult<()> {
    if messages.is_empty() {
        return Ok(());
    }
    attached(py, || {
        let category = py.import("outcrop.errors")?.getattr("OutcropWarning")?;
        let warn = py.import("warnings")?.getattr("warn")?;
        for message in messages {
            warn.call1((message, &category, 2))?;
        }
        Ok(())
    })
}
