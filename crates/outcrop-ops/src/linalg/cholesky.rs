//! The Cholesky factorization, left-looking: a block of the factor stays in memory, while the rows of
//! the factor to its left stream past it; then its own columns are finished. Only one half is read and
//! stored.

use super::matrix::{Axes, Matrix, NewArray, Tiles};
use super::steps::{Builder, Kind};
use super::{Job, aligned, side, tile_shape};
use crate::arrays::Target;
use crate::kernels::{Diagonal, Half};
use outcrop_engine::Runtime;
use outcrop_engine::plan;
use outcrop_engine::speeds::Speeds;
use outcrop_store::Result;

/// Programs for the factor L of `A = L L^H` (lower), or U of `A = U^H U` (upper). The other half of A is
/// not read; that of the result is zero, and not stored where the format has no need to.
///
/// # Errors
/// Those of the stores.
pub fn cholesky(runtime: &Runtime, a: &Matrix, half: Half, target: &Target, speeds: Speeds) -> Result<Job> {
    let mut job = Job::new(vec![Some(a.clone()), None]);
    let side = square_side(runtime, a, target);
    let declare = || -> Result<(Builder, Tiles)> {
        let mut builder =
            Builder::new("cholesky", a.dtype(), speeds, (half == Half::Upper, half == Half::Lower));
        let stored = a.declare(&mut builder.program, "A", side, side)?;
        let (shape, tile) = ([a.rows(), a.rows()], tile_shape(2, Axes::MATRIX, side, side));
        let what = NewArray { name: "L", dtype: a.dtype(), shape: &shape, tile: &tile, axes: Axes::MATRIX };
        let l = what.output(&mut builder.program, target, Some(&stored))?;
        // The upper factor is, transposed, the lower factor of the transposed matrix.
        let l = if half == Half::Upper { l.transposed() } else { l };
        builder.extents(side, side, side);
        Ok((builder, l))
    };
    let (mut builder, l) = declare()?;
    for (p, q) in blocks(runtime, &builder, l, speeds)? {
        factor_steps(&mut builder, l, (p, q), &mut |_, _| {});
        builder.extents(side, side, side);
        builder.program.remark = format!("{p} x {q} tiles of L, each {side} x {side}, in memory");
        builder.program.frugal = (p, q) == (1, 1);
        builder.program.lower_bound = Some(lower_bound(runtime, a));
        job.offer(builder);
        builder = declare()?.0;
    }
    Ok(job)
}

/// The side of square tiles: that of A's, as far as three of them are not too much for the budget. As for
/// products, neither threads nor speeds decide it.
pub(super) fn square_side(runtime: &Runtime, a: &Matrix, target: &Target) -> u64 {
    let n = a.rows();
    let own = target.tile().map(|t| t.iter().fold(1, |acc, &x| lcm(acc, x)).min(n.max(1)));
    let size = a.dtype().size() as u64;
    let (rows, cols) = a.tile();
    let large = rows.max(cols);
    let wanted = if !a.is_tiled() {
        side(runtime, size)
    } else if large * large * size * 16 <= runtime.limit() as u64 {
        large
    } else {
        rows.min(cols)
    };
    aligned(wanted, own, n)
}

fn lcm(a: u64, b: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    a / gcd(a, b) * b
}

/// Shapes of the block in memory, in tiles, that promise the least reading.
pub(super) fn blocks(
    runtime: &Runtime,
    builder: &Builder,
    l: Tiles,
    speeds: Speeds,
) -> Result<Vec<(u64, u64)>> {
    let frame = l.frame(&builder.program);
    let n = l.counts(&builder.program).0;
    let count = n * (n + 1) * (n + 2) / 6;
    let capacity = plan::capacity(runtime, &builder.program, count, speeds, 3 * frame)?;
    let tiles = (capacity / frame) as u64;
    let mut found: Vec<(u64, u64, u64)> = Vec::new();
    for q in 1..=n.max(1) {
        // A slice of rows, and of columns one tile in use and one on its way.
        let p = (tiles.saturating_sub(2) / (q + 1)).clamp(1, n.max(1));
        if p * q + p + 2 > tiles && q > 1 {
            break;
        }
        found.push((tiles_read(n, p, q), p, q));
    }
    found.sort_unstable();
    found.dedup_by_key(|f| f.0);
    found.truncate(super::candidates(count));
    let found = found.into_iter().map(|(_, p, q)| (p, q));
    Ok(super::with_the_least(runtime, found, capacity, 3 * frame, count))
}

/// Tiles of the factor that are read back, where `p` x `q` stay in memory.
fn tiles_read(n: u64, p: u64, q: u64) -> u64 {
    let mut reads = 0;
    for j0 in (0..n).step_by(q as usize) {
        let cols = q.min(n - j0);
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
    builder: &mut Builder,
    l: Tiles,
    (p, q): (u64, u64),
    finished: &mut dyn FnMut(&mut Builder, (u64, u64)),
) {
    let n = l.counts(&builder.program).0;
    let solve = Kind::Solve { half: Half::Lower, diagonal: Diagonal::Stored, conj: true, right: true };
    for j0 in (0..n).step_by(q as usize) {
        let j1 = (j0 + q).min(n);
        for i0 in (j0..n).step_by(p as usize) {
            let i1 = (i0 + p).min(n);
            for j in j0..j1.min(i1) {
                for i in i0.max(j)..i1 {
                    builder.begin(l, i, j);
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
                    let tile = l.at(&builder.program, k, k);
                    let order = l.rows_of(&builder.program, k);
                    builder.factor(tile, order);
                    finished(builder, (k, k));
                }
                for i in i0.max(k + 1)..i1 {
                    let program = &builder.program;
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
fn update(builder: &mut Builder, l: Tiles, (i, j, k): (u64, u64, u64)) {
    let program = &builder.program;
    let (c, a) = (l.at(program, i, j), l.at(program, i, k));
    let (m, depth) = (l.rows_of(program, i), l.rows_of(program, k));
    if i == j {
        builder.square(c, a, m, depth);
    } else {
        let (b, n) = (l.transposed().at(program, k, j), l.rows_of(program, j));
        builder.product((c, a, b), (true, -1.0), (false, true), (m, n, depth));
    }
}

/// Bytes that any schedule reads: what the factorization needs with so much memory, and at least the
/// matrix once.
pub(super) fn lower_bound(runtime: &Runtime, a: &Matrix) -> (f64, &'static str) {
    let size = a.dtype().size() as f64;
    let memory = (runtime.limit() as f64 / size).max(1.0);
    let n = a.rows() as f64;
    let (moved, once) = (n.powi(3) / (3.0 * (2.0 * memory).sqrt()), n * (n + 1.0) / 2.0);
    if moved > once {
        (moved * size, "n^3/(3 sqrt(2M)) elements, Beaumont et al. 2022")
    } else {
        (once * size, "half of the matrix once")
    }
}
