//! Linear algebra: operands, plans, and running them.

use crate::block::array_over;
use crate::convert::{box_of, dtype_of, labels_of, tuple};
use crate::errors::{to_python, warn};
use crate::function::{FunctionArray, Raised};
use crate::process::runtime;
use crate::store::{Store, run};
use crate::watch::PyWatch;
use outcrop_engine::execute::Timeline;
use outcrop_engine::plan::Plan as EnginePlan;
use outcrop_engine::program::Role;
use outcrop_engine::runtime::Borrowing;
use outcrop_engine::speeds::Speeds;
use outcrop_engine::{Report, Runtime};
use outcrop_ops::kernels::{Diagonal, Half};
use outcrop_ops::linalg::{self, Axes, Job, Matrix, Planned, Target, Triangle};
use outcrop_store::store::cast::CastArray;
use outcrop_store::store::memory::MemoryArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A part of an array as a matrix: its box, and the axes along which rows and columns run.
#[pyclass(frozen)]
pub struct Operand {
    matrix: Matrix,
    raised: Option<Raised>,
}

#[pymethods]
impl Operand {
    #[new]
    #[pyo3(signature = (store, start, shape, rows, cols, dtype, conj))]
    #[allow(clippy::too_many_arguments, reason = "what a matrix is, once")]
    fn new(
        py: Python<'_>,
        store: &Store,
        start: Vec<u64>,
        shape: Vec<u64>,
        rows: Option<usize>,
        cols: Option<usize>,
        dtype: &str,
        conj: bool,
    ) -> PyResult<Operand> {
        let (_, mut inner) = store.inner(py)?;
        let (dtype, _) = dtype_of(py, dtype)?;
        let region = box_of(py, &start, &shape)?;
        region.check_inside(&inner.info().shape).map_err(|e| to_python(py, e))?;
        let raised = store.raised();
        if conj {
            inner = Arc::new(CastArray::conjugated(inner).map_err(|e| to_python(py, e))?);
        }
        if inner.info().dtype != dtype {
            inner = Arc::new(CastArray::new(inner, dtype).map_err(|e| to_python(py, e))?);
        }
        Ok(Operand { matrix: Matrix { store: inner, region, axes: Axes { rows, cols } }, raised })
    }
}

/// An array that a Python function makes, called as function(start, out); `reads`, whether it may read other
/// arrays.
#[pyfunction]
pub fn function_store(
    py: Python<'_>,
    shape: Vec<u64>,
    dtype: &str,
    tile: Vec<u64>,
    function: Py<PyAny>,
    reads: bool,
) -> PyResult<Store> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let made = FunctionArray::new(&shape, dtype, &tile, function, reads);
    let raised = made.raised();
    Ok(Store::of(Arc::new(made), Path::new("function"), Some(raised)))
}

/// An array whose elements another library gives, by a Python function called as function(start, out), and reads in
/// tiles.
#[pyfunction]
pub fn external_store(
    py: Python<'_>,
    shape: Vec<u64>,
    dtype: &str,
    tile: Vec<u64>,
    function: Py<PyAny>,
) -> PyResult<Store> {
    let (dtype, _) = dtype_of(py, dtype)?;
    let made = FunctionArray::external(&shape, dtype, &tile, function).map_err(|e| to_python(py, e))?;
    let raised = made.raised();
    Ok(Store::of(Arc::new(made), Path::new("external"), Some(raised)))
}

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

/// A computation with its schedule.
#[pyclass(frozen)]
pub struct Plan {
    planned: Planned,
    runtime: Arc<Runtime>,
    raised: Vec<Raised>,
}

#[pymethods]
impl Plan {
    /// Everything there is to say about it.
    #[getter]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        facts_of(py, &self.planned.plan, &self.runtime)
    }

    /// The shape of the result's tiles.
    #[getter]
    fn output_tile(&self) -> Vec<u64> {
        self.planned.output_tile().to_vec()
    }

    /// The result as a Zarr array at a path, for plans: nothing is made.
    fn sketch(&self, py: Python<'_>, path: PathBuf) -> PyResult<Store> {
        let path = std::path::absolute(&path)?;
        let made = self.planned.sketch(&path).map_err(|e| to_python(py, e))?;
        Ok(Store::of(Arc::new(made), &path, None))
    }

    #[pyo3(signature = (output, progress, timeline))]
    fn run(
        &self,
        py: Python<'_>,
        output: &Store,
        progress: Option<Py<PyAny>>,
        timeline: Option<PathBuf>,
    ) -> PyResult<()> {
        let (_, target) = output.inner(py)?;
        let runtime = &self.runtime;
        run_plan(py, runtime, progress, timeline, &self.raised, |timeline, watch| {
            self.planned.run(runtime, &target, timeline, watch)
        })
    }
}

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
    facts.set_item("others", plan.others.clone())?;
    Ok(facts)
}

/// The target of a plan: a store, or the tile (None: free) and labels (JSON) of a Zarr array to be.
#[derive(FromPyObject)]
pub enum Wish<'py> {
    Store(PyRef<'py, Store>),
    New(Option<Vec<u64>>, String),
}

impl Wish<'_> {
    pub fn target(&self, py: Python<'_>) -> PyResult<Target> {
        match self {
            Wish::Store(store) => Ok(Target::Store(store.inner(py)?.1)),
            Wish::New(tile, labels) => Ok(Target::New {
                tile: tile.as_ref().map(|t| t.as_slice().into()),
                labels: Box::new(labels_of(py, labels)?),
            }),
        }
    }
}

fn planned(
    py: Python<'_>,
    operands: &[&Operand],
    make: impl FnOnce(&Runtime, Speeds) -> outcrop_store::Result<Job> + Send,
) -> PyResult<Plan> {
    let runtime = runtime(py)?;
    // The device that most of the data is on.
    let near = operands.iter().max_by_key(|o| {
        let info = o.matrix.store.info();
        if info.path.is_absolute() { info.box_bytes(&o.matrix.region.shape) } else { 0 }
    });
    let bytes = operands.iter().map(|o| o.matrix.store.info().box_bytes(&o.matrix.region.shape)).sum();
    let path = near.map(|o| o.matrix.store.info().path.clone()).unwrap_or_default();
    let planned = run(py, &runtime, None, |watch| {
        let speeds = runtime.speeds(&path, bytes);
        make(&runtime, speeds)?.plan(&runtime, speeds, watch)
    })?;
    let raised = operands.iter().filter_map(|o| o.raised.clone()).collect();
    Ok(Plan { planned, runtime, raised })
}

#[pyfunction]
pub fn plan_matmul(
    py: Python<'_>,
    a: &Operand,
    b: &Operand,
    conj: (bool, bool),
    shape: Vec<u64>,
    target: Wish<'_>,
) -> PyResult<Plan> {
    let target = target.target(py)?;
    planned(py, &[a, b], |runtime, speeds| {
        linalg::matmul(runtime, &a.matrix, &b.matrix, conj, &shape, &target, speeds)
    })
}

fn half(lower: bool) -> Half {
    if lower { Half::Lower } else { Half::Upper }
}

#[pyfunction]
pub fn plan_cholesky(py: Python<'_>, a: &Operand, lower: bool, target: Wish<'_>) -> PyResult<Plan> {
    let target = target.target(py)?;
    planned(py, &[a], |runtime, speeds| linalg::cholesky(runtime, &a.matrix, half(lower), &target, speeds))
}

#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn plan_solve_triangular(
    py: Python<'_>,
    t: &Operand,
    b: &Operand,
    lower: bool,
    unit: bool,
    conj: bool,
    shape: Vec<u64>,
    target: Wish<'_>,
) -> PyResult<Plan> {
    let target = target.target(py)?;
    let diagonal = if unit { Diagonal::Unit } else { Diagonal::Stored };
    let what = Triangle { half: half(lower), diagonal, conj };
    planned(py, &[t, b], |runtime, speeds| {
        linalg::solve_triangular(runtime, &t.matrix, what, &b.matrix, &shape, &target, speeds)
    })
}

#[pyfunction]
pub fn plan_solve(
    py: Python<'_>,
    a: &Operand,
    b: &Operand,
    shape: Vec<u64>,
    target: Wish<'_>,
) -> PyResult<Plan> {
    let target = target.target(py)?;
    planned(py, &[a, b], |runtime, speeds| {
        linalg::solve(runtime, &a.matrix, &b.matrix, &shape, &target, speeds)
    })
}
