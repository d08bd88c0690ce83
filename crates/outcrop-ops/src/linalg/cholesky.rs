//! The Cholesky factorization, left-looking: a block of the factor stays in memory, while the rows of
//! the factor to its left stream past it; then its own columns are finished. Only one half is read and
//! stored.

use super::matrix::{Columns, Tiles};
use super::steps::{Builder, Extents, Kind};
use super::{Place, Way, side};
use crate::kernels::{Diagonal, Half};
use outcrop_engine::Runtime;
use outcrop_engine::plan;
use outcrop_engine::plan::speeds::Speeds;
use outcrop_engine::program::Program;
use outcrop_store::Result;
use std::ops::Range;

/// Adds the factor L of `A = L L^H` (lower), or U of `A = U^H U` (upper). The other half of A is not read. That of the
/// result is zero: its tiles are written if it is used as a `whole`.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn cholesky(place: Place<'_>, (l, a): (Tiles, Tiles), half: Half, whole: bool) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let l = l.beginning_as(program, a);
    // The upper factor is, transposed, the lower factor of the transposed matrix.
    let l = if half == Half::Upper { l.transposed() } else { l };
    let (side, _) = l.tile(program);
    let turned = l.axes().is_transposed();
    let mut builder = Builder::on(program, makers, l.dtype(program), speeds, extents(side, side, turned));
    let ways = blocks(runtime, builder.program, Columns::all(l), speeds)?;
    let (p, q) = super::chosen(&ways, way);
    factor_steps(&mut builder, Columns::all(l), (p, q), &mut |_, _| {});
    if whole {
        let n = l.counts(builder.program).0;
        for (i, j) in (0..n).flat_map(|j| (0..j).map(move |i| (i, j))) {
            let above = l.at(builder.program, i, j);
            builder.zero(above);
        }
    }
    Ok(Way {
        remark: format!("{p} x {q} tiles of L, each {side} x {side}, in memory"),
        count: ways.len(),
        frugal: (p, q) == (1, 1),
        lower_bound: lower_bound(runtime, builder.program, a),
    })
}

/// Adds the next columns of the factor L of `A = L L^H` (lower), or rows of U of `A = U^H U` (upper), of which those
/// before are `done`. `l` and `a` are these columns, or rows, alone.
///
/// # Errors
/// [`outcrop_store::Error::Budget`] where there is no memory for the steps.
pub fn cholesky_columns(
    place: Place<'_>,
    (l, done, a): (Tiles, Option<Tiles>, Tiles),
    half: Half,
) -> Result<Way> {
    let Place { runtime, program, speeds, way, makers } = place;
    let l = l.beginning_as(program, a);
    let (l, done) = match half {
        Half::Lower => (l, done),
        Half::Upper => (l.transposed(), done.map(Tiles::transposed)),
    };
    let (side, _) = l.tile(program);
    let turned = l.axes().is_transposed();
    let mut builder = Builder::on(program, makers, l.dtype(program), speeds, extents(side, side, turned));
    let columns = Columns::after_squares(done, l, builder.program)?;
    let ways = blocks(runtime, builder.program, columns, speeds)?;
    let (p, q) = super::chosen(&ways, way);
    factor_steps(&mut builder, columns, (p, q), &mut |_, _| {});
    Ok(Way {
        remark: format!("{p} x {q} tiles of L, each {side} x {side}, in memory"),
        count: ways.len(),
        frugal: (p, q) == (1, 1),
        lower_bound: lower_bound(runtime, builder.program, a),
    })
}

/// Extents of steps that factor a matrix with square tiles, which lies column by column if it is `turned`, or change as
/// many rows of something else.
pub(super) fn extents(side: u64, cols: u64, turned: bool) -> Extents {
    Extents { rows: side, cols, depth: side, solves: true, pivoted: 0, transposed: (turned, !turned) }
}

/// The side of square tiles of a matrix, of which these are the extents on disk, as far as it is cut there: the larger
/// one, as far as three such tiles are not too much for the budget. Neither threads nor speeds decide it: the result
/// depends on it in its last bits.
pub fn square_side(runtime: &Runtime, itemsize: u64, tile: Option<(u64, u64)>) -> u64 {
    match tile {
        None => side(runtime, itemsize),
        Some((rows, cols)) => {
            let large = rows.max(cols);
            if large * large * itemsize * 16 <= runtime.limit() as u64 { large } else { rows.min(cols) }
        }
    }
}

/// Shapes of the block in memory, in tiles, that promise the least reading.
pub(super) fn blocks(
    runtime: &Runtime,
    program: &Program,
    l: Columns,
    speeds: Speeds,
) -> Result<Vec<(u64, u64)>> {
    let frame = l.frame(program);
    let (n, end) = l.counts(program);
    let count = (l.first..end).map(|j| (n - j) * (j + 1)).sum();
    let capacity = plan::capacity(runtime, program, count, speeds, 3 * frame)?;
    let tiles = (capacity / frame) as u64;
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for q in 1..=end - l.first {
        // A slice of rows, and of columns one tile in use and one on its way.
        let p = (tiles.saturating_sub(2) / (q + 1)).clamp(1, n);
        if p * q + p + 2 > tiles && q > 1 {
            break;
        }
        found.push((tiles_read(n, l.first..end, p, q), p, q));
    }
    found.sort_unstable();
    found.dedup_by_key(|f| f.0);
    found.truncate(super::candidates(count));
    let found = found.into_iter().map(|(_, p, q)| (p, q));
    Ok(super::with_the_least(runtime, found, capacity, 3 * frame, count))
}

/// Tiles of the factor that are read back, where `p` x `q` stay in memory.
fn tiles_read(n: u64, columns: Range<u64>, p: u64, q: u64) -> u64 {
    let mut reads = 0;
    for j0 in columns.clone().step_by(q as usize) {
        let cols = q.min(columns.end - j0);
        for i0 in (j0..n).step_by(p as usize) {
            let rows = p.min(n - i0);
            let shared = if i0 == j0 { cols.min(rows) } else { 0 };
            let triangle = if i0 == j0 { 0 } else { cols * (cols + 1) / 2 };
            reads += (rows + cols - shared) * j0 + triangle;
        }
    }
    reads
}

/// Adds the steps that turn the tiles of `l`, which hold the lower half of a matrix, into its factor.
/// `finished` is called for each tile of the factor when its last step has been added.
pub(super) fn factor_steps(
    builder: &mut Builder<'_>,
    l: Columns,
    (p, q): (u64, u64),
    finished: &mut dyn FnMut(&mut Builder<'_>, (u64, u64)),
) {
    let (n, end) = l.counts(builder.program);
    let solve = Kind::Solve { half: Half::Lower, diagonal: Diagonal::Stored, conj: true, right: true };
    for j0 in (l.first..end).step_by(q as usize) {
        let j1 = (j0 + q).min(end);
        for i0 in (j0..n).step_by(p as usize) {
            let i1 = (i0 + p).min(n);
            for j in j0..j1.min(i1) {
                let (own, col) = l.own(j);
                for i in i0.max(j)..i1 {
                    builder.begin(own, i, col);
                }
            }
            for k in 0..j0 {
                for j in j0..j1.min(i1) {
                    for i in i0.max(j)..i1 {
                        update(builder, l, (i, j, k));
                    }
                }
            }
            for k in j0..j1.min(i1) {
                if k >= i0 {
                    let tile = l.at(builder.program, k, k);
                    let order = l.rows_of(builder.program, k);
                    builder.factor(tile, order);
                    finished(builder, (k, k));
                }
                for i in i0.max(k + 1)..i1 {
                    let program = &*builder.program;
                    let (x, t) = (l.at(program, i, k), l.at(program, k, k));
                    let (order, rows) = (l.rows_of(program, k), l.rows_of(program, i));
                    builder.solve(solve, x, t, order, rows);
                    finished(builder, (i, k));
                }
                for j in k + 1..j1.min(i1) {
                    for i in i0.max(j)..i1 {
                        update(builder, l, (i, j, k));
                    }
                }
            }
        }
    }
}

/// Subtracts from the tile at (i, j) what column k of tiles takes from it.
fn update(builder: &mut Builder<'_>, l: Columns, (i, j, k): (u64, u64, u64)) {
    let program = &*builder.program;
    let (c, a) = (l.at(program, i, j), l.at(program, i, k));
    let (m, depth) = (l.rows_of(program, i), l.rows_of(program, k));
    if i == j {
        builder.square(c, a, m, depth);
    } else {
        let (b, n) = (l.at(program, j, k).transposed(), l.rows_of(program, j));
        builder.product((c, a, b), (true, -1.0), (false, true), (m, n, depth));
    }
}

/// Bytes that any schedule reads: what the factorization needs with so much memory, and at least the
/// matrix once.
pub(super) fn lower_bound(runtime: &Runtime, program: &Program, a: Tiles) -> (f64, &'static str) {
    let (n, _) = a.shape(program);
    let size = super::read_size(program, a.dtype(program), n * n);
    let memory = (runtime.limit() as f64 / size).max(1.0);
    let n = n as f64;
    let (moved, once) = (n.powi(3) / (3.0 * (2.0 * memory).sqrt()), n * (n + 1.0) / 2.0);
    if moved > once {
        (moved * size, "n^3/(3 sqrt(2M)) elements, Beaumont et al. 2022")
    } else {
        (once * size, "half of the matrix once")
    }
}
