//! Programs that Python makes, whose steps tapes or Python run.

use crate::block::array_at;
use crate::convert::{box_of, dtype_of};
use crate::ending::detached;
use crate::errors::to_python;
use crate::function::Raised;
use crate::linalg::{Wish, facts_of, run_plan};
use crate::process::runtime;
use crate::store::{Store, run};
use crate::tape::TapeDraft;
use numpy::{PyArrayDescrMethods, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use outcrop_engine::Runtime;
use outcrop_engine::plan::{self, Plan};
use outcrop_engine::program::{ArrayId, Caller, Kernel, Operand, Program, Running, Tile};
use outcrop_ops::arrays::{self, New};
use outcrop_ops::kernels::{self, Block, Half};
use outcrop_ops::native::{Function, NativeKernel};
use outcrop_ops::tape::{Flags, Tape};
use outcrop_store::{DType, Error, store};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of all these programs.
const NAME: &str = "expression";

/// What part of the budget a load may have to bring elements in order.
const STAGING_PART: usize = 64;

/// The most kernels of a program.
const MOST_KERNELS: usize = 1 << 16;

struct Building {
    program: Program,
    stores: Vec<Option<Arc<dyn store::Store>>>,
    raised: Vec<Raised>,
    /// What does the steps of each kernel.
    doers: Vec<Doer>,
    /// How many steps Python does.
    actions: u64,
}

/// What does the steps of a kernel.
enum Doer {
    /// Python, which is told the number of the step among all that it does.
    Python,
    Tape(Arc<Taped>),
    /// A compiled function, of so many arguments.
    Native(usize),
}

/// A tape, and what has to live as long.
struct Taped {
    tape: Tape,
    _kept: Vec<Py<PyAny>>,
}

/// A program being made.
#[pyclass(frozen)]
pub struct Draft(Mutex<Option<Building>>);

/// What Python has to know of an array: its number, and its first tile's.
type Declared = (u16, u32);

impl Draft {
    fn declare(
        &self,
        py: Python<'_>,
        store: Option<Arc<dyn store::Store>>,
        raised: Option<Raised>,
        make: impl FnOnce(&mut Program) -> outcrop_store::Result<ArrayId>,
    ) -> PyResult<Declared> {
        self.with(py, |building| {
            let id = make(&mut building.program).map_err(|e| to_python(py, e))?;
            building.stores.push(store);
            building.raised.extend(raised);
            let ndim = building.program.array_at(id).grid.shape.len();
            Ok((id.0, building.program.tile(id, &vec![0; ndim]).0))
        })
    }

    fn kernel_of(
        &self,
        py: Python<'_>,
        (name, rate): (&str, f64),
        doer: Doer,
        kernel: Arc<dyn Kernel>,
    ) -> PyResult<u16> {
        self.with(py, |building| {
            if building.doers.len() == MOST_KERNELS {
                let what = format!("more than {MOST_KERNELS} kinds of steps in one program");
                return Err(to_python(py, Error::invalid(what)));
            }
            building.doers.push(doer);
            Ok(building.program.kernel(name, rate, kernel))
        })
    }

    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Building) -> PyResult<T>) -> PyResult<T> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = || to_python(py, Error::invalid("the program has been planned"));
        work(held.as_mut().ok_or_else(gone)?)
    }
}

#[pymethods]
impl Draft {
    /// `workspace`: bytes for each thread's steps; `beside`: bytes that they take by themselves; `calls_back`: whether
    /// steps call functions of the user's.
    #[new]
    fn new(remark: String, workspace: usize, beside: usize, calls_back: bool) -> Draft {
        let mut program = Program::new(NAME);
        program.remark = remark;
        (program.workspace, program.beside) = (workspace, beside);
        (program.calls_back, program.staging_part) = (calls_back, STAGING_PART);
        let (stores, raised, doers) = Default::default();
        Draft(Mutex::new(Some(Building { program, stores, raised, doers, actions: 0 })))
    }

    /// A box of a stored array, in tiles each of which reaches so far into those that follow.
    #[allow(clippy::too_many_arguments, reason = "what there is to say of a box")]
    fn input(
        &self,
        py: Python<'_>,
        name: &str,
        store: &Store,
        start: Vec<u64>,
        shape: Vec<u64>,
        tile: Vec<u64>,
        overlap: Vec<u64>,
    ) -> PyResult<Declared> {
        let (_, inner) = store.inner(py)?;
        let region = box_of(py, &start, &shape)?;
        region.check_inside(&inner.info().shape).map_err(|e| to_python(py, e))?;
        let kept = Arc::clone(&inner);
        let room = runtime(py)?.limit() / STAGING_PART;
        self.declare(py, Some(inner), store.raised(), |program| {
            arrays::input(program, name, &kept, &region, &tile, &overlap, room)
        })
    }

    /// A result.
    fn output(
        &self,
        py: Python<'_>,
        name: &str,
        target: Wish<'_>,
        dtype: &str,
        shape: Vec<u64>,
        tile: Vec<u64>,
    ) -> PyResult<Declared> {
        let (dtype, _) = dtype_of(py, dtype)?;
        let target = target.target(py)?;
        let new = New { name, dtype, shape: &shape, tile: &tile, initial: None };
        self.declare(py, None, None, |program| new.output(program, &target))
    }

    /// A temporary.
    fn temporary(
        &self,
        py: Python<'_>,
        name: &str,
        dtype: &str,
        shape: Vec<u64>,
        tile: Vec<u64>,
    ) -> PyResult<Declared> {
        let (dtype, _) = dtype_of(py, dtype)?;
        let new = New { name, dtype, shape: &shape, tile: &tile, initial: None };
        self.declare(py, None, None, |program| new.temporary(program))
    }

    /// A kernel whose steps Python does, and how many seconds' work they do in a second.
    fn kernel(&self, py: Python<'_>, name: &str, rate: f64) -> PyResult<u16> {
        self.kernel_of(py, (name, rate), Doer::Python, Arc::new(PythonKernel))
    }

    /// A kernel whose steps a tape does, and what products have of the workspace.
    fn tape(
        &self,
        py: Python<'_>,
        name: &str,
        rate: f64,
        tape: &TapeDraft,
        room: (usize, usize),
    ) -> PyResult<u16> {
        let made = tape.made(py, room)?;
        let taped = Arc::new(Taped { tape: made.tape, _kept: made.kept });
        self.kernel_of(py, (name, rate), Doer::Tape(Arc::clone(&taped)), taped)
    }

    /// A kernel whose steps a compiled function does, with so many arguments each; `kept` keeps it alive.
    ///
    /// See `outcrop_ops::native::Function` for what it is given. What it does there is its maker's responsibility.
    fn native(
        &self,
        py: Python<'_>,
        name: &str,
        rate: f64,
        address: usize,
        arguments: usize,
        kept: Py<PyAny>,
    ) -> PyResult<u16> {
        if address == 0 {
            return Err(to_python(py, Error::invalid("a function without an address")));
        }
        // SAFETY: the address is that of such a function, as the maker vouches.
        let function = unsafe { std::mem::transmute::<usize, Function>(address) };
        // SAFETY: as the maker vouches.
        let kernel = unsafe { NativeKernel::new(name, function, Box::new(kept)) };
        self.kernel_of(py, (name, rate), Doer::Native(arguments), Arc::new(kernel))
    }

    /// Looks whether there may be memory for so many steps with so many operands and arguments, before they are made; of
    /// each kind of step, the arrays that it has tiles of.
    fn check(
        &self,
        py: Python<'_>,
        steps: usize,
        operands: usize,
        arguments: usize,
        kinds: Vec<Vec<u16>>,
    ) -> PyResult<()> {
        let runtime = runtime(py)?;
        self.with(py, |building| {
            let program = &building.program;
            let frames = |arrays: &Vec<u16>| arrays.iter().map(|&a| program.array_at(ArrayId(a)).frame).sum();
            let least = kinds.iter().map(frames).max().unwrap_or(0);
            plan::check_steps(&runtime, program, (steps, operands, arguments), least)
                .map_err(|e| to_python(py, e))
        })
    }

    /// Adds steps: of each, its kernel, how many operands it has, and its work; all operands in a row, a tile's number
    /// times four, plus 1 where it is written whole and 2 where it is read and written; and in rows, too, the numbers of
    /// those that have any (of a tape, its part of each cut line; of a compiled function, its arguments), and for tapes,
    /// which of the operands their tiles are. Steps that Python does are numbered in their order.
    #[allow(clippy::too_many_arguments, reason = "columns of a table")]
    fn steps(
        &self,
        py: Python<'_>,
        kernels: PyReadonlyArray1<'_, u16>,
        counts: PyReadonlyArray1<'_, u16>,
        work: PyReadonlyArray1<'_, f64>,
        operands: PyReadonlyArray1<'_, u32>,
        numbers: PyReadonlyArray1<'_, u64>,
        places: PyReadonlyArray1<'_, u16>,
    ) -> PyResult<()> {
        let (kernels, counts, work) = (kernels.as_slice()?, counts.as_slice()?, work.as_slice()?);
        let columns = Columns {
            operands: operands.as_slice()?,
            numbers: numbers.as_slice()?,
            places: places.as_slice()?,
        };
        self.with(py, |building| {
            building.append(kernels, counts, work, columns).map_err(|error| to_python(py, error))
        })
    }
}

/// What of steps stands in rows, that of the next step first.
struct Columns<'a> {
    operands: &'a [u32],
    numbers: &'a [u64],
    places: &'a [u16],
}

/// The first of a row, which goes on with the others.
fn taken<'a, T>(row: &mut &'a [T], count: usize) -> outcrop_store::Result<&'a [T]> {
    let unfit = || Error::invalid("steps that do not fit together");
    let (own, rest) = row.split_at_checked(count).ok_or_else(unfit)?;
    *row = rest;
    Ok(own)
}

impl Building {
    fn append(
        &mut self,
        kernels: &[u16],
        counts: &[u16],
        work: &[f64],
        mut columns: Columns<'_>,
    ) -> outcrop_store::Result<()> {
        if [counts.len(), work.len()] != [kernels.len(); 2] {
            return Err(Error::invalid("steps that do not fit together"));
        }
        let Building { program, doers, actions, .. } = self;
        let arguments = kernels.iter().map(|&kernel| match doers.get(usize::from(kernel)) {
            Some(Doer::Tape(taped)) => taped.tape.arguments(),
            Some(Doer::Native(count)) => *count,
            _ => 1,
        });
        program.reserve(kernels.len(), columns.operands.len(), arguments.sum());
        let (mut operands, mut arguments) = (Vec::new(), Vec::new());
        for ((&kernel, &count), &work) in kernels.iter().zip(counts).zip(work) {
            operands.clear();
            arguments.clear();
            for &code in taken(&mut columns.operands, usize::from(count))? {
                if (code >> 2) as usize >= program.tiles() || code & 3 == 3 {
                    return Err(Error::invalid("a step on a tile that is not declared"));
                }
                operands.push(Operand::from_code(code));
            }
            match doers.get(usize::from(kernel)) {
                None => return Err(Error::invalid("a step of a kind that is not declared")),
                Some(Doer::Python) => {
                    arguments.push(*actions);
                    *actions += 1;
                }
                Some(Doer::Tape(taped)) => {
                    let (cut, tiles) = taped.tape.counts();
                    let parts = taken(&mut columns.numbers, cut)?;
                    let places = taken(&mut columns.places, tiles)?;
                    taped.tape.push_arguments(&mut arguments, parts, places, &operands)?;
                }
                Some(Doer::Native(count)) => {
                    arguments.extend_from_slice(taken(&mut columns.numbers, *count)?);
                }
            }
            program.step(kernel, &operands, &arguments, work);
        }
        if columns.operands.is_empty() && columns.numbers.is_empty() && columns.places.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid("steps that do not fit together"))
        }
    }
}

/// A program with its schedule.
#[pyclass(frozen)]
pub struct ProgramPlan {
    plan: Plan,
    runtime: Arc<Runtime>,
    stores: Vec<Option<Arc<dyn store::Store>>>,
    raised: Vec<Raised>,
}

/// Schedules a program.
#[pyfunction]
pub fn plan_program(py: Python<'_>, draft: &Draft) -> PyResult<ProgramPlan> {
    let runtime = runtime(py)?;
    let taken = draft.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    let gone = || to_python(py, Error::invalid("the program has been planned"));
    let Building { program, stores, raised, .. } = taken.ok_or_else(gone)?;
    let (path, bytes) = most_of(&program, &stores);
    let plan = run(py, &runtime, None, |watch| {
        let speeds = runtime.speeds(&path, bytes);
        Ok(plan::choose(&runtime, vec![(program, &stores[..])], speeds, watch)?.1)
    })?;
    Ok(ProgramPlan { plan, runtime, stores, raised })
}

/// Where most of what a program reads is, and bytes of all of it.
fn most_of(program: &Program, stores: &[Option<Arc<dyn store::Store>>]) -> (PathBuf, u64) {
    let sizes = stores.iter().zip(program.arrays()).filter_map(|(store, array)| {
        let info = store.as_ref()?.info();
        info.path.is_absolute().then(|| (info.box_bytes(&array.shape()), info.path.clone()))
    });
    let sizes: Vec<_> = sizes.collect();
    let path = sizes.iter().max_by_key(|s| s.0).map(|s| s.1.clone()).unwrap_or_default();
    (path, sizes.iter().map(|s| s.0).sum())
}

#[pymethods]
impl ProgramPlan {
    /// Everything there is to say about it.
    #[getter]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        facts_of(py, &self.plan, &self.runtime)
    }

    /// Whether it is better than another plan for the same job.
    fn is_better_than(&self, other: &ProgramPlan) -> bool {
        self.plan.is_better_than(&other.plan)
    }

    /// Runs it: `function(number, tiles, workspace)` does a step that is Python's, by its number among these. Of floating-point errors
    /// that come up in a tape, other than those that are `ignored`, `complain(name, errors)` hears, which numbers them
    /// as NumPy does. `outputs` are the stores of the arrays that were declared as results, by number; they are
    /// committed if it `commits`.
    #[pyo3(signature = (function, complain, ignored, outputs, commits, progress, timeline))]
    #[allow(clippy::too_many_arguments, reason = "a run and what it tells whom")]
    fn run(
        &self,
        py: Python<'_>,
        function: Py<PyAny>,
        complain: Py<PyAny>,
        ignored: u8,
        outputs: Vec<(u16, PyRef<'_, Store>)>,
        commits: bool,
        progress: Option<Py<PyAny>>,
        timeline: Option<PathBuf>,
    ) -> PyResult<()> {
        let mut stores = self.stores.clone();
        for (array, store) in &outputs {
            stores[*array as usize] = Some(store.inner(py)?.1);
        }
        let caller = PythonCaller { function, complain, ignored: Flags(ignored), raised: Raised::default() };
        let mut raised = self.raised.clone();
        raised.push(Arc::clone(&caller.raised));
        let runtime = &self.runtime;
        run_plan(py, runtime, progress, timeline, &raised, |timeline, watch| {
            self.plan.run(runtime, &stores, &caller, commits, timeline, watch)
        })
    }
}

/// The steps that Python does.
struct PythonKernel;

impl Kernel for PythonKernel {
    // SAFETY: what the caller promises is what the arrays need.
    unsafe fn run(&self, step: Running<'_>) -> outcrop_store::Result<()> {
        let caller: &dyn Any = step.caller;
        let caller = caller.downcast_ref::<PythonCaller>().expect("who runs Python's steps is Python");
        caller.keep(Python::attach(|py| caller.call(py, step.arguments[0], step.tiles, step.workspace)))
    }
}

impl Kernel for Taped {
    // SAFETY: what the caller promises is what the tape needs.
    unsafe fn run(&self, step: Running<'_>) -> outcrop_store::Result<()> {
        // SAFETY: as the caller vouches.
        unsafe { self.tape.run(step) }
    }
}

/// Whoever waits for a run in Python.
struct PythonCaller {
    function: Py<PyAny>,
    complain: Py<PyAny>,
    ignored: Flags,
    raised: Raised,
}

impl PythonCaller {
    fn call(&self, py: Python<'_>, number: u64, tiles: &[Tile<'_>], workspace: &mut [u8]) -> PyResult<()> {
        let mut arrays = Vec::with_capacity(tiles.len());
        for tile in tiles {
            let array = tile.array();
            // SAFETY: the frame holds the tile, and nobody has the array for longer than the step, see below.
            arrays.push(unsafe {
                array_at(py, tile.start, &tile.region().shape, array.tile_shape(), array.dtype)?
            });
        }
        let bytes = [workspace.len() as u64];
        // SAFETY: as above.
        let room = unsafe { array_at(py, workspace.as_mut_ptr(), &bytes, &bytes, DType::U8)? };
        self.function.call1(py, (number, PyTuple::new(py, &arrays)?, &room))?;
        // Frames go to other tiles now.
        // SAFETY: they are alive.
        let kept = arrays.iter().chain([&room]).any(|array| unsafe { ffi::Py_REFCNT(array.as_ptr()) } > 1);
        if kept {
            Err(to_python(py, Error::invalid("a step has kept memory that it was lent")))
        } else {
            Ok(())
        }
    }

    /// What has been raised, kept for the caller of the run.
    fn keep(&self, outcome: PyResult<()>) -> outcrop_store::Result<()> {
        outcome.map_err(|raised| {
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(raised);
            Error::Interrupted
        })
    }
}

impl Caller for PythonCaller {
    fn floating_errors(&self, name: &str, errors: u8) -> outcrop_store::Result<()> {
        let told = Flags(errors).without(self.ignored);
        if told.is_empty() {
            return Ok(());
        }
        self.keep(Python::attach(|py| self.complain.call1(py, (name, told.0)).map(drop)))
    }

    /// The interpreter knows the thread all the time: to make itself known for each step takes more than 100 microseconds, as
    /// memory is mapped and unmapped for it, of which all cores are told.
    fn on_thread(&self, steps: &mut (dyn FnMut() + Send)) {
        Python::attach(|py| py.detach(steps));
    }
}

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
