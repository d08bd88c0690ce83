//! Progress and interrupts, between a run and the calling Python thread.

use outcrop_engine::Watch;
use outcrop_store::Error;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// Between two calls of the progress function.
const INTERVAL: Duration = Duration::from_millis(100);

/// Calls a progress function and looks for signals; keeps what either raises.
pub struct PyWatch {
    progress: Option<Py<PyAny>>,
    raised: Option<PyErr>,
    told: Option<Instant>,
    finished: bool,
}

impl PyWatch {
    pub fn new(progress: Option<Py<PyAny>>) -> PyWatch {
        PyWatch { progress, raised: None, told: None, finished: false }
    }

    /// Keeps what was raised; whether to go on.
    fn note(&mut self, result: PyResult<()>) -> bool {
        if let Err(raised) = result {
            self.raised.get_or_insert(raised);
        }
        self.raised.is_none()
    }

    /// The exception for a run's error: what was raised meanwhile, if anything was.
    pub fn exception(self, py: Python<'_>, error: Error) -> PyErr {
        match (error, self.raised) {
            (Error::Interrupted, Some(raised)) => raised,
            (error, _) => super::errors::to_python(py, error),
        }
    }
}

impl Watch for PyWatch {
    fn tick(&mut self, done: u64, total: u64) -> bool {
        if crate::ending::is_near() {
            return false;
        }
        let last = done == total && !self.finished;
        let due = self.told.is_none_or(|t| t.elapsed() >= INTERVAL) || last;
        let result = Python::attach(|py| {
            py.check_signals()?;
            if let (Some(progress), true) = (&self.progress, due) {
                progress.call1(py, (done, total))?;
                self.told = Some(Instant::now());
                self.finished = done == total;
            }
            Ok(())
        });
        self.note(result)
    }

    /// Progress is told only of what is being done.
    fn look(&mut self) -> Result<(), Error> {
        if crate::ending::is_near() {
            return Err(Error::Interrupted);
        }
        let result = Python::attach(|py| py.check_signals());
        if self.note(result) { Ok(()) } else { Err(Error::Interrupted) }
    }
}
