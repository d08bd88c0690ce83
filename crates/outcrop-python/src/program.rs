//! Programs that Python makes, whose steps tapes or Python run.

use crate::block::array_at;
use crate::convert::{box_of, dtype_of};
use crate::errors::to_python;
use crate::function::Raised;
use crate::plan::{Wish, facts_of, run_plan};
use crate::process::{rows_of, runtime};
use crate::store::{Store, run};
use crate::tape::TapeDraft;
use numpy::PyReadonlyArray1;
use outcrop_engine::Runtime;
use outcrop_engine::plan::{self, Plan};
use outcrop_engine::program::{ArrayId, Caller, Kernel, Program, Running, Tile};
use outcrop_engine::runtime::run_queue;
use outcrop_ops::arrays::{self, New};
use outcrop_ops::builder::{Arguments, Builder, Steps, Stores};
use outcrop_ops::kernels::{Diagonal, Half, Scalar};
use outcrop_ops::linalg::{
    self, Axes, Call, Conjugated, Factors, Form, Indefinite, LDL, Place, SomeColumns, SomeLDL, Tiles,
    Transposition, Triangle, Way,
};
use outcrop_ops::native::{Function, NativeKernel};
use outcrop_ops::tape::{Flags, Tape};
use outcrop_store::store::adapters::cast::CastArray;
use outcrop_store::store::adapters::frontier::FrontierArray;
use outcrop_store::{ArrayBox, DType, Error, store};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// What part of the budget a load may have to bring elements in order.
const STAGING_PART: usize = 64;

/// A tape that Python made, and what has to live as long.
struct Taped {
    tape: Arc<Tape>,
    _kept: Vec<Py<PyAny>>,
}

/// A program being made, and what the functions of its inputs raise.
struct Building {
    builder: Builder,
    raised: Vec<Raised>,
}

/// A program being made.
#[pyclass(frozen)]
pub struct Draft(Mutex<Option<Building>>);

/// What Python has to know of an array: its number, and its first tile's.
type Declared = (u16, u32);

/// A matrix as Python names it: the number of an array, and along which of its axes rows and columns follow each other.
type View = (u16, Option<usize>, Option<usize>);

/// What Python has to know of the way that an operation goes: a remark, how many ways there are, and whether this one
/// takes the least memory.
type Gone = (String, usize, bool);

impl Draft {
    fn declare(
        &self,
        py: Python<'_>,
        store: Option<Arc<dyn store::Store>>,
        raised: Option<Raised>,
        make: impl FnOnce(&mut Program) -> outcrop_store::Result<ArrayId>,
    ) -> PyResult<Declared> {
        self.with(py, |building| {
            let (array, tile) = building.builder.declare(store, make)?;
            building.raised.extend(raised);
            Ok((array.0, tile.0))
        })
    }

    /// Adds an operation of linear algebra, on these matrices.
    fn operation<const N: usize>(
        &self,
        py: Python<'_>,
        matrices: [View; N],
        way: usize,
        add: impl FnOnce(Place<'_>, [Tiles; N]) -> outcrop_store::Result<Way>,
    ) -> PyResult<Gone> {
        let runtime = runtime(py)?;
        self.with(py, |building| {
            let found = building.builder.operation(&runtime, matrices.map(tiles_of), way, add)?;
            Ok((found.remark, found.count, found.frugal))
        })
    }

    fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Building) -> outcrop_store::Result<T>,
    ) -> PyResult<T> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let building = held.as_mut().ok_or_else(gone);
        building.and_then(work).map_err(|error| to_python(py, error))
    }
}

#[pymethods]
impl Draft {
    /// `workspace`: bytes for each thread's steps; `beside`: bytes that they take by themselves; `calls_back`: whether
    /// steps call functions of the user's.
    #[new]
    fn new(workspace: usize, beside: usize, calls_back: bool) -> Draft {
        let builder = Builder::new(workspace, beside, calls_back);
        Draft(Mutex::new(Some(Building { builder, raised: Vec::new() })))
    }

    /// Says what the program is: for people, and which operation, if it is nothing else.
    fn describe(&self, py: Python<'_>, remark: String, operation: Option<&str>) -> PyResult<()> {
        self.with(py, |building| {
            building.builder.describe(remark, operation);
            Ok(())
        })
    }

    /// A box of a stored array, in tiles each of which reaches so far into those that follow. Tiles that pass through
    /// staging memory do in as long pieces as the store would like.
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
        let room = runtime(py)?.limit() / STAGING_PART;
        let region = box_of(py, &start, &shape)?;
        region.check_inside(&inner.info().shape).map_err(|e| to_python(py, e))?;
        let kept = Arc::clone(&inner);
        self.declare(py, Some(inner), store.raised(), |program| {
            program.staging_part = STAGING_PART;
            arrays::input(program, name, &kept, &region, &tile, &overlap, room)
        })
    }

    /// A box of a stored array as a matrix, whose elements become those of this type, or conjugates of that. All staging
    /// memory that is not needed is left to tiles.
    #[allow(clippy::too_many_arguments, reason = "what there is to say of a matrix")]
    fn matrix(
        &self,
        py: Python<'_>,
        name: &str,
        store: &Store,
        start: Vec<u64>,
        shape: Vec<u64>,
        tile: Vec<u64>,
        dtype: &str,
        conj: bool,
    ) -> PyResult<Declared> {
        let (_, mut inner) = store.inner(py)?;
        let (dtype, _) = dtype_of(py, dtype)?;
        if conj {
            inner = Arc::new(CastArray::conjugated(inner).map_err(|e| to_python(py, e))?);
        }
        if inner.info().dtype != dtype {
            inner = Arc::new(CastArray::new(inner, dtype).map_err(|e| to_python(py, e))?);
        }
        let region = box_of(py, &start, &shape)?;
        region.check_inside(&inner.info().shape).map_err(|e| to_python(py, e))?;
        let (kept, none) = (Arc::clone(&inner), vec![0; tile.len()]);
        self.declare(py, Some(inner), store.raised(), |program| {
            arrays::input(program, name, &kept, &region, &tile, &none, 0)
        })
    }

    /// The frontiers along an axis of a stored array whose tiles have them: of each tile the low one, or the high one.
    fn frontiers(
        &self,
        py: Python<'_>,
        name: &str,
        store: &Store,
        axis: usize,
        high: bool,
    ) -> PyResult<Declared> {
        let (_, inner) = store.inner(py)?;
        let found: Arc<dyn store::Store> =
            Arc::new(FrontierArray::new(inner, axis, high).map_err(|e| to_python(py, e))?);
        let (kept, info) = (Arc::clone(&found), found.info().clone());
        let (region, none) = (ArrayBox::whole(&info.shape), vec![0; info.tile.len()]);
        self.declare(py, Some(found), store.raised(), |program| {
            arrays::input(program, name, &kept, &region, &info.tile, &none, 0)
        })
    }

    /// A result; its tiles are those of another array until a step writes them, if one is named.
    #[pyo3(signature = (name, target, dtype, shape, tile, initial=None))]
    #[allow(clippy::too_many_arguments, reason = "what there is to say of an array")]
    fn output(
        &self,
        py: Python<'_>,
        name: &str,
        target: Wish<'_>,
        dtype: &str,
        shape: Vec<u64>,
        tile: Vec<u64>,
        initial: Option<u16>,
    ) -> PyResult<Declared> {
        let (dtype, _) = dtype_of(py, dtype)?;
        let target = target.target(py)?;
        let new = New { name, dtype, shape: &shape, tile: &tile, initial: initial.map(ArrayId) };
        self.declare(py, None, None, |program| new.output(program, &target))
    }

    /// A temporary; its tiles are those of another array until a step writes them, if one is named.
    #[pyo3(signature = (name, dtype, shape, tile, initial=None))]
    fn temporary(
        &self,
        py: Python<'_>,
        name: &str,
        dtype: &str,
        shape: Vec<u64>,
        tile: Vec<u64>,
        initial: Option<u16>,
    ) -> PyResult<Declared> {
        let (dtype, _) = dtype_of(py, dtype)?;
        let new = New { name, dtype, shape: &shape, tile: &tile, initial: initial.map(ArrayId) };
        self.declare(py, None, None, |program| new.temporary(program))
    }

    /// A kernel whose steps Python does, and how many seconds' work they do in a second.
    fn kernel(&self, py: Python<'_>, name: &str, rate: f64) -> PyResult<u16> {
        let kernel = Arc::new(PythonKernel);
        self.with(py, |building| building.builder.kernel(name, rate, Arguments::Number, kernel))
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
        let tape = Arc::new(made.tape);
        let kernel = Arc::new(Taped { tape: Arc::clone(&tape), _kept: made.kept });
        self.with(py, |building| building.builder.kernel(name, rate, Arguments::Tape(tape), kernel))
    }

    /// A kernel whose steps a compiled function does, with so many arguments each; `kept` keeps it alive. The upper half
    /// of the argument `round_at` is the number of the round, such as a sweep, that a step is of.
    ///
    /// See `outcrop_ops::native::Function` for what it is given. What it does there is its maker's responsibility.
    #[pyo3(signature = (name, rate, address, arguments, kept, round_at=None))]
    #[allow(clippy::too_many_arguments, reason = "a function and what is to be known of it")]
    fn native(
        &self,
        py: Python<'_>,
        name: &str,
        rate: f64,
        address: usize,
        arguments: usize,
        kept: Py<PyAny>,
        round_at: Option<usize>,
    ) -> PyResult<u16> {
        if address == 0 {
            return Err(to_python(py, Error::invalid("a function without an address")));
        }
        // SAFETY: the address is that of such a function, as the maker vouches.
        let function = unsafe { std::mem::transmute::<usize, Function>(address) };
        // SAFETY: as the maker vouches.
        let kernel = Arc::new(unsafe { NativeKernel::new(name, function, round_at, Box::new(kept)) });
        self.with(py, |building| building.builder.kernel(name, rate, Arguments::Given(arguments), kernel))
    }

    /// Adds the product `C = A B`, of `matrices` C, A and B of one type, with the conjugates of those that `conj` says. All operations
    /// go one of several ways, by its number; the first promises the least reading, the last may take the least memory.
    fn matmul(&self, py: Python<'_>, matrices: [View; 3], conj: (bool, bool), way: usize) -> PyResult<Gone> {
        self.operation(py, matrices, way, |place, [c, a, b]| linalg::matmul(place, (c, a, b), conj))
    }

    /// Adds the factor L of `A = L L^H`, or U of `A = U^H U`, of `matrices` L or U, and A; all of its tiles are written if it is used as a `whole`.
    fn cholesky(
        &self,
        py: Python<'_>,
        matrices: [View; 2],
        lower: bool,
        whole: bool,
        way: usize,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, way, |place, [l, a]| linalg::cholesky(place, (l, a), half(lower), whole))
    }

    /// Adds the solution of `A X = B`, of `matrices` X, A and B, A Hermitian and positive definite, or any.
    fn solve(
        &self,
        py: Python<'_>,
        matrices: [View; 3],
        positive_definite: bool,
        way: usize,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, way, |place, [x, a, b]| {
            let three = (x, a, b);
            if positive_definite { linalg::solve(place, three) } else { linalg::solve_general(place, three) }
        })
    }

    /// Adds the factors of `P A = L U`, of `matrices` L U and A, with pivots and the permutation where these are wanted.
    #[pyo3(signature = (matrices, pivots, permutation, way))]
    fn lu(
        &self,
        py: Python<'_>,
        matrices: [View; 2],
        pivots: Option<u16>,
        permutation: Option<u16>,
        way: usize,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, way, |place, [lu, a]| {
            let column = |array: u16| Tiles::new(ArrayId(array), Axes::COLUMN);
            let factors = Factors { lu, pivots: pivots.map(column), permutation: permutation.map(column) };
            linalg::lu(place, factors, a)
        })
    }

    /// Adds the next columns of the factors of `P A = L U`, of `matrices` L U and A, which are these columns alone, and their
    /// pivots; `done` are the columns before, and their pivots. Rows of L are in the order that they have then.
    #[pyo3(signature = (matrices, pivots, done, way))]
    fn lu_columns(
        &self,
        py: Python<'_>,
        matrices: [View; 2],
        pivots: View,
        done: Option<(View, View)>,
        way: usize,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, way, |place, [lu, a]| {
            let some = |lu, pivots| SomeColumns { lu, pivots: tiles_of(pivots) };
            let done = done.map(|(lu, pivots)| some(tiles_of(lu), pivots));
            linalg::lu_columns(place, some(lu, pivots), done, a)
        })
    }

    /// Adds X, which is L U with the rows of L in the order of all pivots, of `matrices` X, pivots, and the factors as they
    /// are columns by columns.
    fn lu_in_order(&self, py: Python<'_>, matrices: [View; 3]) -> PyResult<Gone> {
        self.operation(py, matrices, 0, |place, [x, p, l]| linalg::lu_in_order(place, (x, p, l)))
    }

    /// Adds the next columns of the factor L of `A = L L^H`, or rows of U of `A = U^H U`, of `matrices` L or U and A, which
    /// are these columns, or rows, alone; `done` are those before.
    #[pyo3(signature = (matrices, done, lower, way))]
    fn cholesky_columns(
        &self,
        py: Python<'_>,
        matrices: [View; 2],
        done: Option<View>,
        lower: bool,
        way: usize,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, way, |place, [l, a]| {
            linalg::cholesky_columns(place, (l, done.map(tiles_of), a), half(lower))
        })
    }

    /// Adds the solution of `A X = B` with the factors of A, which may be meant as "T" or "C" of it, of `matrices` X,
    /// L U, pivots and B.
    fn lu_solve(&self, py: Python<'_>, matrices: [View; 4], meant: &str, way: usize) -> PyResult<Gone> {
        let what = match meant {
            "N" => Transposition::None,
            "T" => Transposition::Transposed,
            "C" => Transposition::Adjoint,
            _ => return Err(to_python(py, Error::invalid(format!("no transposition {meant:?}")))),
        };
        self.operation(py, matrices, way, |place, [x, l, p, b]| linalg::lu_solve(place, (x, l, p, b), what))
    }

    /// Adds the inverse of `L L^H`, of `matrices` X and L; or of `U^H U`, of U.
    fn cholesky_inverse(
        &self,
        py: Python<'_>,
        matrices: [View; 2],
        lower: bool,
        way: usize,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, way, |place, [x, l]| {
            linalg::cholesky_inverse(place, (x, l), half(lower))
        })
    }

    /// Adds the factor of `L L^H + V V^H`, or of the difference if it goes `down`, of `matrices` X, V and L; or U of the like,
    /// not `lower`, of the conjugate of V. All of its tiles are written if it is used as a `whole`.
    fn cholesky_update(
        &self,
        py: Python<'_>,
        matrices: [View; 3],
        lower: bool,
        down: bool,
        whole: bool,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, 0, |place, [x, v, l]| {
            linalg::cholesky_update(place, (x, v, l), (half(lower), down), whole)
        })
    }

    /// Adds the factors of a symmetric matrix, or a `hermitian` one, of `matrices` L (or U, not `lower`) and A, with D and the
    /// order of rows where these are wanted; all tiles of L are written if it is used as a `whole`.
    #[pyo3(signature = (matrices, beside, lower, hermitian, whole, way))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn ldl(
        &self,
        py: Python<'_>,
        matrices: [View; 2],
        beside: (Option<u16>, Option<u16>),
        lower: bool,
        hermitian: bool,
        whole: bool,
        way: usize,
    ) -> PyResult<Gone> {
        let tiles = |array: Option<u16>| array.map(|array| Tiles::new(ArrayId(array), Axes::MATRIX));
        let (d, rows) = (tiles(beside.0), tiles(beside.1));
        self.operation(py, matrices, way, |place, [l, a]| {
            linalg::ldl(place, LDL { l, d, rows }, a, Indefinite { half: half(lower), hermitian }, whole)
        })
    }

    /// Adds the matrix that `ldl_columns` factors, of `matrices` X and A.
    fn ldl_rotated(
        &self,
        py: Python<'_>,
        matrices: [View; 2],
        lower: bool,
        hermitian: bool,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, 0, |place, [x, a]| {
            linalg::ldl_rotated(place, (x, a), Indefinite { half: half(lower), hermitian })
        })
    }

    /// Adds the next columns of L, or rows of U, of `matrices` these and those of the rotated matrix, and their D and rows;
    /// `done` are the columns before, and D of them.
    #[pyo3(signature = (matrices, beside, done, lower, hermitian, way))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn ldl_columns(
        &self,
        py: Python<'_>,
        matrices: [View; 2],
        beside: (u16, u16),
        done: Option<(View, View)>,
        lower: bool,
        hermitian: bool,
        way: usize,
    ) -> PyResult<Gone> {
        let tiles = |array: u16| Tiles::new(ArrayId(array), Axes::MATRIX);
        self.operation(py, matrices, way, |place, [l, a]| {
            let next = (SomeLDL { l, d: tiles(beside.0) }, tiles(beside.1));
            let done = done.map(|(l, d)| SomeLDL { l: tiles_of(l), d: tiles_of(d) });
            linalg::ldl_columns(place, next, done, a, Indefinite { half: half(lower), hermitian })
        })
    }

    /// Adds L, or U, with its rows in order, of `matrices` X, rows, and the factor as it is columns by columns.
    fn ldl_in_order(&self, py: Python<'_>, matrices: [View; 3], lower: bool) -> PyResult<Gone> {
        self.operation(py, matrices, 0, |place, [x, rows, l]| {
            linalg::ldl_in_order(place, (x, rows, l), half(lower))
        })
    }

    /// Adds the solution of `A X = B` with what `ldl` gives for A, of `matrices` X, L or U, D, rows and B.
    fn ldl_solve(
        &self,
        py: Python<'_>,
        matrices: [View; 5],
        lower: bool,
        hermitian: bool,
        way: usize,
    ) -> PyResult<Gone> {
        self.operation(py, matrices, way, |place, [x, l, d, rows, b]| {
            linalg::ldl_solve(place, (x, l, d, rows, b), Indefinite { half: half(lower), hermitian })
        })
    }

    /// Adds X, which is B with rows exchanged as pivots say, or taken back, of `matrices` X, pivots and B.
    fn exchange_rows(&self, py: Python<'_>, matrices: [View; 3], backwards: bool) -> PyResult<Gone> {
        self.operation(py, matrices, 0, |place, [x, p, b]| linalg::exchange_rows(place, (x, p, b), backwards))
    }

    /// Adds the solution of `T X = B`, of `matrices` X, T and B, T as a triangle, which counts as its conjugate if `conj` says so.
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn solve_triangular(
        &self,
        py: Python<'_>,
        matrices: [View; 3],
        lower: bool,
        unit: bool,
        conj: bool,
        way: usize,
    ) -> PyResult<Gone> {
        let diagonal = if unit { Diagonal::Unit } else { Diagonal::Stored };
        let what = Triangle { half: half(lower), diagonal, conj };
        let add = |place: Place<'_>, [x, t, b]: [Tiles; 3]| linalg::solve_triangular(place, (x, t, b), what);
        self.operation(py, matrices, way, add)
    }

    /// Adds an operation of level-3 BLAS, on `matrices` X, A, B and C; X becomes what C is made to.
    ///
    /// `form`: "scale", "product", "left" or "right" (the first or the second factor is symmetric), "update", "update
    /// twice", "multiply" or "solve"; `conj`: which of A and B counts as its conjugate; `lower`: which half counts, if one
    /// does; `hermitian`: whether symmetric means that; `first`: of updates, whether it is the first factor of a product
    /// that is conjugated.
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python functions")]
    fn blas3(
        &self,
        py: Python<'_>,
        matrices: [View; 4],
        form: &str,
        scalars: ((f64, f64), (f64, f64)),
        conj: (bool, bool),
        lower: Option<bool>,
        hermitian: bool,
        first: bool,
        unit: bool,
        way: usize,
    ) -> PyResult<Gone> {
        let scalar = |(re, im)| Scalar { re, im };
        let (alpha, beta) = (scalar(scalars.0), scalar(scalars.1));
        let half = lower.map(half);
        let side = half.unwrap_or(Half::Lower);
        let diagonal = if unit { Diagonal::Unit } else { Diagonal::Stored };
        let triangle = Triangle { half: side, diagonal, conj: conj.0 };
        let conjugated = if first { Conjugated::First } else { Conjugated::Second };
        let update = |twice| {
            let hermitian = hermitian.then_some(conjugated);
            Form::Update { half: side, conj, hermitian, twice }
        };
        let form = match form {
            "scale" => Form::Scale { half, hermitian },
            "product" => Form::Product { conj, symmetric: (None, None), hermitian },
            "left" => Form::Product { conj, symmetric: (half, None), hermitian },
            "right" => Form::Product { conj, symmetric: (None, half), hermitian },
            "update" => update(false),
            "update twice" => update(true),
            "multiply" => Form::Multiply(triangle),
            "solve" => Form::Solve(triangle),
            other => return Err(to_python(py, Error::invalid(format!("no operation {other:?}")))),
        };
        let call = Call { alpha, beta, form };
        self.operation(py, matrices, way, |place, [x, a, b, c]| linalg::blas3(place, (x, a, b, c), call))
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
        let kinds: Vec<Vec<ArrayId>> =
            kinds.into_iter().map(|arrays| arrays.into_iter().map(ArrayId).collect()).collect();
        self.with(py, |building| building.builder.check(&runtime, (steps, operands, arguments), &kinds))
    }

    /// Adds steps: of each, its kernel, how many operands it has, and its work; all operands in a row, a tile's number
    /// times four, plus 1 where it is written whole and 2 where it is read and written; and in rows, too, the numbers of
    /// those that have any (of a tape, its part of each cut line; of a compiled function, its arguments), and for tapes,
    /// which of the operands their tiles are. Steps that Python does are numbered in their order.
    ///
    /// If they are `made` later, they are not added, but kept for linear algebra, which adds that which makes a tile, its
    /// first operand, before each time that it takes it.
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
        made: bool,
    ) -> PyResult<()> {
        let steps = Steps {
            kernels: kernels.as_slice()?,
            counts: counts.as_slice()?,
            work: work.as_slice()?,
            operands: operands.as_slice()?,
            numbers: numbers.as_slice()?,
            places: places.as_slice()?,
        };
        self.with(py, |building| building.builder.append(steps, made))
    }
}

fn gone() -> Error {
    Error::invalid("the program has been planned")
}

/// A matrix as the core has it.
fn tiles_of((array, rows, cols): View) -> Tiles {
    Tiles::new(ArrayId(array), Axes { rows, cols })
}

fn half(lower: bool) -> Half {
    if lower { Half::Lower } else { Half::Upper }
}

/// Extents of square tiles for a matrix with elements of so many bytes, whose tiles on disk are such, as far as it has
/// any.
#[pyfunction]
pub fn square_side(py: Python<'_>, itemsize: u64, tile: Option<(u64, u64)>) -> PyResult<u64> {
    Ok(linalg::square_side(&*runtime(py)?, itemsize, tile))
}

/// A program with its schedule.
#[pyclass(frozen)]
pub struct ProgramPlan {
    plan: Plan,
    runtime: Arc<Runtime>,
    stores: Stores,
    raised: Vec<Raised>,
}

/// Schedules a program. Where it does not fit, the error names the least budget if it `names_least`, else one that would
/// do.
#[pyfunction]
#[pyo3(signature = (draft, names_least = true))]
pub fn plan_program(py: Python<'_>, draft: &Draft, names_least: bool) -> PyResult<ProgramPlan> {
    let runtime = runtime(py)?;
    let taken = draft.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Building { builder, raised } = taken.ok_or_else(|| to_python(py, gone()))?;
    let (plan, stores) = run(py, &runtime, None, |watch| builder.plan(&runtime, names_least, watch))?;
    Ok(ProgramPlan { plan, runtime, stores, raised })
}

#[pymethods]
impl ProgramPlan {
    /// Everything there is to say about it.
    #[getter]
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        facts_of(py, &self.plan, &self.runtime)
    }

    /// Of each kernel and array: their names, bytes that are read and written for its steps, and no time.
    fn traffic(&self) -> Vec<(String, String, u64, u64, f64)> {
        rows_of(&self.plan.schedule.traffic_by_kernel(&self.plan.program, &BTreeMap::new()))
    }

    /// A result as a Zarr array at a path, of which nothing is made, in tiles of the program's or others that divide them.
    #[pyo3(signature = (array, path, tile=None))]
    fn sketch(&self, py: Python<'_>, array: u16, path: PathBuf, tile: Option<Vec<u64>>) -> PyResult<Store> {
        let path = std::path::absolute(&path)?;
        let made = arrays::sketch(&self.plan, ArrayId(array), tile.as_deref(), &path)
            .map_err(|e| to_python(py, e))?;
        Ok(Store::of(Arc::new(made), &path, None))
    }

    /// Bytes that it would read and write with most of the budget for its tiles, whatever threads, speeds and other
    /// memory there are; None where they do not fit.
    fn moved_anyway(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        run(py, &self.runtime, None, |watch| plan::moved_anyway(&self.runtime, &self.plan.program, watch))
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
        let call = run_queue::call();
        self.function.call1(py, (number, PyTuple::new(py, &arrays)?, &room))?;
        drop(call);
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
