//! Triangular systems: a block of right-hand sides stays in memory, the triangle streams past it.

use super::cholesky::square_side;
use super::matrix::{Matrix, NewArray, Tiles};
use super::steps::{Builder, Kind};
use super::{Job, aligned, tile_shape};
use crate::arrays::Target;
use crate::boxes::access::canvas_on;
use crate::kernels::{self, Block, Diagonal, Half};
use outcrop_engine::Runtime;
use outcrop_engine::plan;
use outcrop_engine::speeds::Speeds;
use outcrop_store::Result;
use outcrop_store::io::Cancel;

/// A triangular matrix, as it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangle {
    /// The half that is not zero.
    pub half: Half,
    /// Its diagonal.
    pub diagonal: Diagonal,
    /// Whether its elements count as their conjugates.
    pub conj: bool,
}

/// Programs for X of `T X = B`. The other half of T is not read. T may be the transposed of what is
/// stored; `what.half` is then that of the transposed matrix.
///
/// # Errors
/// Those of the stores.
pub fn solve_triangular(
    runtime: &Runtime,
    t: &Matrix,
    what: Triangle,
    b: &Matrix,
    shape: &[u64],
    target: &Target,
    speeds: Speeds,
) -> Result<Job> {
    let mut job = Job::new(vec![Some(t.clone()), Some(b.clone()), None]);
    let (side, width) = tile(runtime, t, b, shape, target);
    job.triangle = Some((t.clone(), side));
    let declare = || -> Result<(Builder, Tiles, Tiles)> {
        let mut builder =
            Builder::new("solve_triangular", t.dtype(), speeds, (t.axes.is_transposed(), false));
        let stored = t.declare(&mut builder.program, "T", side, side)?;
        let x = declare_solution(&mut builder, b, shape, target, (side, width))?;
        builder.extents(side, width, side);
        Ok((builder, stored, x))
    };
    let (mut builder, tt, x) = declare()?;
    for (p, w) in blocks(runtime, &builder, tt, x, speeds)? {
        solve_steps(&mut builder, tt, what, (x, true), (p, w));
        builder.extents(side, width, side);
        builder.program.remark = format!("{p} x {w} tiles of X, each {side} x {width}, in memory");
        let bytes = (t.rows() * (t.rows() + 1) / 2 + b.rows() * b.cols()) * t.dtype().size() as u64;
        builder.program.frugal = (p, w) == (1, 1);
        builder.program.lower_bound =
            Some((bytes as f64, "half of the triangle and the right-hand sides once"));
        job.offer(builder);
        builder = declare()?.0;
    }
    Ok(job)
}

/// The first zero on the diagonal of a stored matrix, counted from 1 as LAPACK does. A system that is
/// solved upwards meets the last one first.
pub(super) fn first_zero(runtime: &Runtime, t: &Matrix, side: u64) -> Result<Option<u64>> {
    let dtype = t.dtype();
    for start in (0..t.rows()).step_by(side as usize) {
        let extent = side.min(t.rows() - start);
        let mut region = t.region.clone();
        for axis in [t.axes.rows, t.axes.cols].into_iter().flatten() {
            region.start[axis] += start;
            region.shape[axis] = extent;
        }
        let frame = runtime.frame(t.store.info().box_bytes(&region.shape) as usize, "looking for a zero")?;
        // SAFETY: the frame has room for the box, and nobody else has it.
        let canvas = unsafe { canvas_on(&frame, &region, dtype.size()) };
        let mut mover = runtime.mover(
            t.store.staging_of(&region.shape).max(t.store.staging(false).least),
            "looking for a zero",
            &Cancel::default(),
        )?;
        t.store.load(&mut mover, &canvas)?;
        let block = Block::row_major(frame.as_ptr(), extent as usize, extent as usize, extent as usize);
        // SAFETY: the box was loaded.
        if let Some(i) = unsafe { kernels::first_zero_diagonal(dtype, block) } {
            return Ok(Some(start + i as u64 + 1));
        }
    }
    Ok(None)
}

/// Declares right-hand sides, and the solution that starts as they are.
pub(super) fn declare_solution(
    builder: &mut Builder,
    b: &Matrix,
    shape: &[u64],
    target: &Target,
    (side, width): (u64, u64),
) -> Result<Tiles> {
    let given = b.declare(&mut builder.program, "B", side, width)?;
    let axes = super::result_axes(shape, true);
    let tile = tile_shape(shape.len(), axes, side, width);
    let new = NewArray { name: "X", dtype: b.dtype(), shape, tile: &tile, axes };
    new.output(&mut builder.program, target, Some(&given))
}

/// Extents of tiles: the side of those of T, and the columns of those of X.
fn tile(runtime: &Runtime, t: &Matrix, b: &Matrix, shape: &[u64], target: &Target) -> (u64, u64) {
    let own = target.tile();
    let axes = super::result_axes(shape, true);
    let own = |axis: Option<usize>| own.as_ref().and_then(|o| axis.map(|x| o[x]));
    let free = Target::New { tile: None, labels: Default::default() };
    let side = aligned(square_side(runtime, t, &free), own(axes.rows), t.rows());
    (side, width(b, own(axes.cols), side))
}

/// Columns of a tile of right-hand sides.
pub(super) fn width(b: &Matrix, own: Option<u64>, side: u64) -> u64 {
    let wanted = if b.is_tiled() { b.tile().1 } else { side };
    aligned(wanted.min(2 * side), own, b.cols())
}

/// Shapes of the block of X in memory, in tiles, that promise the least reading.
pub(super) fn blocks(
    runtime: &Runtime,
    builder: &Builder,
    t: Tiles,
    x: Tiles,
    speeds: Speeds,
) -> Result<Vec<(u64, u64)>> {
    let program = &builder.program;
    let (ft, fx) = (t.frame(program), x.frame(program));
    let (n, m) = x.counts(program);
    let (n, m) = (n.max(1), m.max(1));
    let count = n * (n + 1) / 2 * m;
    let capacity = plan::capacity(runtime, program, count, speeds, ft + 2 * fx)?;
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for groups in 1..=m {
        let w = m.div_ceil(groups);
        let triangle = groups * n * n / 2 * ft as u64;
        let whole = (n * w) as usize * fx + 2 * ft;
        if whole <= capacity {
            found.push((triangle, 1, w));
            break;
        }
        // A block of p rows, one row of finished tiles, and two tiles of T.
        let left = capacity.saturating_sub(2 * ft) / (w as usize * fx);
        let p = (left as u64).saturating_sub(1).clamp(1, n);
        found.push((triangle + groups * w * n * n / (2 * p) * fx as u64, p, w));
        if w == 1 {
            break;
        }
    }
    found.sort_unstable();
    found.truncate(super::candidates(count));
    let found = found.into_iter().map(|(_, p, w)| (p, w));
    Ok(super::with_the_least(runtime, found, capacity, ft + 2 * fx, count))
}

/// Adds the steps that turn the tiles of `x` into the solution; where `given`, they get the right-hand
/// sides first.
pub(super) fn solve_steps(
    builder: &mut Builder,
    t: Tiles,
    what: Triangle,
    (x, given): (Tiles, bool),
    (p, w): (u64, u64),
) {
    let (n, m) = x.counts(&builder.program);
    let solve = Kind::Solve { half: what.half, diagonal: what.diagonal, conj: what.conj, right: false };
    // In the order in which rows are found: downwards for a lower triangle.
    let row = |i: u64| if what.half == Half::Lower { i } else { n - 1 - i };
    for s0 in (0..m).step_by(w as usize) {
        let cols = s0..(s0 + w).min(m);
        for i0 in (0..n).step_by(p as usize) {
            let i1 = (i0 + p).min(n);
            if given {
                for i in i0..i1 {
                    cols.clone().for_each(|s| builder.begin(x, row(i), s));
                }
            }
            for k in 0..i1 {
                if k >= i0 {
                    for s in cols.clone() {
                        let program = &builder.program;
                        let (tile, diagonal) = (x.at(program, row(k), s), t.at(program, row(k), row(k)));
                        let extents = (x.rows_of(program, row(k)), x.cols_of(program, s));
                        builder.solve(solve, tile, diagonal, extents.0, extents.1);
                    }
                }
                for i in i0.max(k + 1)..i1 {
                    for s in cols.clone() {
                        subtract(builder, t, what.conj, x, (row(i), row(k), s));
                    }
                }
            }
        }
    }
}

/// `x(i, s) -= t(i, k) x(k, s)`.
pub(super) fn subtract(builder: &mut Builder, t: Tiles, conj: bool, x: Tiles, (i, k, s): (u64, u64, u64)) {
    let program = &builder.program;
    let tiles = (x.at(program, i, s), t.at(program, i, k), x.at(program, k, s));
    let extents = (x.rows_of(program, i), x.cols_of(program, s), x.rows_of(program, k));
    builder.product(tiles, (true, -1.0), (conj, false), extents);
}
