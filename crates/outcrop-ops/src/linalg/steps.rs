//! The steps of linear algebra: which kernel runs on which tiles.

use super::Makers;
use super::matrix::{Axes, MatrixTile, Tiles};
use super::rates::{self, Product};
use crate::kernels::{self, Block, Diagonal, Half, Operand};
use outcrop_engine::program::{Kernel, Operand as Use, Program, Running, Tile};
use outcrop_engine::speeds::Speeds;
use outcrop_store::{DType, Error, Failure, Result};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::Arc;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// `c = 0`.
    Zero,
    /// `c = a`.
    Copy,
    /// `c = alpha a b`, or `c += alpha a b`, of factors as they are or conjugated.
    Product { accumulate: bool, alpha: f64, conj: (bool, bool) },
    /// The lower half of `c -= a a^H`.
    Square,
    /// The lower half of `a` becomes its Cholesky factor, the other half zero.
    Factor,
    /// `x = t^-1 x`, or `x = x t^-T` where `right`; t as it is or conjugated.
    Solve { half: Half, diagonal: Diagonal, conj: bool, right: bool },
}

/// The axes of the operands of a step, in their order.
pub(super) type OperandAxes = SmallVec<[Axes; 3]>;

/// A kernel of linear algebra, on matrices that lie so in their arrays.
struct MatrixKernel {
    dtype: DType,
    kind: Kind,
    /// Of a product of a tile with itself, which a step names once, three all the same.
    axes: OperandAxes,
}

/// Appends arrays and steps of linear algebra to a program.
pub(crate) struct Builder<'a> {
    pub program: &'a mut Program,
    makers: &'a dyn Makers,
    pub(super) dtype: DType,
    /// The kernels that have been declared.
    known: Vec<(Kind, OperandAxes, u16)>,
    /// Operations of a product in a second on one thread.
    pub(super) rate: f64,
}

/// The largest extents of the tiles of an operation's steps.
#[derive(Clone, Copy)]
pub(crate) struct Extents {
    /// Rows and columns of what a step changes.
    pub rows: u64,
    pub cols: u64,
    /// What is summed over.
    pub depth: u64,
    /// Whether triangular systems are solved, or blocks factored.
    pub solves: bool,
    /// Which of the factors of most of the products lie column by column.
    pub transposed: (bool, bool),
}

/// Rates of the kernels by which a step is slower than a product, roughly.
pub(super) const SQUARE_RATE: f64 = 0.85;
const SOLVE_RATE: f64 = 0.8;
const FACTOR_RATE: f64 = 0.5;

impl<'a> Builder<'a> {
    /// Makes room for the workspace of such steps, and finds out how fast they are.
    pub(crate) fn on(
        program: &'a mut Program,
        makers: &'a dyn Makers,
        dtype: DType,
        speeds: Speeds,
        extents: Extents,
    ) -> Builder<'a> {
        let Extents { rows, cols, depth, solves, transposed } = extents;
        let (m, n, k) = (rows as usize, cols as usize, depth as usize);
        let order = m.max(n).max(k);
        let mut workspace = kernels::gemm_workspace(dtype, m, n, k);
        let mut beside = if kernels::is_floating(dtype) { kernels::packing_bytes(dtype, m, n, k) } else { 0 };
        if solves {
            let solve = kernels::solve_triangular_workspace(dtype, order, order);
            let factor = kernels::cholesky_workspace(dtype, order);
            workspace = workspace.max(solve).max(factor);
            beside = beside.max(kernels::packing_bytes(dtype, order, order, order));
        }
        program.workspace = program.workspace.max(workspace);
        program.beside = program.beside.max(beside);
        let rate = rates::rate(Product { dtype, m, n, k, transposed }, speeds.threads);
        Builder { program, makers, dtype, known: Vec::new(), rate }
    }

    fn kernel(&mut self, kind: Kind, axes: OperandAxes) -> u16 {
        if let Some((.., number)) = self.known.iter().find(|known| (known.0, &known.1) == (kind, &axes)) {
            return *number;
        }
        let (name, part) = match kind {
            Kind::Zero => ("zero", 1.0),
            Kind::Copy => ("copy", 1.0),
            Kind::Product { .. } => ("gemm", 1.0),
            Kind::Square => ("herk", SQUARE_RATE),
            Kind::Factor => ("potrf", FACTOR_RATE),
            Kind::Solve { .. } => ("trsm", SOLVE_RATE),
        };
        let made = MatrixKernel { dtype: self.dtype, kind, axes: axes.clone() };
        let number = self.program.kernel(name, self.rate * part, Arc::new(made));
        self.known.push((kind, axes, number));
        number
    }

    fn step(&mut self, kind: Kind, axes: OperandAxes, operands: &[Use], work: f64) {
        let kernel = self.kernel(kind, axes);
        self.program.step(kernel, operands, &[], work);
    }

    /// Operations of a multiplication and an addition.
    pub(super) fn pair(&self) -> f64 {
        if matches!(self.dtype, DType::C64 | DType::C128) { 8.0 } else { 2.0 }
    }

    pub(crate) fn zero(&mut self, c: MatrixTile) {
        self.step(Kind::Zero, smallvec![c.axes], &[Use::write(c.tile)], 0.0);
    }

    /// Makes a tile of an operand, if it has to be made, for the steps that follow.
    pub(crate) fn fetch(&mut self, matrix: Tiles, row: u64, col: u64) {
        if self.makers.make_tiles_of(matrix.array()) {
            let tile = matrix.at(self.program, row, col).tile;
            self.makers.make(self.program, tile);
        }
    }

    /// Makes or copies what a tile starts with, where it is to be made or copied.
    pub(crate) fn begin(&mut self, x: Tiles, row: u64, col: u64) {
        let Some(source) = x.copied_from() else { return self.fetch(x, row, col) };
        self.fetch(source, row, col);
        let (to, from) = (x.at(self.program, row, col), source.at(self.program, row, col));
        let operands = [Use::write(to.tile), Use::read(from.tile)];
        self.step(Kind::Copy, smallvec![to.axes, from.axes], &operands, 0.0);
    }

    /// `extents` are the rows and columns of c, and the columns of a; `conj` says which of the factors count as their
    /// conjugates.
    pub(crate) fn product(
        &mut self,
        (c, a, b): (MatrixTile, MatrixTile, MatrixTile),
        (accumulate, alpha): (bool, f64),
        conj: (bool, bool),
        (m, n, k): (f64, f64, f64),
    ) {
        let use_of_c = if accumulate { Use::update(c.tile) } else { Use::write(c.tile) };
        // A product of a tile with itself names it once.
        let operands = [use_of_c, Use::read(a.tile), Use::read(b.tile)];
        let operands = &operands[..if a.tile == b.tile { 2 } else { 3 }];
        let kind = Kind::Product { accumulate, alpha, conj };
        self.step(kind, smallvec![c.axes, a.axes, b.axes], operands, self.pair() * m * n * k);
    }

    pub(crate) fn square(&mut self, c: MatrixTile, a: MatrixTile, n: f64, k: f64) {
        let operands = [Use::update(c.tile), Use::read(a.tile)];
        let work = self.pair() / 2.0 * n * (n + 1.0) * k;
        self.step(Kind::Square, smallvec![c.axes, a.axes], &operands, work);
    }

    pub(crate) fn factor(&mut self, a: MatrixTile, n: f64) {
        let work = self.pair() / 6.0 * n * n * n;
        self.step(Kind::Factor, smallvec![a.axes], &[Use::update(a.tile)], work);
    }

    /// `x` has `n` rows or columns along `t`, and `m` the other way.
    pub(crate) fn solve(&mut self, kind: Kind, x: MatrixTile, t: MatrixTile, n: f64, m: f64) {
        let operands = [Use::update(x.tile), Use::read(t.tile)];
        self.step(kind, smallvec![x.axes, t.axes], &operands, self.pair() / 2.0 * n * n * m);
    }
}

impl MatrixKernel {
    fn block(&self, operand: usize, tile: &Tile<'_>) -> Block {
        self.axes[operand].block(tile)
    }

    /// Where a tile's first diagonal element is on the diagonal of its matrix.
    fn diagonal_start(&self, operand: usize, tile: &Tile<'_>) -> u64 {
        self.axes[operand].rows.map_or(0, |a| tile.region().start[a])
    }
}

/// A block as a factor, as it is or conjugated.
pub(super) fn factor_of(block: Block, conj: bool) -> Operand {
    Operand { block, conj }
}

impl Kernel for MatrixKernel {
    // SAFETY: what the caller promises is what the kernels below ask for.
    unsafe fn run(&self, step: Running<'_>) -> Result<()> {
        let Running { tiles, workspace, cancel, .. } = step;
        let (dtype, size) = (self.dtype, self.dtype.size());
        let c = self.block(0, &tiles[0]);
        let spans = |extent, work| spans(extent, work, dtype);
        // SAFETY, of every kernel below: the tiles are granted to the step, those that it writes to it
        // alone; a frame has room for its block; different tiles do not overlap.
        match self.kind {
            Kind::Zero => {
                let strides = [c.row_stride, c.col_stride].map(|s| s * dtype.size() as isize);
                let zero = [0u8; 16];
                // SAFETY: as above.
                unsafe {
                    outcrop_store::strided::fill(
                        c.start,
                        &strides,
                        &[c.rows as u64, c.cols as u64],
                        &zero[..dtype.size()],
                    );
                }
            }
            Kind::Copy => {
                let a = self.block(1, &tiles[1]);
                let strides = |b: &Block| [b.row_stride, b.col_stride].map(|s| s * dtype.size() as isize);
                let shape = [c.rows as u64, c.cols as u64];
                // SAFETY: as above.
                unsafe {
                    outcrop_store::strided::copy(
                        c.start,
                        &strides(&c),
                        a.start,
                        &strides(&a),
                        &shape,
                        dtype.size(),
                    );
                }
            }
            Kind::Product { accumulate, alpha, conj } => {
                let a = factor_of(self.block(1, &tiles[1]), conj.0);
                let b = factor_of(self.block(2, tiles.get(2).unwrap_or(&tiles[1])), conj.1);
                for cols in spans(c.cols, 2 * c.rows * a.block.cols) {
                    cancel.check()?;
                    let c = c.part(0..c.rows, cols.clone(), size);
                    let b = Operand { block: b.block.part(0..b.block.rows, cols, size), ..b };
                    // SAFETY: as above.
                    unsafe { kernels::gemm(dtype, c, accumulate, alpha, a, b, workspace) };
                }
            }
            Kind::Square => {
                let a = self.block(1, &tiles[1]);
                for rows in spans(c.rows, 2 * c.cols * a.cols) {
                    cancel.check()?;
                    let (own, before) =
                        (a.part(rows.clone(), 0..a.cols, size), a.part(0..rows.start, 0..a.cols, size));
                    let left = c.part(rows.clone(), 0..rows.start, size);
                    let diagonal = c.part(rows.clone(), rows, size);
                    // SAFETY: as above.
                    unsafe {
                        kernels::gemm(dtype, left, true, -1.0, own.plain(), before.adjoint(), workspace);
                        kernels::gemm_half(
                            dtype,
                            Half::Lower,
                            diagonal,
                            true,
                            -1.0,
                            own.plain(),
                            own.adjoint(),
                            workspace,
                        );
                    }
                }
            }
            Kind::Factor => {
                for panel in spans(c.rows, c.rows * c.rows / 3) {
                    let (before, after) = (0..panel.start, panel.end..c.rows);
                    let own = c.part(panel.clone(), panel.clone(), size);
                    let below = c.part(after.clone(), panel.clone(), size);
                    let done = c.part(panel.clone(), before.clone(), size);
                    let beside = c.part(after, before, size);
                    // SAFETY: as above.
                    unsafe {
                        if done.cols > 0 {
                            let (a, b) = (done.plain(), done.adjoint());
                            kernels::gemm_half(dtype, Half::Lower, own, true, -1.0, a, b, workspace);
                            cancel.check()?;
                            kernels::gemm(dtype, below, true, -1.0, beside.plain(), b, workspace);
                            cancel.check()?;
                        }
                        let factored = kernels::cholesky(dtype, Half::Lower, own, workspace);
                        let first = self.diagonal_start(0, &tiles[0]) + panel.start as u64 + 1;
                        factored.map_err(|i| not_positive_definite(first + i as u64))?;
                        cancel.check()?;
                        let (half, stored, conjugated) =
                            (Half::Lower, Diagonal::Stored, factor_of(own, true));
                        let rows = below.transposed();
                        kernels::solve_triangular(dtype, half, stored, conjugated, rows, workspace);
                    }
                }
                let strides = [c.row_stride, c.col_stride].map(|s| s * dtype.size() as isize);
                let zero = [0u8; 16];
                for i in 0..c.rows.saturating_sub(1) {
                    let above = c.part(i..i + 1, i + 1..c.cols, dtype.size());
                    let shape = [1, above.cols as u64];
                    // SAFETY: as above.
                    unsafe {
                        outcrop_store::strided::fill(above.start, &strides, &shape, &zero[..dtype.size()])
                    };
                }
            }
            Kind::Solve { half, diagonal, conj, right } => {
                let factor = self.block(1, &tiles[1]);
                // SAFETY: as above.
                let zero = unsafe { kernels::first_zero_diagonal(dtype, factor) };
                if let Some(i) = zero.filter(|_| diagonal == Diagonal::Stored) {
                    return Err(singular(self.diagonal_start(1, &tiles[1]) + i as u64 + 1));
                }
                let x = if right { c.transposed() } else { c };
                for cols in spans(x.cols, x.rows * x.rows) {
                    cancel.check()?;
                    let x = x.part(0..x.rows, cols, size);
                    // SAFETY: as above.
                    unsafe {
                        let t = factor_of(factor, conj);
                        kernels::solve_triangular(dtype, half, diagonal, t, x, workspace);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Spans of an extent, of which each index takes `work` operations on real numbers, so short that an interrupt
/// in between is soon noticed. They depend on nothing else, since in the last bits of the result they may be
/// seen.
pub(super) fn spans(extent: usize, work: usize, dtype: DType) -> impl Iterator<Item = Range<usize>> {
    let most = match dtype {
        DType::C64 | DType::C128 => 2_500_000_000,
        _ if kernels::is_floating(dtype) => 10_usize.pow(10),
        _ => 10_usize.pow(9),
    };
    let span = (most / work.max(1)).max(64) / 64 * 64;
    (0..extent).step_by(span).map(move |start| start..(start + span).min(extent))
}

fn not_positive_definite(index: u64) -> Error {
    let what = format!(
        "the matrix is not positive definite: its leading minor of order {index} is not positive, or \
         there is NaN or infinity in its first {index} rows"
    );
    Error::Numerical { what, failure: Failure::NotPositiveDefinite, index }
}

pub(super) fn singular(index: u64) -> Error {
    let what = format!(
        "the triangular matrix is singular: element {index} of its diagonal, counted from 1, is zero"
    );
    Error::Numerical { what, failure: Failure::Singular, index }
}
