//! Triangular systems: a block of right-hand sides stays in memory, the triangle streams past it.

use super::matrix::Tiles;
use super::steps::{Builder, Extents, Kind};
use super::{Place, Way};
use crate::kernels::{Diagonal, Half};
use outcrop_engine::Runtime;
use outcrop_engine::plan;
use outcrop_engine::plan::speeds::Speeds;
use outcrop_engine::program::Program;
use outcrop_store::Result;

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

/// Adds X of `T X = B`. The other half of T is not read.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn solve_triangular(place: Place<'_>, (x, t, b): (Tiles, Tiles, Tiles), what: Triangle) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let x = x.beginning_as(program, b);
    let (side, width) = x.tile(program);
    let transposed = (t.axes().is_transposed(), false);
    let extents = Extents { rows: side, cols: width, depth: side, solves: true, pivoted: 0, transposed };
    let dtype = x.dtype(program);
    let mut builder = Builder::on(program, makers, dtype, speeds, extents);
    let ways = blocks(runtime, builder.program, t, x, speeds)?;
    let (p, w) = super::chosen(&ways, way);
    let ((n, _), (_, columns)) = (t.shape(builder.program), b.shape(builder.program));
    solve_steps(&mut builder, t, what, (x, Some(&mut |builder, (i, s)| builder.begin(x, i, s))), (p, w));
    let bytes = (n * (n + 1) / 2 + n * columns) * dtype.size() as u64;
    Ok(Way {
        remark: format!("{p} x {w} tiles of X, each {side} x {width}, in memory"),
        count: ways.len(),
        frugal: (p, w) == (1, 1),
        lower_bound: (bytes as f64, "half of the triangle and the right-hand sides once"),
    })
}

/// Shapes of the block of X in memory, in tiles, that promise the least reading.
pub(super) fn blocks(
    runtime: &Runtime,
    program: &Program,
    t: Tiles,
    x: Tiles,
    speeds: Speeds,
) -> Result<Vec<(u64, u64)>> {
    let (ft, fx) = (t.frame(program), x.frame(program));
    let (n, m) = x.counts(program);
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
        if left < 2 && w > 1 {
            continue;
        }
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

/// Adds the step that gives a tile what it begins as.
pub(super) type Begin<'b> = &'b mut dyn FnMut(&mut Builder<'_>, (u64, u64));

/// Adds the steps that turn the tiles of `x` into the solution, of the right-hand sides that they get first where it
/// is said how.
pub(super) fn solve_steps(
    builder: &mut Builder<'_>,
    t: Tiles,
    what: Triangle,
    (x, mut given): (Tiles, Option<Begin<'_>>),
    (p, w): (u64, u64),
) {
    let (n, m) = x.counts(builder.program);
    let solve = Kind::Solve { half: what.half, diagonal: what.diagonal, conj: what.conj, right: false };
    // In the order in which rows are found: downwards for a lower triangle.
    let row = |i: u64| if what.half == Half::Lower { i } else { n - 1 - i };
    for s0 in (0..m).step_by(w as usize) {
        let cols = s0..(s0 + w).min(m);
        for i0 in (0..n).step_by(p as usize) {
            let i1 = (i0 + p).min(n);
            if let Some(begin) = &mut given {
                for i in i0..i1 {
                    cols.clone().for_each(|s| begin(builder, (row(i), s)));
                }
            }
            for k in 0..i1 {
                if k >= i0 {
                    builder.fetch(t, row(k), row(k));
                    for s in cols.clone() {
                        let program = &*builder.program;
                        let (tile, diagonal) = (x.at(program, row(k), s), t.at(program, row(k), row(k)));
                        let extents = (x.rows_of(program, row(k)), x.cols_of(program, s));
                        builder.solve(solve, tile, diagonal, extents.0, extents.1);
                    }
                }
                for i in i0.max(k + 1)..i1 {
                    builder.fetch(t, row(i), row(k));
                    for s in cols.clone() {
                        subtract(builder, t, what.conj, x, (row(i), row(k), s));
                    }
                }
            }
        }
    }
}

/// `x(i, s) -= t(i, k) x(k, s)`.
pub(super) fn subtract(
    builder: &mut Builder<'_>,
    t: Tiles,
    conj: bool,
    x: Tiles,
    (i, k, s): (u64, u64, u64),
) {
    let program = &*builder.program;
    let tiles = (x.at(program, i, s), t.at(program, i, k), x.at(program, k, s));
    let extents = (x.rows_of(program, i), x.cols_of(program, s), x.rows_of(program, k));
    builder.product(tiles, (true, -1.0), (conj, false), extents);
}
