//! What steps of expressions do, without whoever made them: instructions on strips that stay in the cache.
//!
//! A [`Tape`] is what the steps of a pass have in common. Its values are arrays whose axes run along *lines*; a step has
//! a part of each line that is cut, and tiles, and the instructions are done for one strip of it after the other. What
//! is elementwise is done by inner loops of NumPy's ([`Function`]), products by [`crate::kernels`].

mod bound;
mod floating;
mod inner;
mod steps;
#[cfg(test)]
mod tests;
mod view;

pub use floating::Flags;
pub use inner::{Function, MOST_OPERANDS};

use outcrop_store::{DType, Error, Result};
use std::ffi::c_void;
use std::ops::Range;

/// The axes that run together, and how many indices they have.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Indices of each.
    pub extents: Vec<u64>,
    /// Those of which a step has a part, and into how many indices each they are cut.
    pub cut: Vec<(usize, u64)>,
    /// That along which strips are cut, and their length.
    pub strips: Option<(usize, u64)>,
}

/// An operand or result of instructions.
#[derive(Clone, Debug)]
pub struct Value {
    /// Element type.
    pub dtype: DType,
    /// The line of each axis.
    pub lines: Vec<usize>,
    /// Where it is.
    pub place: Place,
}

/// Where a value is.
#[derive(Clone, Debug)]
pub enum Place {
    /// In a tile of the step: its number among those that the tape uses, and how it shows the value.
    Tile(usize, Vec<Shown>),
    /// In the workspace, that many bytes behind its start: all of it, or a strip if it is along the line of these.
    Workspace(usize),
    /// In memory that is there all the time: its first element, and strides in bytes.
    Memory(*mut u8, Vec<isize>),
}

/// How an axis of a value lies in a tile.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The axis of the tile, if it has one for it.
    pub axis: Option<usize>,
    /// From one index to the next.
    pub step: usize,
    /// Where it begins: no further than tiles [overlap](outcrop_engine::program::Array::overlap).
    pub first: usize,
}

/// When an instruction is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the strips.
    Before,
    /// For each strip.
    Strip,
    /// When all strips are done.
    After,
}

/// What is done with values, which it names by their numbers.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// An elementwise function.
    Loop(Loop),
    /// A reduction.
    Reduction(Reduction),
    /// The same elements.
    Copy {
        /// Of what.
        operand: usize,
        /// To where.
        result: usize,
    },
    /// A product of matrices.
    Product(Product),
    /// Copies what is below the diagonal of a square matrix to above it.
    Mirror(Matrix),
}

/// An inner loop of a ufunc.
#[derive(Clone, Debug)]
pub struct Inner {
    /// What it is called when something goes wrong.
    pub name: String,
    /// The loop.
    pub function: Function,
    /// What that is given with every call.
    pub data: *mut c_void,
}

/// An elementwise function.
#[derive(Clone, Debug)]
pub struct Loop {
    /// What makes an element.
    pub inner: Inner,
    /// What of, and in the end the result.
    pub values: Vec<usize>,
}

/// A reduction over axes, which the result does not have.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// What joins two elements to one of the same type.
    pub inner: Inner,
    /// Of what.
    pub operand: usize,
    /// To where.
    pub result: usize,
    /// Axes of the operand, in order.
    pub axes: Vec<usize>,
    /// A number that joined to others changes nothing; where there is none, elements are joined to the first one.
    pub initial: Option<usize>,
    /// Where each strip adds to what those before have left: room for what is added.
    pub part: Option<usize>,
}

/// A product of matrices.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// The factors.
    pub factors: [Matrix; 2],
    /// What they are multiplied to.
    pub result: Matrix,
    /// Whether each strip adds to what those before have left.
    pub accumulates: bool,
    /// Whether only what is on and below the diagonal is computed.
    pub half: bool,
}

/// A value as a matrix: its axes of rows and of columns, where it has such.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// The value's number.
    pub value: usize,
    /// The axis of rows.
    pub row: Option<usize>,
    /// The axis of columns.
    pub col: Option<usize>,
}

/// What the steps of a pass have in common.
#[derive(Debug)]
pub struct Tape {
    lines: Lines,
    values: Vec<Value>,
    instructions: Vec<(When, Instruction)>,
    /// What products have of the workspace.
    room: Range<usize>,
    /// Of each tile, whether instructions write it.
    written: Vec<bool>,
}

// SAFETY: the pointers are to memory and functions that all threads may read and call, as the tape's maker vouches.
unsafe impl Send for Tape {}
// SAFETY: as above.
unsafe impl Sync for Tape {}

impl Tape {
    /// A tape; `room` is what products have of the workspace.
    ///
    /// # Errors
    /// Where it names what it does not have, or what an instruction is given does not fit it.
    ///
    /// # Safety
    /// As long as the tape lives:
    /// - memory that values are in stays where it is, with all elements along the values' lines, and nobody changes it
    ///   while a step runs;
    /// - the functions are inner loops of elementwise functions that take operands and results of the values' types, and
    ///   may be called from all threads at once;
    /// - of values in the workspace, those that are used at the same time do not overlap, nor do they overlap with the
    ///   `room`; only operand and result of an elementwise function may be the same place.
    pub unsafe fn new(
        lines: Lines,
        values: Vec<Value>,
        instructions: Vec<(When, Instruction)>,
        room: Range<usize>,
    ) -> Result<Tape> {
        let tiles =
            values.iter().filter_map(|v| if let Place::Tile(n, _) = v.place { Some(n + 1) } else { None });
        let written = vec![false; tiles.max().unwrap_or(0)];
        let mut tape = Tape { lines, values, instructions, room, written };
        tape.check().map_err(Error::invalid)?;
        for (_, instruction) in &tape.instructions {
            if let Place::Tile(tile, _) = tape.values[instruction.result()].place {
                tape.written[tile] = true;
            }
        }
        Ok(tape)
    }

    /// How many tiles a step has.
    pub fn tiles(&self) -> usize {
        self.written.len()
    }

    /// What an instruction is called.
    pub fn name(&self, instruction: usize) -> &str {
        match &self.instructions[instruction].1 {
            Instruction::Loop(own) => &own.inner.name,
            Instruction::Reduction(own) => &own.inner.name,
            Instruction::Copy { .. } => "copy",
            Instruction::Product(_) => "matmul",
            Instruction::Mirror(_) => "mirror",
        }
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
        let Lines { extents, cut, strips } = &self.lines;
        let is_line = |line: &usize| *line < extents.len();
        if !cut.iter().chain(strips).all(|(line, _)| is_line(line)) {
            return Err("a tape without some of its lines");
        }
        if cut.iter().any(|&(_, extent)| extent == 0) {
            return Err("lines cut into nothing");
        }
        if strips.is_some_and(|(_, strip)| strip == 0) {
            return Err("strips without elements");
        }
        for value in &self.values {
            let fits = match &value.place {
                Place::Tile(_, shown) => shown.len() == value.lines.len() && shown.iter().all(|s| s.step > 0),
                Place::Workspace(offset) => offset.is_multiple_of(value.dtype.size()),
                Place::Memory(start, strides) => {
                    strides.len() == value.lines.len() && is_aligned(*start, strides, value.dtype)
                }
            };
            if !fits || !value.lines.iter().all(is_line) {
                return Err("a value of a tape that is not where its axes are");
            }
        }
        self.instructions.iter().try_for_each(|(_, instruction)| self.check_instruction(instruction))
    }

    fn check_instruction(&self, instruction: &Instruction) -> std::result::Result<(), &'static str> {
        let axes = |value: usize| self.values.get(value).map(|v| v.lines.len());
        let is_matrix = |matrix: &Matrix| {
            let Some(axes) = axes(matrix.value) else { return false };
            let mut own = matrix.row.iter().chain(&matrix.col);
            own.clone().count() == axes && own.all(|&a| a < axes) && (axes < 2 || matrix.row != matrix.col)
        };
        let fits = match instruction {
            Instruction::Loop(own) => {
                (1..=MOST_OPERANDS).contains(&own.values.len())
                    && own.values.iter().all(|&v| axes(v).is_some())
            }
            Instruction::Reduction(own) => {
                let of = |value: &usize| self.values.get(*value).map(|v| (v.dtype, v.lines.len()));
                let kept = axes(own.operand).and_then(|all| all.checked_sub(own.axes.len()));
                let alike = |value: &usize, axes: usize| {
                    of(value) == of(&own.operand).map(|(dtype, _)| (dtype, axes))
                };
                let is_sorted = own.axes.is_sorted_by(|a, b| a < b);
                let fits = |kept| {
                    own.axes.last().is_some_and(|&a| a < kept + own.axes.len())
                        && alike(&own.result, kept)
                        && own.part.iter().all(|part| *part != own.result && alike(part, kept))
                        && own.initial.iter().all(|initial| alike(initial, 0))
                };
                is_sorted && own.operand != own.result && kept.is_some_and(fits)
            }
            Instruction::Copy { operand, result } => {
                let dtype = |value: &usize| self.values.get(*value).map(|v| v.dtype);
                dtype(operand).is_some() && dtype(operand) == dtype(result)
            }
            Instruction::Product(product) => {
                let all = [&product.factors[0], &product.factors[1], &product.result];
                let is_alike =
                    |m: &Matrix| self.values[m.value].dtype == self.values[product.result.value].dtype;
                all.into_iter().all(is_matrix) && all.into_iter().all(is_alike)
            }
            Instruction::Mirror(matrix) => is_matrix(matrix),
        };
        if fits { Ok(()) } else { Err("an instruction whose operands do not fit it") }
    }
}

impl Instruction {
    /// The value that it makes.
    fn result(&self) -> usize {
        match self {
            Instruction::Loop(own) => own.values[own.values.len() - 1],
            Instruction::Reduction(own) => own.result,
            Instruction::Copy { result, .. } => *result,
            Instruction::Product(product) => product.result.value,
            Instruction::Mirror(matrix) => matrix.value,
        }
    }
}

/// Whether elements are where the processor can take them.
fn is_aligned(start: *mut u8, strides: &[isize], dtype: DType) -> bool {
    let word = dtype.word_size();
    (start as usize).is_multiple_of(word) && strides.iter().all(|s| s % word as isize == 0)
}
