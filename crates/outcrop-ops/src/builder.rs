//! Programs being made: what every front end declares arrays and kernels with, and appends steps to.

use crate::linalg::{Makers, Place, Tiles, Way};
use crate::tape::Tape;
use outcrop_engine::plan::speeds::Speeds;
use outcrop_engine::plan::{self, Plan};
use outcrop_engine::program::{Access, ArrayId, Kernel, Operand, Program, TileId};
use outcrop_engine::{Runtime, Watch};
use outcrop_store::store::Store;
use outcrop_store::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// The name of programs that are more than one operation of linear algebra.
const NAME: &str = "expression";

/// Those of programs that are nothing else.
const OPERATIONS: [&str; 27] = [
    "matmul",
    "cholesky",
    "solve",
    "solve_triangular",
    "lu",
    "lu_solve",
    "exchange_rows",
    "lu_columns",
    "lu_in_order",
    "cholesky_columns",
    "cholesky_update",
    "cholesky_inverse",
    "ldl",
    "ldl_rotated",
    "ldl_columns",
    "ldl_in_order",
    "ldl_solve",
    "gemm",
    "symm",
    "hemm",
    "syrk",
    "herk",
    "syr2k",
    "her2k",
    "trmm",
    "trsm",
    "sweep",
];

/// The most kernels of a program.
const MOST_KERNELS: usize = 1 << 16;

/// What the inputs of a program are read from, by the numbers of arrays.
pub type Stores = Vec<Option<Arc<dyn Store>>>;

/// A program being made, and what its inputs are read from.
pub struct Builder {
    program: Program,
    stores: Stores,
    /// What the steps of each kernel are told.
    told: Vec<Arguments>,
    /// How many steps have been told their number.
    numbered: u64,
    /// The steps that make tiles of operands of linear algebra whenever these are needed.
    makers: Recorded,
    /// Bytes that any schedule of the last operation of linear algebra reads, and who says so.
    lower_bound: Option<(f64, &'static str)>,
}

/// What the steps of a kernel are told.
pub enum Arguments {
    /// Each its number, among all steps of such kernels.
    Number,
    /// What the steps of this tape are.
    Tape(Arc<Tape>),
    /// So many numbers.
    Given(usize),
    /// What operations of linear algebra tell their own, which nobody else adds.
    Own,
}

/// Steps to be appended: columns of a table.
#[derive(Clone, Copy)]
pub struct Steps<'a> {
    /// Of each step.
    pub kernels: &'a [u16],
    /// How many operands each has.
    pub counts: &'a [u16],
    /// Of each step, as its kernel's rate counts it.
    pub work: &'a [f64],
    /// All operands in a row, each by its code.
    pub operands: &'a [u32],
    /// What steps are told that are told anything but their number, in a row.
    pub numbers: &'a [u64],
    /// Which of the operands tiles of tapes are, in a row.
    pub places: &'a [u16],
}

/// Steps that are not in the program yet, by the tiles that they make.
#[derive(Default)]
struct Recorded {
    steps: HashMap<TileId, Record>,
    /// The arrays of these tiles.
    arrays: HashSet<ArrayId>,
}

struct Record {
    kernel: u16,
    operands: Vec<Operand>,
    arguments: Vec<u64>,
    work: f64,
}

impl Makers for Recorded {
    fn make_tiles_of(&self, array: ArrayId) -> bool {
        self.arrays.contains(&array)
    }

    fn make(&self, program: &mut Program, tile: TileId) {
        let made = &self.steps[&tile];
        program.step(made.kernel, &made.operands, &made.arguments, made.work);
    }
}

impl Builder {
    /// `workspace`: bytes for each thread's steps; `beside`: bytes that they take by themselves; `calls_back`: whether
    /// steps call functions of the user's.
    pub fn new(workspace: usize, beside: usize, calls_back: bool) -> Builder {
        let mut program = Program::new(NAME);
        (program.workspace, program.beside) = (workspace, beside);
        program.calls_back = calls_back;
        Builder {
            program,
            stores: Vec::new(),
            told: Vec::new(),
            numbered: 0,
            makers: Recorded::default(),
            lower_bound: None,
        }
    }

    /// Says what the program is: for people, and which operation, if it is nothing else.
    pub fn describe(&mut self, remark: String, operation: Option<&str>) {
        self.program.remark = remark;
        if let Some(name) = OPERATIONS.into_iter().find(|&name| Some(name) == operation) {
            self.program.name = name;
            self.program.lower_bound = self.lower_bound;
        }
    }

    /// An array that `make` declares, and its first tile; an input is read from a store.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn declare(
        &mut self,
        store: Option<Arc<dyn Store>>,
        make: impl FnOnce(&mut Program) -> Result<ArrayId>,
    ) -> Result<(ArrayId, TileId)> {
        let id = make(&mut self.program)?;
        self.stores.push(store);
        let ndim = self.program.array_at(id).grid.shape.len();
        Ok((id, self.program.tile(id, &vec![0; ndim])))
    }

    /// A kernel, how many units of work it does in a second, and what its steps are told.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more kernels than there may be.
    pub fn kernel(&mut self, name: &str, rate: f64, told: Arguments, kernel: Arc<dyn Kernel>) -> Result<u16> {
        if self.told.len() == MOST_KERNELS {
            return Err(Error::invalid(format!("more than {MOST_KERNELS} kinds of steps in one program")));
        }
        self.told.push(told);
        Ok(self.program.kernel(name, rate, kernel))
    }

    /// Appends an operation of linear algebra on these matrices, the first of which is its result.
    ///
    /// # Errors
    /// Those of `add`.
    pub fn operation<const N: usize>(
        &mut self,
        runtime: &Runtime,
        matrices: [Tiles; N],
        way: usize,
        add: impl FnOnce(Place<'_>, [Tiles; N]) -> Result<Way>,
    ) -> Result<Way> {
        let result = matrices[0].array();
        let speeds = self.speeds(runtime);
        let Builder { program, makers, .. } = &mut *self;
        let found = add(Place { runtime, program, speeds, way, makers }, matrices)?;
        self.lower_bound = Some(found.lower_bound);
        // What was made in place of the result is the result from now on.
        self.makers.arrays.remove(&result);
        // It has declared kernels, and perhaps arrays, of its own.
        self.told.resize_with(self.program.kernels().len(), || Arguments::Own);
        self.stores.resize(self.program.arrays().len(), None);
        Ok(found)
    }

    /// Looks whether there may be memory for so many steps with so many operands and arguments, before they are made; of
    /// each kind of step, the arrays that it has tiles of.
    ///
    /// # Errors
    /// [`Error::Budget`] where there is not.
    pub fn check(
        &self,
        runtime: &Runtime,
        counts: (usize, usize, usize),
        kinds: &[Vec<ArrayId>],
    ) -> Result<()> {
        let frames = |arrays: &Vec<ArrayId>| arrays.iter().map(|&a| self.program.array_at(a).frame).sum();
        let least = kinds.iter().map(frames).max().unwrap_or(0);
        plan::check_steps(runtime, &self.program, counts, least)
    }

    /// Appends steps. If they are `made` later, they are not, but kept for linear algebra, which adds that which makes a
    /// tile, its first operand, before each time that it takes it.
    ///
    /// # Errors
    /// [`Error::Invalid`] where columns do not fit together, or a step is on what is not declared.
    pub fn append(&mut self, steps: Steps<'_>, made: bool) -> Result<()> {
        let Steps { kernels, counts, work, mut operands, mut numbers, mut places } = steps;
        if [counts.len(), work.len()] != [kernels.len(); 2] {
            return Err(unfit());
        }
        let Builder { program, told, numbered, makers, .. } = self;
        let arguments = kernels.iter().map(|&kernel| match told.get(usize::from(kernel)) {
            Some(Arguments::Tape(tape)) => tape.arguments(),
            Some(Arguments::Given(count)) => *count,
            _ => 1,
        });
        if !made {
            program.reserve(kernels.len(), operands.len(), arguments.sum());
        }
        let (mut on, mut arguments) = (Vec::new(), Vec::new());
        for ((&kernel, &count), &work) in kernels.iter().zip(counts).zip(work) {
            on.clear();
            arguments.clear();
            for &code in taken(&mut operands, usize::from(count))? {
                if (code >> 2) as usize >= program.tiles() || code & 3 == 3 {
                    return Err(Error::invalid("a step on a tile that is not declared"));
                }
                on.push(Operand::from_code(code));
            }
            match told.get(usize::from(kernel)) {
                None | Some(Arguments::Own) => {
                    return Err(Error::invalid("a step of a kind that is not declared"));
                }
                Some(Arguments::Number) => {
                    arguments.push(*numbered);
                    *numbered += 1;
                }
                Some(Arguments::Tape(tape)) => {
                    let (cut, tiles) = tape.counts();
                    let (parts, tiles) = (taken(&mut numbers, cut)?, taken(&mut places, tiles)?);
                    tape.push_arguments(&mut arguments, parts, tiles, &on)?;
                }
                Some(Arguments::Given(count)) => {
                    arguments.extend_from_slice(taken(&mut numbers, *count)?);
                }
            }
            if !made {
                program.step(kernel, &on, &arguments, work);
                continue;
            }
            let Some(first) = on.first().filter(|o| o.access() == Access::Write) else {
                return Err(Error::invalid("a step that makes no tile"));
            };
            let tile = first.tile();
            makers.arrays.insert(program.array_of(tile));
            let (operands, arguments) = (on.clone(), arguments.clone());
            makers.steps.insert(tile, Record { kernel, operands, arguments, work });
        }
        if operands.is_empty() && numbers.is_empty() && places.is_empty() { Ok(()) } else { Err(unfit()) }
    }

    /// Schedules the program; with it, what its inputs are read from.
    ///
    /// # Errors
    /// Those of [`plan::plan`].
    pub fn plan(self, runtime: &Runtime, names_least: bool, watch: &mut dyn Watch) -> Result<(Plan, Stores)> {
        let speeds = self.speeds(runtime);
        let Builder { program, stores, .. } = self;
        Ok((plan::plan(runtime, program, &stores, speeds, names_least, watch)?, stores))
    }

    /// How fast that device is on which most of what the program reads is.
    fn speeds(&self, runtime: &Runtime) -> Speeds {
        let sizes = self.stores.iter().zip(self.program.arrays()).filter_map(|(store, array)| {
            let info = store.as_ref()?.info();
            info.path.is_absolute().then(|| (info.box_bytes(&array.shape()), info.path.clone()))
        });
        let sizes: Vec<(u64, PathBuf)> = sizes.collect();
        let path = sizes.iter().max_by_key(|s| s.0).map(|s| s.1.clone()).unwrap_or_default();
        runtime.speeds(&path, sizes.iter().map(|s| s.0).sum())
    }
}

fn unfit() -> Error {
    Error::invalid("steps that do not fit together")
}

/// The first of a row, which goes on with the others.
fn taken<'a, T>(row: &mut &'a [T], count: usize) -> Result<&'a [T]> {
    let (own, rest) = row.split_at_checked(count).ok_or_else(unfit)?;
    *row = rest;
    Ok(own)
}
