//! The kernels of a program: each brings what its steps do.
//!
//! Kernels of every kind stand beside each other in one program: linear algebra, tapes of array expressions, functions
//! of Python's, compiled functions. What a kernel has in common for all of its steps, it holds itself; what a step has of
//! its own are its tiles and its arguments.

use super::{Array, ArrayId, Program, TileId};
use outcrop_store::io::Cancel;
use outcrop_store::{ArrayBox, Result};
use std::any::Any;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;
use std::time::Duration;

/// A tile of a step, in memory.
#[derive(Clone, Copy)]
pub struct Tile<'a> {
    pub(crate) program: &'a Program,
    /// Which.
    pub id: TileId,
    /// Where its first element is; rows follow each other as those of a whole tile do.
    pub start: *mut u8,
}

impl Tile<'_> {
    /// Its box in its array.
    pub fn region(&self) -> ArrayBox {
        self.program.region(self.id)
    }

    /// Its array's number.
    pub fn array_id(&self) -> ArrayId {
        self.program.array_of(self.id)
    }

    /// Its array.
    pub fn array(&self) -> &Array {
        self.program.array_at(self.array_id())
    }
}

/// A step that is being done.
pub struct Running<'a> {
    /// Its operands, in the order in which the program names them.
    pub tiles: &'a [Tile<'a>],
    /// Its own numbers, as the program has them.
    pub arguments: &'a [u64],
    /// Memory for its thread, of the bytes that the program asks for.
    pub workspace: &'a mut [u8],
    /// What takes long looks now and then whether to stop.
    pub cancel: &'a Cancel,
    /// Whoever waits for the run.
    pub caller: &'a dyn Caller,
}

/// What the steps of one kind do.
pub trait Kernel: Send + Sync {
    /// Does a step.
    ///
    /// # Errors
    /// Whatever stops the run, such as [`outcrop_store::Error::Numerical`]; [`outcrop_store::Error::Interrupted`].
    ///
    /// # Safety
    /// The tiles that the step reads are there, those that it writes belong to it alone, and each has a frame as its
    /// array says. The step is one that whoever declared the kernel has added.
    unsafe fn run(&self, step: Running<'_>) -> Result<()>;

    /// Which round a step is of, by its arguments, where steps come in rounds, as sweeps over a grid do.
    fn round(&self, _arguments: &[u64]) -> Option<u64> {
        None
    }
}

/// Whoever waits for a run, as its kernels see it.
pub trait Caller: Any + Sync {
    /// Does all the `steps` of one thread: around them, what they need of their thread can be held.
    fn on_thread(&self, steps: &mut (dyn FnMut() + Send)) {
        steps();
    }

    /// Hears which floating-point errors have come up in what is called `name`: a bit for each kind, as NumPy numbers
    /// them.
    ///
    /// # Errors
    /// Where that is to stop the run.
    fn floating_errors(&self, _name: &str, _errors: u8) -> Result<()> {
        Ok(())
    }
}

/// Nobody in particular: what there is to hear is not heard.
impl Caller for () {}

/// A kernel with what is to be known of it beforehand.
#[derive(Clone)]
pub struct Kind {
    /// For people, such as `gemm`.
    pub name: Arc<str>,
    /// Operations in a second on one thread, for predicting time.
    pub rate: f64,
    pub(crate) kernel: Arc<dyn Kernel>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).field("rate", &self.rate).finish_non_exhaustive()
    }
}

/// The kernels of a program, by the order in which they were declared.
#[derive(Clone, Debug, Default)]
pub struct KernelTable(Vec<Kind>);

impl KernelTable {
    pub(super) fn push(&mut self, kind: Kind) -> u16 {
        self.0.push(kind);
        u16::try_from(self.0.len() - 1).expect("fewer kernels than a step can name")
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Times by kernel, those of the same name added up.
    pub(crate) fn by_name(&self, times: &[Duration]) -> Vec<(Arc<str>, Duration)> {
        let mut found: Vec<(Arc<str>, Duration)> = Vec::new();
        for (kind, &time) in self.0.iter().zip(times) {
            match found.iter_mut().find(|(name, _)| *name == kind.name) {
                Some((_, sum)) => *sum += time,
                None => found.push((Arc::clone(&kind.name), time)),
            }
        }
        found
    }
}

impl Index<u16> for KernelTable {
    type Output = Kind;

    fn index(&self, kernel: u16) -> &Kind {
        &self.0[usize::from(kernel)]
    }
}
