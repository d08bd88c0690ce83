//! What belongs to the process: the runtime, reports, the device profile.

use crate::ending::detached;
use crate::errors::to_python;
use crate::watch::PyWatch;
use outcrop_engine::report::Traffic;
use outcrop_engine::runtime::memory;
use outcrop_engine::runtime::scratch::ScratchDir;
use outcrop_engine::{Runtime, Settings, Watch};
use outcrop_store::frame::refusals;
use outcrop_store::io::fault::Faults;
use outcrop_store::io::{Cancel, EngineChoice};
use outcrop_store::{Error, profile};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

struct Current {
    runtime: Arc<Runtime>,
    pid: u32,
}

static CURRENT: Mutex<Option<Current>> = Mutex::new(None);
/// The faults being injected, for asking how many operations there were.
static FAULTS: Mutex<Option<Arc<Faults>>> = Mutex::new(None);

/// The process's runtime. A child of a fork gets one of its own.
pub fn runtime(py: Python<'_>) -> PyResult<Arc<Runtime>> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = &*current {
        if found.pid == std::process::id() {
            return Ok(Arc::clone(&found.runtime));
        }
        let fresh = Runtime::new(found.runtime.settings().clone()).map_err(|e| to_python(py, e))?;
        let inherited = current.replace(Current { runtime: Arc::clone(&fresh), pid: std::process::id() });
        // The parent's rings and frames are not the child's to give back.
        std::mem::forget(inherited);
        return Ok(fresh);
    }
    let memory = (memory::available() / 2) as usize;
    let settings = Settings { memory, threads: 1, scratch: None, engine: EngineChoice::Auto };
    let fresh = Runtime::new(settings).map_err(|e| to_python(py, e))?;
    *current = Some(Current { runtime: Arc::clone(&fresh), pid: std::process::id() });
    Ok(fresh)
}

/// Lets go of the tiles that stay in memory from one run to the next; changed ones stay.
#[pyfunction]
pub fn forget_unchanged(py: Python<'_>) -> PyResult<()> {
    runtime(py)?.resident().forget_unchanged();
    Ok(())
}

#[pyfunction]
#[pyo3(signature = (memory, threads, scratch, engine))]
pub fn configure(
    py: Python<'_>,
    memory: usize,
    threads: usize,
    scratch: Option<PathBuf>,
    engine: Option<&str>,
) -> PyResult<()> {
    let engine = match engine {
        None => EngineChoice::Auto,
        Some("uring") => EngineChoice::Uring,
        Some("threads") => EngineChoice::Threads,
        Some(other) => {
            let message = format!("{other:?} is no I/O engine; there are \"uring\" and \"threads\"");
            return Err(to_python(py, Error::invalid(message)));
        }
    };
    let settings = Settings { memory, threads, scratch, engine };
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let own = current.as_ref().filter(|c| c.pid == std::process::id());
    if own.is_some_and(|c| *c.runtime.settings() == settings) {
        return Ok(());
    }
    let old = own.map(|c| Arc::clone(&c.runtime));
    // Who reads an array meanwhile has the GIL and waits for this lock; the Python side configures one at a
    // time.
    drop(current);
    let fresh = detached(py, || match &old {
        Some(old) => old.reconfigured(settings),
        None => Runtime::new(settings),
    })?
    .map_err(|e| to_python(py, e))?;
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let inherited = current.replace(Current { runtime: fresh, pid: std::process::id() });
    if inherited.as_ref().is_some_and(|c| c.pid != std::process::id()) {
        std::mem::forget(inherited);
    }
    Ok(())
}

#[pyfunction]
pub fn total_memory() -> Option<u64> {
    memory::total()
}

#[pyfunction]
pub fn default_memory() -> u64 {
    memory::available() / 2
}

#[pyfunction]
pub fn default_tile(py: Python<'_>, shape: Vec<u64>, dtype: &str) -> PyResult<Vec<u64>> {
    let (dtype, _) = crate::convert::dtype_of(py, dtype)?;
    Ok(outcrop_store::shape::default_tile(&shape, dtype.size()).to_vec())
}

#[pyfunction]
pub fn status(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let runtime = runtime(py)?;
    let (budget, settings) = (runtime.budget(), runtime.settings());
    let status = PyDict::new(py);
    status.set_item("memory", runtime.limit())?;
    status.set_item("used", budget.used())?;
    status.set_item("peak", budget.peak())?;
    status.set_item("threads", settings.threads)?;
    // A path would be made by code of Python's.
    status.set_item("scratch", settings.scratch.as_ref().map(|path| path.as_os_str()))?;
    status.set_item("scratch_directory", runtime.scratch_dir().as_os_str())?;
    status.set_item("scratch_held", runtime.scratch_held())?;
    status.set_item("engine", runtime.disk().engine())?;
    status.set_item("engine_reasons", runtime.disk().reasons().to_vec())?;
    Ok(status)
}

/// A new directory inside another one, which goes with this object, or with the process.
#[pyclass(frozen)]
pub struct ScratchDirectory {
    inner: Mutex<Option<ScratchDir>>,
    #[pyo3(get)]
    path: OsString,
}

#[pymethods]
impl ScratchDirectory {
    #[new]
    fn new(py: Python<'_>, parent: PathBuf) -> PyResult<ScratchDirectory> {
        let made = ScratchDir::new(&parent).map_err(|e| to_python(py, e))?;
        let path = made.path().into();
        Ok(ScratchDirectory { inner: Mutex::new(Some(made)), path })
    }

    fn remove(&self, py: Python<'_>) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = detached(py, || drop(inner));
    }
}

/// Several runs of this thread as one operation, with one report; a context manager. While it lasts, runs of
/// other threads wait.
#[pyclass(frozen)]
pub struct Operation(Mutex<Option<outcrop_engine::runtime::Operation>>);

#[pymethods]
impl Operation {
    #[new]
    fn new() -> Operation {
        Operation(Mutex::default())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        let runtime = runtime(py)?;
        let begun = crate::store::run(py, &runtime, None, |watch| runtime.operation(watch))?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        Ok(())
    }

    /// Bytes that its runs so far have read and written, and how many seconds they took.
    #[staticmethod]
    fn so_far(py: Python<'_>) -> PyResult<(u64, u64, f64)> {
        let sum = runtime(py)?.so_far().unwrap_or_default();
        Ok((sum.bytes_read, sum.bytes_written, sum.elapsed.as_secs_f64()))
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Of each kernel and array: their names, bytes that were read and written, and seconds of waiting.
pub fn rows_of(traffic: &[Traffic]) -> Vec<(String, String, u64, u64, f64)> {
    let row = |one: &Traffic| {
        let (kernel, array) = (one.kernel.to_string(), one.array.to_string());
        (kernel, array, one.bytes_read, one.bytes_written, one.waited.as_secs_f64())
    };
    traffic.iter().map(row).collect()
}

#[pyfunction]
pub fn last_run(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let Some(report) = runtime(py)?.last_run() else { return Ok(None) };
    let run = PyDict::new(py);
    run.set_item("operation", report.operation)?;
    run.set_item("bytes_read", report.bytes_read)?;
    run.set_item("bytes_written", report.bytes_written)?;
    run.set_item("seconds", report.elapsed.as_secs_f64())?;
    run.set_item("peak_bytes", report.peak_bytes)?;
    run.set_item("peak_rss", report.peak_rss)?;
    run.set_item("overlap", report.overlap.as_secs_f64())?;
    run.set_item("io_seconds", report.io_busy.as_secs_f64())?;
    run.set_item("flops", report.work)?;
    let kernels = PyDict::new(py);
    for (name, time) in &report.kernels {
        kernels.set_item(&**name, time.as_secs_f64())?;
    }
    run.set_item("kernels", kernels)?;
    run.set_item("traffic", rows_of(&report.traffic))?;
    Ok(Some(run))
}

#[pyfunction]
#[pyo3(signature = (directory, quick, progress))]
pub fn doctor(
    py: Python<'_>,
    directory: PathBuf,
    quick: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let runtime = runtime(py)?;
    let mut watch = PyWatch::new(progress);
    let measured = detached(py, || {
        let cancel = Cancel::default();
        let stop = cancel.clone();
        let mut tick = |done, total| {
            if !watch.tick(done, total) {
                stop.cancel();
            }
        };
        // First of all, as whatever starts finds it: the files that the others use leave memory behind.
        let (memory, arranging) = if quick {
            Default::default()
        } else {
            let threads = runtime.settings().threads;
            profile::measure_memory(runtime.budget(), threads, &cancel, &mut || tick(0, 1))?
        };
        let mut profile = profile::measure(runtime.disk(), &directory, quick, &cancel, &mut tick)?;
        (profile.memory, profile.arranging) = (memory, arranging);
        profile::save(&profile);
        Ok(profile)
    })?;
    let profile = measured.map_err(|e| watch.exception(py, e))?;
    serde_json::to_string(&profile).map_err(|e| to_python(py, Error::invalid(e.to_string())))
}

#[pyfunction]
#[pyo3(signature = (specification))]
pub fn inject_faults(py: Python<'_>, specification: Option<&str>) -> PyResult<()> {
    let faults = specification
        .map(str::parse::<Faults>)
        .transpose()
        .map_err(|message| to_python(py, Error::invalid(message)))?
        .map(Arc::new);
    Faults::refuse_memory(None);
    runtime(py)?.disk().set_faults(faults.clone());
    Faults::refuse_memory(faults.as_deref());
    *FAULTS.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    Ok(())
}

/// How often memory was asked for since faults were set: large pieces, and anything on the heap.
#[pyfunction]
pub fn memory_asked_for() -> (u64, u64) {
    (refusals::MEMORY.seen(), refusals::HEAP.seen())
}

#[pyfunction]
pub fn operations_seen() -> u64 {
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, |f| f.seen())
}
