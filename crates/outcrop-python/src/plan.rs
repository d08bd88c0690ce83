//! Plans: what they are for, what there is to say about them, and how they run.

use crate::convert::{labels_of, tuple};
use crate::errors::warn;
use crate::function::Raised;
use crate::store::{Store, run};
use crate::watch::PyWatch;
use outcrop_engine::execute::Timeline;
use outcrop_engine::plan::Plan as EnginePlan;
use outcrop_engine::program::Role;
use outcrop_engine::{Report, Runtime};
use outcrop_ops::arrays::Target;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// Runs a plan, with its timeline; what functions of the user's have raised is the error.
pub fn run_plan(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    progress: Option<Py<PyAny>>,
    timeline: Option<PathBuf>,
    raised: &[Raised],
    work: impl FnOnce(Option<&Timeline>, &mut PyWatch) -> outcrop_store::Result<Report> + Send,
) -> PyResult<()> {
    let result = run(py, runtime, progress, |watch| {
        let timeline = timeline.map(|path| Timeline::new(&path)).transpose()?;
        let done = work(timeline.as_ref(), watch);
        let recorded = timeline.map_or(Ok(()), Timeline::finish);
        done?;
        // The result is there, whatever became of its record.
        Ok(recorded.err().map(|error| error.to_string()))
    });
    let warning = result.map_err(|error| {
        let raised = raised.iter().find_map(|r| r.lock().unwrap_or_else(PoisonError::into_inner).take());
        raised.unwrap_or(error)
    })?;
    warn(py, warning.into_iter().collect())
}

/// Everything there is to say about a plan.
pub fn facts_of<'py>(py: Python<'py>, plan: &EnginePlan, runtime: &Runtime) -> PyResult<Bound<'py, PyDict>> {
    let (program, schedule) = (&plan.program, &plan.schedule);
    let facts = PyDict::new(py);
    facts.set_item("operation", program.name)?;
    facts.set_item("remark", &program.remark)?;
    facts.set_item("bytes_read", plan.bytes_read())?;
    facts.set_item("bytes_written", plan.bytes_written())?;
    facts.set_item("commit_bytes", plan.commit)?;
    facts.set_item("peak_bytes", plan.peak_bytes())?;
    facts.set_item("scratch_bytes", schedule.scratch)?;
    facts.set_item("flops", program.work())?;
    facts.set_item("seconds", plan.prediction.seconds)?;
    facts.set_item("io_seconds", plan.prediction.io)?;
    facts.set_item("compute_seconds", plan.prediction.compute)?;
    facts.set_item("lower_bound", program.lower_bound.map(|(bytes, _)| bytes as u64))?;
    facts.set_item("lower_bound_source", program.lower_bound.map(|(_, source)| source))?;
    facts.set_item("budget", runtime.limit())?;
    facts.set_item("steps", program.len())?;
    facts.set_item("resident_bytes", schedule.adopted.iter().map(|&t| program.frame(t)).sum::<usize>())?;
    facts.set_item("threads", plan.crew.threads)?;
    facts.set_item("loaders", plan.crew.loaders)?;
    facts.set_item("room_bytes", plan.crew.room)?;
    facts.set_item("read_rate", plan.speeds.read)?;
    facts.set_item("write_rate", plan.speeds.write)?;
    let arrays = PyList::empty(py);
    for (array, traffic) in program.arrays().iter().zip(&schedule.traffic) {
        let fact = PyDict::new(py);
        fact.set_item("name", &array.name)?;
        let role = match array.role {
            Role::Input => "input",
            Role::Output => "output",
            Role::Temporary => "temporary",
        };
        fact.set_item("role", role)?;
        fact.set_item("dtype", array.dtype.name())?;
        fact.set_item("shape", tuple(py, &array.shape())?)?;
        fact.set_item("tile", tuple(py, array.tile_shape())?)?;
        fact.set_item("bytes_read", traffic.read)?;
        fact.set_item("bytes_written", traffic.written)?;
        arrays.append(fact)?;
    }
    facts.set_item("arrays", arrays)?;
    Ok(facts)
}

/// The target of a plan: a store, a part of one from some place on, or the tile (None: free) and labels (JSON) of a Zarr array to be.
#[derive(FromPyObject)]
pub enum Wish<'py> {
    Store(PyRef<'py, Store>),
    Part(PyRef<'py, Store>, Vec<u64>),
    New(Option<Vec<u64>>, String),
}

impl Wish<'_> {
    pub fn target(&self, py: Python<'_>) -> PyResult<Target> {
        match self {
            Wish::Store(store) => Ok(Target::Store(store.inner(py)?.1)),
            Wish::Part(store, start) => Ok(Target::Part(store.inner(py)?.1, start.as_slice().into())),
            Wish::New(tile, labels) => Ok(Target::New {
                tile: tile.as_ref().map(|t| t.as_slice().into()),
                labels: Box::new(labels_of(py, labels)?),
            }),
        }
    }
}
