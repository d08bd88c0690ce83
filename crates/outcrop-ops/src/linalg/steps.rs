//! The steps of linear algebra: which kernel runs on which tiles.

use super::matrix::{Axes, Tiles};
use super::rates::{self, Product};
use crate::kernels::{self, Block, Diagonal, Half, Operand};
use outcrop_engine::execute::{Kernels, Tile};
use outcrop_engine::predict::Speeds;
use outcrop_engine::program::{Operand as Use, Program, TileId};
use outcrop_store::io::Cancel;
use outcrop_store::{DType, Error, Failure, Result};
use std::ops::Range;

/// How a block enters a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub transposed: bool,
    pub conj: bool,
}

impl Form {
    /// As it is.
    pub(crate) const PLAIN: Form = Form { transposed: false, conj: false };
    /// Transposed and conjugated.
    pub(crate) const ADJOINT: Form = Form { transposed: true, conj: true };

    fn of(self, block: Block) -> Operand {
        Operand { block: if self.transposed { block.transposed() } else { block }, conj: self.conj }
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// `c = 0`.
    Zero,
    /// `c = a`.
    Copy,
    /// `c = alpha a b`, or `c += alpha a b`.
    Product { accumulate: bool, alpha: f64, a: Form, b: Form },
    /// The lower half of `c -= a a^H`.
    Square,
    /// The lower half of `a` becomes its Cholesky factor, the other half zero.
    Factor,
    /// `x = t^-1 x`, or `x = x t^-T` where `right`.
    Solve { half: Half, diagonal: Diagonal, t: Form, right: bool },
}

/// The kernels of a program of linear algebra.
pub struct LinearKernels {
    dtype: DType,
    kinds: Vec<Kind>,
    /// By array.
    axes: Vec<Axes>,
}

/// Builds a program and its kernels side by side.
pub(crate) struct Builder {
    pub program: Program,
    pub kernels: LinearKernels,
    speeds: Speeds,
    /// Which of the factors of a product lie column by column.
    transposed: (bool, bool),
    /// Operations of a product in a second on one thread.
    rate: f64,
}

/// Rates of the kernels by which a step is slower than a product, roughly.
const SQUARE_RATE: f64 = 0.85;
const SOLVE_RATE: f64 = 0.8;
const FACTOR_RATE: f64 = 0.5;

impl Builder {
    /// A program without steps. `transposed` says which of the factors of most of its products lie column by
    /// column.
    pub(crate) fn new(name: &'static str, dtype: DType, speeds: Speeds, transposed: (bool, bool)) -> Builder {
        let kernels = LinearKernels { dtype, kinds: Vec::new(), axes: Vec::new() };
        Builder { program: Program::new(name), kernels, speeds, transposed, rate: 0.0 }
    }

    /// Notes which axes the matrix of an array has. Blocks of its transposed are that by their axes.
    pub(crate) fn note(&mut self, tiles: Tiles) -> Tiles {
        for of in tiles.copied_from().into_iter().chain([tiles]) {
            let array = of.array.0 as usize;
            self.kernels.axes.resize(self.kernels.axes.len().max(array + 1), Axes::default());
            self.kernels.axes[array] = of.axes;
        }
        tiles
    }

    /// How blocks of a matrix, which may be the transposed of the one noted, enter a product.
    pub(crate) fn form(&self, tiles: Tiles, conj: bool) -> Form {
        Form { transposed: tiles.axes != self.kernels.axes[tiles.array.0 as usize], conj }
    }

    fn kind(&mut self, kind: Kind) -> u16 {
        if let Some(i) = self.kernels.kinds.iter().position(|k| *k == kind) {
            return i as u16;
        }
        let (name, part) = match kind {
            Kind::Zero => ("zero", 1.0),
            Kind::Copy => ("copy", 1.0),
            Kind::Product { .. } => ("gemm", 1.0),
            Kind::Square => ("herk", SQUARE_RATE),
            Kind::Factor => ("potrf", FACTOR_RATE),
            Kind::Solve { .. } => ("trsm", SOLVE_RATE),
        };
        self.kernels.kinds.push(kind);
        self.program.kernel(name, self.rate * part)
    }

    /// Operations of a multiplication and an addition.
    fn pair(&self) -> f64 {
        if matches!(self.kernels.dtype, DType::C64 | DType::C128) { 8.0 } else { 2.0 }
    }

    pub(crate) fn zero(&mut self, c: TileId) {
        let kind = self.kind(Kind::Zero);
        self.program.step(kind, &[Use::write(c)], 0.0);
    }

    /// Copies what a tile starts with, where it is to be copied.
    pub(crate) fn begin(&mut self, x: Tiles, row: u64, col: u64) {
        let Some(source) = x.copied_from() else { return };
        let (to, from) = (x.at(&self.program, row, col), source.at(&self.program, row, col));
        let kind = self.kind(Kind::Copy);
        self.program.step(kind, &[Use::write(to), Use::read(from)], 0.0);
    }

    /// `extents` are the rows and columns of c, and the columns of a.
    pub(crate) fn product(
        &mut self,
        (c, a, b): (TileId, TileId, TileId),
        (accumulate, alpha): (bool, f64),
        forms: (Form, Form),
        (m, n, k): (f64, f64, f64),
    ) {
        let kind = self.kind(Kind::Product { accumulate, alpha, a: forms.0, b: forms.1 });
        let c = if accumulate { Use::update(c) } else { Use::write(c) };
        let work = self.pair() * m * n * k;
        // A product of a tile with itself names it once.
        if a == b {
            self.program.step(kind, &[c, Use::read(a)], work);
        } else {
            self.program.step(kind, &[c, Use::read(a), Use::read(b)], work);
        }
    }

    pub(crate) fn square(&mut self, c: TileId, a: TileId, n: f64, k: f64) {
        let kind = self.kind(Kind::Square);
        self.program.step(kind, &[Use::update(c), Use::read(a)], self.pair() / 2.0 * n * (n + 1.0) * k);
    }

    pub(crate) fn factor(&mut self, a: TileId, n: f64) {
        let kind = self.kind(Kind::Factor);
        self.program.step(kind, &[Use::update(a)], self.pair() / 6.0 * n * n * n);
    }

    /// `x` has `n` rows or columns along `t`, and `m` the other way.
    pub(crate) fn solve(&mut self, kind: Kind, x: TileId, t: TileId, n: f64, m: f64) {
        let kind = self.kind(kind);
        self.program.step(kind, &[Use::update(x), Use::read(t)], self.pair() / 2.0 * n * n * m);
    }

    /// Sets the workspace, and how fast products are, from the largest extents of tiles: rows and columns of
    /// results, and the extent summed over. Before the steps, and after them where solving is among them.
    pub(crate) fn extents(&mut self, rows: u64, cols: u64, depth: u64) {
        let (dtype, program) = (self.kernels.dtype, &mut self.program);
        let (m, n, k) = (rows as usize, cols as usize, depth as usize);
        let order = m.max(n).max(k);
        let product = Product { dtype, m, n, k, transposed: self.transposed };
        self.rate = rates::rate(product, self.speeds.threads);
        program.workspace = kernels::gemm_workspace(dtype, m, n, k);
        if kernels::is_floating(dtype) {
            program.beside = kernels::packing_bytes(dtype, m, n, k);
        }
        if self.kernels.kinds.iter().any(|k| matches!(k, Kind::Solve { .. } | Kind::Factor)) {
            let solve = kernels::solve_triangular_workspace(dtype, order, order);
            let factor = kernels::cholesky_workspace(dtype, order);
            program.workspace = program.workspace.max(solve).max(factor);
            program.beside = kernels::packing_bytes(dtype, order, order, order);
        }
    }
}

impl LinearKernels {
    fn block(&self, tile: &Tile<'_>) -> Block {
        self.axes[tile.array_id().0 as usize].block(tile)
    }

    /// Where a tile's first diagonal element is on the diagonal of its matrix.
    fn diagonal_start(&self, tile: &Tile<'_>) -> u64 {
        let axes = self.axes[tile.array_id().0 as usize];
        axes.rows.map_or(0, |a| tile.region().start[a])
    }
}

impl Kernels for LinearKernels {
    // SAFETY: what the caller promises is what the kernels below ask for.
    unsafe fn run(
        &self,
        _step: usize,
        kernel: u16,
        tiles: &[Tile<'_>],
        workspace: &mut [u8],
        cancel: &Cancel,
    ) -> Result<()> {
        let (dtype, size) = (self.dtype, self.dtype.size());
        let c = self.block(&tiles[0]);
        let spans = |extent, work| spans(extent, work, dtype);
        // SAFETY, of every kernel below: the tiles are granted to the step, those that it writes to it
        // alone; a frame has room for its block; different tiles do not overlap.
        match self.kinds[kernel as usize] {
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
                let a = self.block(&tiles[1]);
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
            Kind::Product { accumulate, alpha, a, b } => {
                let left = self.block(&tiles[1]);
                let right = tiles.get(2).map_or(left, |t| self.block(t));
                let (a, b) = (a.of(left), b.of(right));
                for cols in spans(c.cols, 2 * c.rows * a.block.cols) {
                    cancel.check()?;
                    let c = c.part(0..c.rows, cols.clone(), size);
                    let b = Operand { block: b.block.part(0..b.block.rows, cols, size), ..b };
                    // SAFETY: as above.
                    unsafe { kernels::gemm(dtype, c, accumulate, alpha, a, b, workspace) };
                }
            }
            Kind::Square => {
                let a = self.block(&tiles[1]);
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
                        let first = self.diagonal_start(&tiles[0]) + panel.start as u64 + 1;
                        factored.map_err(|i| not_positive_definite(first + i as u64))?;
                        cancel.check()?;
                        let adjoint = Form { transposed: false, conj: true };
                        let (half, stored) = (Half::Lower, Diagonal::Stored);
                        let rows = below.transposed();
                        kernels::solve_triangular(dtype, half, stored, adjoint.of(own), rows, workspace);
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
            Kind::Solve { half, diagonal, t, right } => {
                let factor = self.block(&tiles[1]);
                // SAFETY: as above.
                let zero = unsafe { kernels::first_zero_diagonal(dtype, factor) };
                if let Some(i) = zero.filter(|_| diagonal == Diagonal::Stored) {
                    return Err(singular(self.diagonal_start(&tiles[1]) + i as u64 + 1));
                }
                let x = if right { c.transposed() } else { c };
                for cols in spans(x.cols, x.rows * x.rows) {
                    cancel.check()?;
                    let x = x.part(0..x.rows, cols, size);
                    // SAFETY: as above.
                    unsafe { kernels::solve_triangular(dtype, half, diagonal, t.of(factor), x, workspace) };
                }
            }
        }
        Ok(())
    }
}

/// Spans of an extent, of which each index takes `work` operations on real numbers, so short that an interrupt
/// in between is soon noticed. They depend on nothing else, since in the last bits of the result they may be
/// seen.
fn spans(extent: usize, work: usize, dtype: DType) -> impl Iterator<Item = Range<usize>> {
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
