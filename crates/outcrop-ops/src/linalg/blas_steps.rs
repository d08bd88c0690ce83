//! Steps that only level-3 BLAS takes: with any factor, of halves, and with factors of which one half is stored.

use super::matrix::MatrixTile;
use super::steps::{Builder, OperandAxes, SQUARE_RATE, factor_of, parts, product};
use crate::kernels::structured;
use crate::kernels::{self, Block, Diagonal, Half, Operand, Scalar};
use outcrop_engine::program::{Kernel, Operand as Use, Running};
use outcrop_store::io::Cancel;
use outcrop_store::{DType, Result};
use smallvec::smallvec;
use std::ops::Range;
use std::sync::Arc;

/// The half of a symmetric matrix that counts, or of a Hermitian one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mirror {
    pub half: Half,
    pub hermitian: bool,
}

/// A tile as a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FactorTile {
    pub tile: MatrixTile,
    pub conj: bool,
    /// Of one on the diagonal, which half of it counts.
    pub mirror: Option<Mirror>,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// `c = beta c`, of the lower half or of all; where beta is zero, `c = 0`.
    Scale { beta: Scalar, lower: bool },
    /// The imaginary parts of the diagonal become zero.
    Real,
    /// `c = alpha a b`, or `c += alpha a b`, of the lower half or of all.
    Product {
        accumulate: bool,
        alpha: Scalar,
        conj: (bool, bool),
        mirrors: (Option<Mirror>, Option<Mirror>),
        lower: bool,
    },
    /// `x = alpha t x`, t as it is or conjugated.
    Multiply { alpha: Scalar, half: Half, diagonal: Diagonal, conj: bool },
}

/// A kernel on matrices that lie so in their arrays.
struct BlasKernel {
    dtype: DType,
    kind: Kind,
    /// Of a product of a tile with itself, which a step names once, three all the same.
    axes: OperandAxes,
}

/// Appends such steps to a program.
pub(super) struct Steps {
    /// The kernels that have been declared.
    known: Vec<(Kind, OperandAxes, u16)>,
}

/// Bytes of workspace before that of products, for a copy of a block on the diagonal of a tile of this order, and of what
/// is changed by it, if anything is.
pub(super) fn copies(dtype: DType, order: u64, changed: u64) -> usize {
    let order = order.min(DIAGONAL as u64);
    let bytes = |rows: u64, cols: u64| (rows * cols) as usize * dtype.size();
    bytes(order, order).next_multiple_of(ALIGNED) + bytes(order, changed).next_multiple_of(ALIGNED)
}

/// The order of blocks on the diagonal of a tile of which one half counts. They alone are copied, so that what a thread
/// takes beside the tiles is no tile: that may be what leaves memory for one thread only.
const DIAGONAL: usize = 128;

/// Copies begin at multiples of this.
const ALIGNED: usize = 64;

impl Steps {
    pub(super) fn new() -> Steps {
        Steps { known: Vec::new() }
    }

    fn add(&mut self, builder: &mut Builder<'_>, kind: Kind, axes: OperandAxes, operands: &[Use], work: f64) {
        let known = self.known.iter().find(|known| (known.0, &known.1) == (kind, &axes));
        let kernel = match known {
            Some((.., number)) => *number,
            None => {
                let (name, part) = match kind {
                    Kind::Scale { .. } => ("scale", 1.0),
                    Kind::Real => ("real", 1.0),
                    Kind::Product { lower: true, .. } => ("herk", SQUARE_RATE),
                    Kind::Product { .. } => ("gemm", 1.0),
                    // Zeros of blocks on the diagonal are multiplied, too.
                    Kind::Multiply { .. } => ("trmm", 0.75),
                };
                let made = BlasKernel { dtype: builder.dtype, kind, axes: axes.clone() };
                let number = builder.program.kernel(name, builder.rate * part, Arc::new(made));
                self.known.push((kind, axes, number));
                number
            }
        };
        builder.program.step(kernel, operands, &[], work);
    }

    /// `c = beta c`; of the lower half alone, if that is asked for.
    pub(super) fn scale(&mut self, builder: &mut Builder<'_>, c: MatrixTile, beta: Scalar, lower: bool) {
        let whole = beta == Scalar::ZERO && !lower;
        let operand = if whole { Use::write(c.tile) } else { Use::update(c.tile) };
        self.add(builder, Kind::Scale { beta, lower }, smallvec![c.axes], &[operand], 0.0);
    }

    /// The diagonal of a Hermitian matrix has no imaginary parts.
    pub(super) fn real(&mut self, builder: &mut Builder<'_>, c: MatrixTile) {
        self.add(builder, Kind::Real, smallvec![c.axes], &[Use::update(c.tile)], 0.0);
    }

    /// `extents` are the rows and columns of c, and the columns of a. Only the lower half of a tile on the diagonal is
    /// computed, if `lower`.
    pub(super) fn product(
        &mut self,
        builder: &mut Builder<'_>,
        (c, a, b): (MatrixTile, FactorTile, FactorTile),
        (accumulate, alpha, lower): (bool, Scalar, bool),
        (m, n, k): (f64, f64, f64),
    ) {
        let use_of_c = if accumulate || lower { Use::update(c.tile) } else { Use::write(c.tile) };
        // A product of a tile with itself names it once.
        let operands = [use_of_c, Use::read(a.tile.tile), Use::read(b.tile.tile)];
        let operands = &operands[..if a.tile.tile == b.tile.tile { 2 } else { 3 }];
        let (conj, mirrors) = ((a.conj, b.conj), (a.mirror, b.mirror));
        let kind = Kind::Product { accumulate, alpha, conj, mirrors, lower };
        let part = if lower { 0.5 } else { 1.0 };
        let work = builder.pair() * m * n * k * part;
        self.add(builder, kind, smallvec![c.axes, a.tile.axes, b.tile.axes], operands, work);
    }

    /// `x = alpha t x`; x has `n` rows and `m` columns.
    pub(super) fn multiply(
        &mut self,
        builder: &mut Builder<'_>,
        (x, t): (MatrixTile, MatrixTile),
        alpha: Scalar,
        what: super::Triangle,
        (n, m): (f64, f64),
    ) {
        let operands = [Use::update(x.tile), Use::read(t.tile)];
        let super::Triangle { half, diagonal, conj } = what;
        let kind = Kind::Multiply { alpha, half, diagonal, conj };
        let work = builder.pair() / 2.0 * n * n * m;
        self.add(builder, kind, smallvec![x.axes, t.axes], &operands, work);
    }
}

/// A block in the workspace, and what is left of that.
fn taken(workspace: &mut [u8], rows: usize, cols: usize, itemsize: usize) -> (Block, &mut [u8]) {
    let bytes = (rows * cols * itemsize).next_multiple_of(ALIGNED);
    let (own, rest) = workspace.split_at_mut(bytes);
    (Block::row_major(own.as_mut_ptr(), rows, cols, cols), rest)
}

impl Kernel for BlasKernel {
    // SAFETY: what the caller promises is what the kernels below ask for.
    unsafe fn run(&self, step: Running<'_>) -> Result<()> {
        let Running { tiles, workspace, cancel, .. } = step;
        let (dtype, size) = (self.dtype, self.dtype.size());
        let c = self.axes[0].block(&tiles[0]);
        // SAFETY, of every kernel below: the tiles are granted to the step, those that it writes to it alone; a frame
        // has room for its block; different tiles do not overlap, and the workspace is the step's.
        match self.kind {
            Kind::Scale { beta, lower } => {
                // SAFETY: as above.
                unsafe { structured::scale(dtype, lower.then_some(Half::Lower), c, beta) };
            }
            Kind::Real => {
                // SAFETY: as above.
                unsafe { structured::real_diagonal(dtype, c) };
            }
            Kind::Product { accumulate, alpha, conj, mirrors, lower } => {
                let a = self.axes[1].block(&tiles[1]);
                let b = self.axes[2].block(tiles.get(2).unwrap_or(&tiles[1]));
                let (a, b) = (factor_of(a, conj.0), factor_of(b, conj.1));
                // One factor at most has a half only.
                let how = (accumulate, alpha);
                match mirrors {
                    (None, None) => {}
                    (Some(mirror), _) => {
                        // SAFETY: as above.
                        return unsafe {
                            symmetric_product(dtype, c, how, (a, mirror), b, workspace, cancel)
                        };
                    }
                    (_, Some(Mirror { half, hermitian })) => {
                        let (c, a, b) = (c.transposed(), a.transposed(), b.transposed());
                        let mirror = Mirror { half: half.transposed(), hermitian };
                        // SAFETY: as above.
                        return unsafe {
                            symmetric_product(dtype, c, how, (b, mirror), a, workspace, cancel)
                        };
                    }
                }
                if !lower {
                    // SAFETY: as above.
                    return unsafe { product(dtype, c, (accumulate, alpha), a, b, workspace, cancel) };
                }
                for rows in parts(c.rows) {
                    cancel.check()?;
                    let own = Operand { block: a.block.part(rows.clone(), 0..a.block.cols, size), ..a };
                    let of = |cols| Operand { block: b.block.part(0..b.block.rows, cols, size), ..b };
                    let left = c.part(rows.clone(), 0..rows.start, size);
                    let diagonal = c.part(rows.clone(), rows.clone(), size);
                    // SAFETY: as above.
                    unsafe {
                        let before = of(0..rows.start);
                        product(dtype, left, (accumulate, alpha), own, before, workspace, cancel)?;
                        let half = Half::Lower;
                        kernels::gemm_half(
                            dtype,
                            half,
                            diagonal,
                            accumulate,
                            alpha,
                            own,
                            of(rows),
                            workspace,
                        );
                    }
                }
            }
            Kind::Multiply { alpha, half, diagonal, conj } => {
                let t = factor_of(self.axes[1].block(&tiles[1]), conj);
                // SAFETY: as above.
                unsafe { triangular_product(dtype, c, alpha, (t, half, diagonal), workspace, cancel)? };
            }
        }
        Ok(())
    }
}

/// Blocks on the diagonal of a tile of this order.
fn on_diagonal(order: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
    (0..order.div_ceil(DIAGONAL)).map(move |i| i * DIAGONAL..((i + 1) * DIAGONAL).min(order))
}

/// `c = alpha a b`, or `c += alpha a b`, where one half of a is stored. What is beside the diagonal is had from there, as it
/// is or transposed.
///
/// # Errors
/// [`outcrop_store::Error::Interrupted`].
///
/// # Safety
/// As [`kernels::gemm`].
unsafe fn symmetric_product(
    dtype: DType,
    c: Block,
    (accumulate, alpha): (bool, Scalar),
    (a, Mirror { half, hermitian }): (Operand, Mirror),
    b: Operand,
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<()> {
    let (n, size) = (a.block.rows, dtype.size());
    let factor = |rows: Range<usize>, cols: Range<usize>| {
        let is_there = (rows.start > cols.start) == (half == Half::Lower);
        let block = if is_there {
            a.block.part(rows, cols, size)
        } else {
            a.block.part(cols, rows, size).transposed()
        };
        Operand { block, conj: a.conj != (hermitian && !is_there) }
    };
    for rows in on_diagonal(n) {
        let own = c.part(rows.clone(), 0..c.cols, size);
        let given = |rows| Operand { block: b.block.part(rows, 0..b.block.cols, size), ..b };
        let (whole, rest) = taken(workspace, rows.len(), rows.len(), size);
        let diagonal = a.block.part(rows.clone(), rows.clone(), size);
        // SAFETY: as the caller vouches; copies are in the workspace.
        unsafe {
            structured::mirrored(dtype, whole, diagonal, half, hermitian);
            let whole = factor_of(whole, a.conj);
            product(dtype, own, (accumulate, alpha), whole, given(rows.clone()), rest, cancel)?;
            for cols in [0..rows.start, rows.end..n] {
                if !cols.is_empty() {
                    let (a, b) = (factor(rows.clone(), cols.clone()), given(cols));
                    product(dtype, own, (true, alpha), a, b, rest, cancel)?;
                }
            }
        }
    }
    Ok(())
}

/// `x = alpha t x` with a triangle. A row of blocks is overwritten when no other one is made of it any more.
///
/// # Errors
/// [`outcrop_store::Error::Interrupted`].
///
/// # Safety
/// As [`kernels::gemm`].
unsafe fn triangular_product(
    dtype: DType,
    x: Block,
    alpha: Scalar,
    (t, half, diagonal): (Operand, Half, Diagonal),
    workspace: &mut [u8],
    cancel: &Cancel,
) -> Result<()> {
    let (n, size) = (t.block.rows, dtype.size());
    let mut blocks: Vec<_> = on_diagonal(n).collect();
    if half == Half::Lower {
        blocks.reverse();
    }
    for rows in blocks {
        let own = x.part(rows.clone(), 0..x.cols, size);
        let (whole, rest) = taken(workspace, rows.len(), rows.len(), size);
        let (given, rest) = taken(rest, rows.len(), x.cols, size);
        let strides = |b: &Block| [b.row_stride, b.col_stride].map(|s| s * size as isize);
        let shape = [own.rows as u64, own.cols as u64];
        let others = if half == Half::Lower { 0..rows.start } else { rows.end..n };
        // SAFETY: as the caller vouches; copies are in the workspace.
        unsafe {
            let on_diagonal = t.block.part(rows.clone(), rows.clone(), size);
            structured::triangle(dtype, whole, on_diagonal, half, diagonal);
            let (to, from) = (strides(&given), strides(&own));
            outcrop_store::strided::copy(given.start, &to, own.start, &from, &shape, size);
            product(dtype, own, (false, alpha), factor_of(whole, t.conj), given.plain(), rest, cancel)?;
            if !others.is_empty() {
                let factor = Operand { block: t.block.part(rows, others.clone(), size), ..t };
                let other = x.part(others, 0..x.cols, size).plain();
                product(dtype, own, (true, alpha), factor, other, rest, cancel)?;
            }
        }
    }
    Ok(())
}
