//! Updates of a Cholesky factor: column by column of tiles, in one pass over the factor.

use super::matrix::{Axes, MatrixTile, Tiles};
use super::steps::{Builder, Extents, OperandAxes, not_positive_definite};
use super::{Place, Way, tile_shape};
use crate::arrays::New;
use crate::kernels::{Half, update};
use outcrop_engine::plan;
use outcrop_engine::program::{Kernel, Operand as Use, Running};
use outcrop_store::{DType, Error, Failure, Result};
use smallvec::smallvec;
use std::sync::Arc;

/// A kernel on matrices that lie so in their arrays.
struct UpdateKernel {
    dtype: DType,
    /// Whether rotations are found, in a tile on the diagonal, or applied to one below.
    finds: bool,
    down: bool,
    axes: OperandAxes,
}

/// The rate of rotations, by that of products: they are vectors.
const ROTATION_RATE: f64 = 0.1;

/// Adds the factor X of `L L^H + V V^H`, or of the difference where `down`, of L, or of U where `half` is the upper one and
/// X is U of the like; V counts as its conjugate then. The other half of L is not read, that of the result is zero: its
/// tiles are written if it is used as a `whole`.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn cholesky_update(
    place: Place<'_>,
    (x, v, l): (Tiles, Tiles, Tiles),
    (half, down): (Half, bool),
    whole: bool,
) -> Result<Way> {
    let Place { runtime, program, speeds, makers, .. } = place;
    let x = x.beginning_as(program, l);
    let x = if half == Half::Upper { x.transposed() } else { x };
    let dtype = x.dtype(program);
    let ((side, _), (n, count)) = (x.tile(program), v.shape(program));
    let (wide, groups) = (v.tile(program).1, v.counts(program).1);
    // V is changed, too: what is left of it goes down from one column of tiles to the next.
    let (shape, tile) = ([n, count], tile_shape(2, Axes::MATRIX, side, wide));
    let new = New { name: "V", dtype, shape: &shape, tile: &tile, initial: None };
    let w = Tiles::new(new.temporary(program)?, Axes::MATRIX).beginning_as(program, v);
    let (shape, tile) = ([n, 2 * wide * groups], tile_shape(2, Axes::MATRIX, side, 2 * wide));
    let new = New { name: "rotations", dtype, shape: &shape, tile: &tile, initial: None };
    let rotations = Tiles::new(new.temporary(program)?, Axes::MATRIX);
    program.workspace = program.workspace.max(update::workspace(dtype, side as usize, wide as usize));
    let turned = (x.axes().is_transposed(), false);
    let extents =
        Extents { rows: side, cols: wide, depth: side, solves: false, pivoted: 0, transposed: turned };
    let mut builder = Builder::on(program, makers, dtype, speeds, extents);
    let rows = x.counts(builder.program).0;
    let frames = x.frame(builder.program) + w.frame(builder.program) + rotations.frame(builder.program);
    plan::capacity(runtime, builder.program, rows * (rows + 1) / 2 * groups, speeds, frames)?;
    let mut kernels = [None, None];
    for j in 0..rows {
        for i in j..rows {
            builder.begin(x, i, j);
            for s in 0..groups {
                if j == 0 {
                    builder.begin(w, i, s);
                }
                let program = &*builder.program;
                let (own, beside) = (x.at(program, i, j), w.at(program, i, s));
                let kept = rotations.at(program, j, s);
                let work = builder.pair() * 3.0 * x.rows_of(program, i) * x.cols_of(program, j);
                let work = work * w.cols_of(program, s);
                let finds = i == j;
                let kernel = *kernels[usize::from(finds)]
                    .get_or_insert_with(|| declare(&mut builder, (own, beside, kept), finds, down));
                let last = if finds { Use::write(kept.tile) } else { Use::read(kept.tile) };
                let operands = [Use::update(own.tile), Use::update(beside.tile), last];
                builder.program.step(kernel, &operands, &[], work);
            }
        }
    }
    if whole {
        for (i, j) in (0..rows).flat_map(|j| (0..j).map(move |i| (i, j))) {
            let above = x.at(builder.program, i, j);
            builder.zero(above);
        }
    }
    let bytes = (n * (n + 1) / 2 + n * count) * dtype.size() as u64;
    Ok(Way {
        remark: format!("tiles of L, each {side} x {side}, one after the other"),
        count: 1,
        frugal: true,
        lower_bound: (bytes as f64, "half of the factor and the update once"),
    })
}

fn declare(
    builder: &mut Builder<'_>,
    (l, v, found): (MatrixTile, MatrixTile, MatrixTile),
    finds: bool,
    down: bool,
) -> u16 {
    let axes = smallvec![l.axes, v.axes, found.axes];
    let made = UpdateKernel { dtype: builder.dtype, finds, down, axes };
    let (name, rate) = (if finds { "find rotations" } else { "rotate" }, builder.rate * ROTATION_RATE);
    builder.program.kernel(name, rate, Arc::new(made))
}

impl Kernel for UpdateKernel {
    // SAFETY: what the caller promises is what the kernels below ask for.
    unsafe fn run(&self, step: Running<'_>) -> Result<()> {
        let Running { tiles, workspace, cancel, .. } = step;
        let [l, v, found] = [0, 1, 2].map(|i| self.axes[i].block(&tiles[i]));
        // SAFETY, of both: the tiles are granted to the step, those that it writes to it alone; a frame has room for its
        // block; different tiles do not overlap, and the workspace is the step's.
        if !self.finds {
            // SAFETY: as above.
            return unsafe { update::apply(self.dtype, (l, v, found), self.down, workspace, cancel) };
        }
        // SAFETY: as above.
        let done = unsafe { update::find(self.dtype, (l, v, found), self.down, workspace, cancel)? };
        let start = self.axes[0].rows.map_or(0, |a| tiles[0].region().start[a]);
        done.map_err(|i| {
            let index = start + i as u64 + 1;
            if self.down { lost(index) } else { not_positive_definite(index) }
        })
    }
}

fn lost(index: u64) -> Error {
    let what = format!(
        "what is left of the matrix is not positive definite: its leading minor of order {index} is not positive, or \
         there is NaN or infinity in its first {index} rows"
    );
    Error::Numerical { what, failure: Failure::NotPositiveDefinite, index }
}
